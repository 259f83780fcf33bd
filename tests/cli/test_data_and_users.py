"""`--data` and `--user` at a terminal: the right table, and whose privacy is meant."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Label, Number
from reticent.runs.fit import fit
from reticent.runs.request import Request


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four visits of each patient."""
    random = np.random.default_rng(0)
    rows = [
        f"P{patient:04d},{random.normal(5, 2):.2f},{'uv'[patient % 2]},{'yes' if patient % 2 else 'no'}"
        for _ in range(4)
        for patient in range(240)
    ]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["patient,x,ward,ill", *rows]) + "\n")
    columns = {
        "x": Number(bounds=(0.0, 10.0)),
        "ward": Category(values=("u", "v")),
        "ill": Label(values=("no", "yes")),
    }
    Domain(columns=columns, target="ill").write(path.with_suffix(".toml"))
    return path


def test_a_reordered_table_is_refused_and_a_moved_one_is_found(reticent, table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    request = Request(
        source=str(table), epsilon=4.0, target="ill", domain=str(table.with_suffix(".toml")), method="output"
    )
    fit(request, run, keys=Keys.seeded(0))
    moved = table.rename(tmp_path / "moved.csv")
    head, *rows = moved.read_text().splitlines()
    table.write_text("\n".join([head, *sorted(rows)]) + "\n")
    for command in (("attack", run, "--shadows", 0), ("audit", run)):
        code, _, err = reticent(*command)
        assert code == 1
        assert "has the rows that" in err
        assert "in another order" in " ".join(err.split())
    code, _, err = reticent("attack", run, "--shadows", 0, "--data", moved, "--json")
    assert code == 0, err
    code, _, err = reticent("train", moved, "--data", moved, "--epsilon", 1, "-o", tmp_path / "other")
    assert code == 1
    assert "--resume" in err
    code, _, err = reticent("attack", "--scores", moved, "--data", moved)
    assert code == 1
    assert "no run was given" in err


@pytest.mark.thorough
def test_privacy_for_users(reticent, table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--domain", table.with_suffix(".toml"), "--user", "patient")
    learn = ("train", table, "--target", "ill", "--epsilon", 4, *words)
    code, _, err = reticent(*learn, "-o", run)
    assert code == 1
    assert "--rows-per-user 10" in err
    code, out, err = reticent(*learn, "--rows-per-user", 3, "--method", "gd", "--test", 0.5, "-o", run)
    assert code == 0, err
    assert "one user with up to 3 rows" in " ".join(out.split())
    assert "120 of 240 users" in " ".join(out.split())
    code, out, err = reticent("attack", run, "--json")
    assert code == 0, err
    assert not json.loads(out).get("shadows")
    code, out, err = reticent("audit", run, "--confidence", 0.9999, "--json")
    assert code == 0, err  # wrong by chance once in 10,000
    found = json.loads(out)
    assert found["canaries"]["rows_each"] == 3
    assert found["guarantee"]["unit"] == "user"
    goal = tmp_path / "s.csv"
    make = ("synth", table, "--epsilon", 30, *words, "--rows-per-user", 2, "--rows", 20, "-o", goal)
    code, out, err = reticent(*make)
    assert code == 0, err
    assert "one user with up to 2 rows" in " ".join(out.split())
    assert goal.read_text().splitlines()[0] == "x,ward,ill"


def test_no_rows_are_refused_before_they_are_paid_for(reticent, table: Path, tmp_path: Path) -> None:
    code, _, err = reticent("synth", table, "--epsilon", 30, "--rows", 0, "-o", tmp_path / "s.csv")
    assert code == 1
    assert "--rows 0 leaves nothing to write" in err
    assert not (tmp_path / "s.generator").exists()
