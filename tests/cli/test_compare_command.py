"""`reticent compare`, `show --weights`, `--classes`, `--thresholds`, and `predict --threshold`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.request import Request

DOMAIN = """
version = 1
target = "ill"
[columns.age]
kind = "number"
bounds = [0, 100]
[columns.weight]
kind = "number"
bounds = [0, 100]
[columns.ill]
kind = "label"
values = ["no", "yes"]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on the same table, and new rows."""
    folder, rng = tmp_path_factory.mktemp("compared"), np.random.default_rng(0)
    rows = [f"{a:.1f},{b:.1f},{'yes' if a > b else 'no'}" for a, b in rng.uniform(0, 100, (900, 2))]
    (folder / "people.csv").write_text("\n".join(["age,weight,ill", *rows]) + "\n")
    (folder / "new.csv").write_text("age,weight\n60,50\n40,60\n55,50\n")
    (folder / "d.toml").write_text(DOMAIN)
    for name, epsilon in (("tight", 1.0), ("loose", 4.0)):
        request = Request(
            source=str(folder / "people.csv"),
            domain=str(folder / "d.toml"),
            epsilon=epsilon,
            method="objective",
        )
        fit(request, folder / name, keys=Keys.seeded(0))
    return folder


def test_runs_stand_side_by_side(reticent, home: Path) -> None:
    code, out, err = reticent("compare", home / "tight", home / "loose")
    assert code == 0, err
    for word in ("tight", "loose", "epsilon asked for", "accuracy", "objective", "people.csv"):
        assert word in out
    assert "their costs add up" in " ".join(err.split())
    found = json.loads(reticent("compare", home / "tight", home / "loose", "--json")[1])
    assert [each["request"]["epsilon"] for each in found] == [1.0, 4.0]
    assert all(each["scores"]["accuracy"] > 0.7 for each in found)
    assert all(each["guarantee"]["epsilon"] <= each["request"]["epsilon"] for each in found)


def test_mistakes_in_a_comparison_are_one_line(reticent, home: Path, tmp_path: Path) -> None:
    for words, said in (
        ((home / "tight",), "two runs or more"),
        ((), "two runs or more"),
        ((home / "tight", home / "tight"), "named twice"),
        ((home / "tight", tmp_path), "holds no run"),
        ((home / "tight", home / "new.csv"), "is a file"),
    ):
        code, out, err = reticent("compare", *words)
        assert (code, out, err.count("\n"), said in err) == (1, "", 1, True), err


@pytest.mark.parametrize("damage", ["[]", "{", '{"attacks": {"a": 3}}', '{"attacks": 7}'])
def test_damaged_attacks_are_named(reticent, home: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(home / "loose", tmp_path / "loose")
    (tmp_path / "loose" / "attacks").mkdir()
    (tmp_path / "loose" / "attacks" / "attack.json").write_text(damage)
    code, _, err = reticent("compare", home / "tight", tmp_path / "loose")
    assert (code, "is damaged" in err) == (1, True), err


def test_a_shared_folder_has_no_scores_to_compare(reticent, home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "loose", tmp_path / "shared", ignore=shutil.ignore_patterns("private"))
    _, out, _ = reticent("compare", home / "tight", tmp_path / "shared", "--json")
    assert json.loads(out)[1]["scores"] == {}


def test_a_threshold_moves_predictions_and_nothing_else(reticent, home: Path) -> None:
    usual = json.loads(reticent("predict", home / "loose", home / "new.csv", "--json")[1])
    for threshold in (0, 0.3, 1):
        code, out, err = reticent(
            "predict", home / "loose", home / "new.csv", "--threshold", threshold, "--json"
        )
        assert (code, f"'yes' is predicted at a probability of {threshold:g} or more" in err) == (0, True)
        for before, after in zip(usual, json.loads(out), strict=True):
            assert after["probability of yes"] == before["probability of yes"]
            assert after["prediction"] == ("yes" if after["probability of yes"] >= threshold else "no")
    assert reticent("predict", home / "loose", home / "new.csv", "--threshold", 1.5)[0] == 1
    assert reticent("predict", home / "loose", home / "new.csv", "--threshold", "nan")[0] == 1


def test_what_lies_behind_a_score_is_shown(reticent, home: Path) -> None:
    code, out, _ = reticent("show", home / "loose", "--classes")
    assert code == 0
    assert "Recall by class" in out
    assert "Confusion matrix" in out
    assert "Calibration: how often predictions come true" in out
    assert "Predicting 'yes' by probability threshold" in out
    points = json.loads(reticent("show", home / "loose", "--thresholds", "--json")[1])["thresholds"]
    recalls = [point["recall"] for point in points]
    assert recalls == sorted(recalls, reverse=True)
    found = json.loads(reticent("show", home / "loose", "--weights", "--json")[1])
    effects = {weight["feature"]: weight["effect"] for weight in found["weights"]}
    assert effects["age"] > 0 > effects["weight"]
    assert found["unit"] == "in the log-odds of 'yes'"
    assert "not known" in reticent("show", home / "loose", "--weights")[1]
    assert reticent("show", home / "loose", "--weights", "--classes")[0] == 1


def test_the_card_has_baselines_beside_scores(reticent, home: Path) -> None:
    _, out, _ = reticent("show", home / "loose")
    assert "always predicting the most frequent class: " in " ".join(out.split())
    assert "balanced accuracy" in out
    assert " for yes (" in " ".join(out.split())  # what moves the score, and of which class


def test_an_export_for_other_programs_says_what_it_wrote(reticent, home: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    forms = ("--format", "sklearn", "--format", "onnx")
    code, out, err = reticent("export", home / "loose", "-o", tmp_path / "r", *forms, "--json")
    assert code == 0, err
    assert {"released_model.py", "arrays.npz", "encoding.json", "model.onnx", "MODEL_CARD.md"} <= set(
        json.loads(out)["files"]
    )
    card = (tmp_path / "r" / "MODEL_CARD.md").read_text()
    assert "Largest effects in the log-odds of 'yes'" in card
    assert "- age (yes): +" in card
    code, out, err = reticent("export", home / "loose", "-o", tmp_path / "p", "--format", "pickle")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert not (tmp_path / "p").exists()
