"""`reticent pate`: from two files to a folder, and one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    for name, rows in (("private", 2500), ("public", 300)):
        x = chance.uniform(0, 100, (rows, 2))
        lines = [f"{a:.1f};{b:.1f};{'high' if a + b > 100 else 'low'}" for a, b in x]
        (tmp_path / f"{name}.csv").write_text("first;second;level\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_pate_writes_a_run_and_a_private_picture(reticent, tables: Path) -> None:
    folder = tables / "run"
    words = ("--public", tables / "public.csv", "--target", "level", "--teachers", 30, "--epsilon", 4)
    code, out, err = reticent("pate", tables / "private.csv", *words, "-o", folder, "--json")
    assert code == 0, err
    record = json.loads(out)
    assert record["guarantee"]["epsilon"] <= 4
    assert "not for publication" in err
    assert (folder / "votes-unreleased.svg").stat().st_size > 1000
    code, out, _ = reticent("show", folder)
    assert "pate: 30 teachers" in out
    code, out, err = reticent("pate", "--resume", folder)
    assert (code, "finished already" in err) == (0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("private.csv", "--target", "level", "--epsilon", 2), "a private table, a public one"),
        (
            ("private.csv", "--public", "public.csv", "--target", "level", "--epsilon", 2, "--teachers", 900),
            "Ask for at most",
        ),
        (
            ("private.csv", "--public", "private.csv", "--target", "depth", "--epsilon", 2),
            "depth",
        ),
    ],
)
def test_mistakes_are_one_line(
    reticent, tables: Path, monkeypatch: pytest.MonkeyPatch, words: tuple, said: str
) -> None:
    monkeypatch.chdir(tables)
    code, out, err = reticent("pate", *words, "-o", tables / "run")
    assert code == 1
    assert said in err
    assert not out
    assert len(err.strip().splitlines()) == 1
    assert not (tables / "run").exists()
