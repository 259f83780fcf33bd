"""`reticent.toml`, `--dry-run`, `--test 0`, and what `train` says about a large epsilon and the next step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reticent.ledger.ledger import Ledger

DOMAIN = """
version = 1
target = "ill"
[columns.age]
kind = "number"
bounds = [0, 100]
[columns.ill]
kind = "label"
values = ["no", "yes"]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    rows = [f"{age:.1f},{'yes' if age > 50 else 'no'}" for age in rng.uniform(0, 100, 600)]
    (tmp_path / "people.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    (tmp_path / "d.toml").write_text(DOMAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORDS = ("train", "people.csv", "--domain", "d.toml", "--method", "objective")


def test_a_dry_run_charges_and_writes_nothing(reticent, home: Path) -> None:
    with Ledger.create(home / "our.ledger") as ledger:
        ledger.limit("people", epsilon=3.0, delta=1e-4)
    before = {path: path.read_bytes() for path in home.iterdir() if path.is_file()}
    charge = ("--ledger", "our.ledger", "--dataset", "people")
    code, out, err = reticent(*WORDS, "--epsilon", 2, *charge, "-o", "run", "--dry-run", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["epsilon"] <= 2.0, found["charged"], found["records"]) == (True, False, 600)
    assert any("600" in each for each in found["public"])
    assert found["found_privately"] == []
    code, out, err = reticent(*WORDS, "--epsilon", 2, "--dry-run")
    assert "about 480 of 600 rows" in " ".join(out.split())
    assert "Assuming that the number of records, 600, is public" in " ".join(out.split())
    assert "Nothing was charged, and nothing was written" in " ".join(err.split())
    assert {path: path.read_bytes() for path in home.iterdir() if path.is_file()} == before
    assert not (home / "run").exists()


def test_a_dry_run_costs_what_the_run_costs(reticent, home: Path) -> None:
    planned = json.loads(reticent(*WORDS, "--epsilon", 2, "--dry-run", "--json")[1])
    code, out, err = reticent(*WORDS, "--epsilon", 2, "-o", "run", "--json")
    assert code == 0, err
    assert json.loads(out)["guarantee"]["epsilon"] == planned["epsilon"]


def test_a_dry_run_says_what_would_be_found(reticent, home: Path) -> None:
    code, out, err = reticent("train", "people.csv", "--target", "ill", "--epsilon", 2, "--dry-run", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert 0 < found["preparation_epsilon"] < 0.3
    assert found["found_privately"]


def test_all_rows_may_be_trained_on_and_then_there_is_no_score(reticent, home: Path) -> None:
    code, out, err = reticent(*WORDS, "--epsilon", 2, "--test", 0, "-o", "run")
    assert code == 0, err
    assert "600 rows trained on" in out
    assert "no rows were held out" in out
    assert "accuracy" not in out
    assert "Next: reticent predict run" in " ".join(err.split())


def test_a_large_epsilon_is_said_to_promise_little(reticent, home: Path) -> None:
    _, _, err = reticent(*WORDS, "--epsilon", 11, "--dry-run")
    assert "warning: epsilon 11 promises little" in err
    assert "59,874" in err
    assert "promises little" not in reticent(*WORDS, "--epsilon", 10, "--dry-run")[2]


def test_defaults_are_taken_from_the_working_folder_and_said(reticent, home: Path) -> None:
    (home / "reticent.toml").write_text(
        '[train]\nepsilon = 0.5\ndomain = "d.toml"\nmethod = "objective"\nbounds = ["age=0:100"]\n'
    )
    code, out, err = reticent("train", "people.csv", "--dry-run", "--json")
    assert code == 0, err
    assert 0.4 < json.loads(out)["epsilon"] <= 0.5
    assert json.loads(out)["method"] == "objective"
    said = "Defaults from reticent.toml: epsilon = 0.5, domain = 'd.toml', method = 'objective', bounds ="
    assert said in err
    typed = json.loads(reticent("train", "people.csv", "--epsilon", 1, "--dry-run", "--json")[1])
    assert 0.9 < typed["epsilon"] <= 1.0
    assert "reticent.toml" not in reticent("datasets", "list")[2]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[train", "not TOML"),
        ("[train]\nepsilom = 1\n", "key 'epsilom': not an option"),
        ('[train]\nepsilon = "much"\n', "key 'epsilon'"),
        ("[train]\nepsilon = [1]\n", "is not text or a number"),
        ("[train]\nepsilon = true\n", "is not text or a number"),
        ("[train]\nbounds = [true]\n", "is not text or a number, or a list of these"),
        ("[train]\ndry-run = 3\n", "is not true or false"),
        ('[train]\noutput = "elsewhere"\n', "key 'output': not an option"),
        ("epsilon = 1.0\n", "key 'epsilon': it stands outside of a section"),
        ("[trian]\nepsilon = 1.0\n", "[trian]: there is no such command"),
        ("x = " + "[" * 5000 + "]" * 5000, "not TOML"),
        ("# " + "x" * 70_000, "larger than"),
    ],
)
def test_a_hostile_file_is_one_line(reticent, home: Path, content: str, said: str) -> None:
    (home / "reticent.toml").write_text(content)
    code, out, err = reticent("train", "people.csv", "--epsilon", 1, "--dry-run")
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert said in err
    assert reticent("train", "--help")[0] == 0


def test_a_file_that_is_not_text_is_one_line(reticent, home: Path) -> None:
    (home / "reticent.toml").write_bytes(b"\xff\xfe\x00")
    code, _, err = reticent("datasets", "list")
    assert (code, err.count("\n")) == (1, 1)
    (home / "reticent.toml").unlink()
    (home / "reticent.toml").mkdir()
    assert reticent("datasets", "list")[0] == 0


def test_what_has_to_be_typed_cannot_be_a_default(reticent, home: Path) -> None:
    """A file in a stranger's folder must not have a pickle loaded, or a file replaced."""
    for command, key in (("attack", "trust"), ("predict", "force"), ("train", "resume")):
        (home / "reticent.toml").write_text(f"[{command}]\n{key} = true\n")
        code, _, err = reticent(command, "run", "new.csv")
        assert (code, f"key '{key}': not an option" in err) == (1, True), err
