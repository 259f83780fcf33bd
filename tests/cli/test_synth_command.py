"""`reticent synth`: from a file to a file like it, and one line for a mistake."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from reticent.ledger.ledger import Ledger


@pytest.fixture
def table(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    lines = ["age;smoker;ill"]
    for _ in range(4000):
        smoker = chance.random() < 0.4
        ill = chance.random() < 0.2 + 0.5 * smoker
        lines.append(f"{chance.integers(20, 90)};{'yes' if smoker else 'no'};{'yes' if ill else 'no'}")
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_rows_like_the_original_a_card_and_more_rows(reticent, table: Path, tmp_path: Path) -> None:
    goal = tmp_path / "synthetic.csv"
    words = ("synth", table, "--epsilon", 4, "--rows", 400, "--target", "ill", "--evaluate", "-o", goal)
    code, out, err = reticent(*words)
    assert code == 0, err
    assert "not to be published" in " ".join(out.split())
    assert "found privately" in err
    with open(goal, newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert list(rows[0]) == ["age", "smoker", "ill"]
    assert len(rows) == 400
    assert all(row["age"].lstrip("-").isdigit() for row in rows if row["age"])  # whole, as in the original
    card = json.loads((tmp_path / "synthetic.csv.card.json").read_text())
    assert card["guarantee"]["epsilon"] <= 4
    folder = tmp_path / "synthetic.generator"
    code, out, err = reticent("synth", "--from", folder, "--rows", 7, "-o", tmp_path / "more.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 7
    assert len((tmp_path / "more.csv").read_text().splitlines()) == 8
    code, out, _ = reticent("show", folder)
    assert "generator" in out
    code, out, err = reticent("synth", "--resume", folder)  # finished, and no place for rows was named
    assert code == 0, err
    assert f"No rows were written. Rows at no cost: reticent synth --from {folder} --rows N -o FILE" in err
    for command in (("predict", folder, table), ("attack", folder), ("audit", folder)):
        code, out, err = reticent(*command)
        assert code == 1
        assert f"holds a generator, not a model. Sample from it: reticent synth --from {folder}" in err
    code, out, err = reticent("report", folder)
    assert code == 0, err
    assert "synthetic" in (folder / "report.html").read_text()


def test_what_is_left_out_is_warned_about_once_and_listed_in_the_card(
    reticent, table: Path, tmp_path: Path
) -> None:
    head, *body = table.read_text().splitlines()
    lines = [f"{head};patient;city", *(f"{line};P-{n:05d};Bonn" for n, line in enumerate(body))]
    table.write_text("\n".join(lines) + "\n")
    goal = tmp_path / "synthetic.csv"
    code, _, err = reticent("synth", table, "--epsilon", 6, "--rows", 50, "--ignore", "city", "-o", goal)
    assert code == 0, err
    warnings = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert len([line for line in warnings if "patient" in line]) == 1, warnings
    assert not any("city" in line for line in warnings)
    card = json.loads((tmp_path / "synthetic.csv.card.json").read_text())
    assert card["left out"] == ["patient", "city"]
    assert goal.read_text().splitlines()[0] == "age;smoker;ill"


def test_a_ledger_that_does_not_cover_it_names_an_epsilon_that_it_covers(
    reticent, table: Path, tmp_path: Path
) -> None:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=2.0, delta=1e-5)
    words = (
        "synth",
        table,
        "--rows",
        50,
        "--delta",
        1e-5,
        "--ledger",
        path,
        "--dataset",
        "patients",
        "-o",
        tmp_path / "s.csv",
    )
    code, _, err = reticent(*words, "--epsilon", 4)
    assert code == 3
    found = re.search(r"Ask for --epsilon ([\d.]+), which still fits", err)
    assert found, err
    code, _, err = reticent(*words, "--epsilon", found[1])
    assert code == 0, err
    with Ledger.open(path) as ledger:
        ledger.limit("patients", epsilon=20.0, delta=1e-5)
    words = (*words[:-1], tmp_path / "more.csv")
    code, _, err = reticent(*words, "--epsilon", 1)  # epsilon is left, and next to no delta
    assert code == 3
    assert (
        "No smaller --epsilon fits at delta 1e-05. Ask for a smaller --delta, or have the limit raised" in err
    )
    code, _, err = reticent(*words, "--epsilon", 1, "--delta", 1e-7)
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("patients.csv", "--epsilon", 1), "a place to go"),
        (("patients.csv", "--epsilon", 1, "-o", "patients.csv"), "exists already"),
        (("patients.csv", "--epsilon", 1, "-o", "no/such/folder.csv"), "no folder"),
        (("patients.csv", "--epsilon", 1, "-o", "s.csv", "--ignore", "name"), "name"),
        (("patients.csv", "--epsilon", 1, "-o", "s.csv", "--method", "gan"), "not for a table"),
        (("patients.csv", "--epsilon", 0.01, "-o", "s.csv"), "too few"),
        (("--from", "nowhere", "--rows", 3, "-o", "s.csv"), "or synth (FILE.generator)"),
        (("--from", "nowhere", "--epsilon", 3, "-o", "s.csv"), "a generator as it is, and --epsilon would"),
        (("--resume", "nowhere"), "nowhere holds no run"),
        (("--from", "nowhere", "--resume", "nowhere"), "--resume would ask for something else"),
    ],
)
def test_mistakes_are_one_line(
    reticent, table: Path, monkeypatch: pytest.MonkeyPatch, words: tuple, said: str
) -> None:
    monkeypatch.chdir(table.parent)
    before = sorted(path.name for path in table.parent.iterdir())
    code, out, err = reticent("synth", *words)
    assert code == 1
    assert said in err
    assert not out
    assert sorted(path.name for path in table.parent.iterdir()) == before


def test_what_the_table_shows_may_be_taken_as_public(reticent, table: Path, tmp_path: Path) -> None:
    head, *lines = table.read_text().splitlines()
    table.write_text("\n".join([head, *lines[:300]]) + "\n")
    words = ("synth", table, "--epsilon", 4, "--rows", 30, "-o", tmp_path / "s.csv")
    code, _, err = reticent(*words)
    assert code == 1
    line = next(line for line in err.splitlines() if line.startswith("As a line to paste: reticent "))
    code, out, err = reticent(*shlex.split(line.partition("reticent ")[2]))
    assert code == 0, err
    assert "what was read off the data is public" in " ".join(out.split())
