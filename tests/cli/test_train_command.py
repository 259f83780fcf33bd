"""`reticent train`, `predict`, `show`: from a file to a folder and back, and one line for a mistake."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from reticent.cli import train
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian
from reticent.runs.methods.table import METHODS


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, (2000, 2))
    lines = [f"{a:.1f};{b:.1f};{'high' if a + b > 100 else 'low'}" for a, b in x]
    path = tmp_path / "values.csv"
    path.write_text("first;second;level\n" + "\n".join(lines) + "\n")
    return path


def test_train_show_and_predict(reticent, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, out, err = reticent("train", table, "--target", "level", "--epsilon", 4, "-o", folder)
    assert code == 0, err
    assert "classes of 'level': 'high', 'low'." in err
    assert "-differential privacy for adding or removing one record" in " ".join(out.split())
    assert "not covered by the guarantee" in " ".join(out.split())
    code, out, _ = reticent("show", folder, "--json")
    record = json.loads(out)
    assert (code, record["state"]) == (0, "finished")
    assert record["guarantee"]["epsilon"] <= 4
    new = tmp_path / "new.csv"
    new.write_text("first;second\n95;90\n3;4\n")
    goal = tmp_path / "predictions.csv"
    assert reticent("predict", folder, new, "-o", goal)[0] == 0
    with open(goal, newline="") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == ["high", "low"]
    code, _, err = reticent("predict", folder, new, "-o", goal)
    assert (code, "--force" in err) == (1, True)


def test_a_ledger_that_does_not_cover_it_is_exit_code_3_and_an_epsilon_that_it_covers(
    reticent, table: Path, tmp_path: Path
) -> None:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("values", epsilon=2.0, delta=1e-5)
        spent = Gaussian(noise_multiplier=8.0)
        ledger.for_dataset("values").charge(spent, adjacency=Adjacency.ADD_OR_REMOVE, purpose="a mean")
    words = ("train", table, "--target", "level", "--ledger", path, "--dataset", "values")
    code, _, err = reticent(*words, "--epsilon", 4, "-o", tmp_path / "run")
    assert code == 3
    assert "Gaussian" not in err  # a noise multiplier is not what train is given
    found = re.search(r"Ask for --epsilon ([\d.]+), which still fits", err)
    assert found, err
    assert 1.0 < float(found[1]) < 2.0
    with Ledger.open(path) as ledger:
        assert ledger.account("values").charges == 1
    code, _, err = reticent(*words, "--epsilon", found[1], "-o", tmp_path / "run")
    assert code == 0, err


def test_a_ledger_that_covers_nothing_more_says_so(reticent, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("values", epsilon=1e-4, delta=1e-12)
    words = ("train", table, "--target", "level", "--ledger", path, "--dataset", "values")
    code, _, err = reticent(*words, "--epsilon", 1, "-o", tmp_path / "run")
    assert code == 3
    assert "have the limit raised: reticent ledger limit" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", 0, "--target", "level"), "epsilon must be"),
        (("--epsilon", 1, "--target", "levle"), "level"),
        (("--epsilon", 1), "--target"),
        (("--epsilon", 1, "--target", "level", "--model", "oracle"), "model='oracle' is not known"),
        (("--epsilon", 1, "--target", "level", "--prepare", "public"), "Nothing is declared"),
        (("--epsilon", 1, "--target", "level", "--delta", 0.5), "promises nothing"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(reticent, table: Path, tmp_path: Path, words, said) -> None:
    code, out, err = reticent("train", table, *words, "-o", tmp_path / "run")
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("error:") == 1
    assert not (tmp_path / "run").exists()


def test_the_help_names_every_method_there_is() -> None:
    """Written down in the command, because to ask the table would take the time to import all of it."""
    written = get_args(train.Method)[1].help.rstrip(".").replace(" or ", ", ").split(", ")
    assert written == ["auto", *(name for name in METHODS if name != "federated")]  # reticent federate


def test_a_folder_without_a_run_is_said_to_be_one(reticent, tmp_path: Path) -> None:
    for words in (
        ("show", tmp_path),
        ("train", "--resume", tmp_path),
        ("predict", tmp_path, tmp_path / "x.csv"),
    ):
        code, _, err = reticent(*words)
        assert (code, "holds no run" in err) == (1, True)
    assert reticent("train")[0] == 1
