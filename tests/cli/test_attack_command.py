"""`reticent attack`: a run, any model's outputs, ready scores, and one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.request import Request


def outputs(path: Path, rows: int, strength: float, **changes) -> Path:
    """The answers of a model that is surer of its members."""
    rng = np.random.default_rng(rows)
    labels = rng.integers(0, 3, rows)
    logits = rng.normal(size=(rows, 3)) + strength * np.eye(3)[labels]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.savez(path, **({"probabilities": shares, "labels": labels} | changes))
    return path


def test_a_model_that_leaks_is_found_out_from_its_outputs(reticent, tmp_path: Path) -> None:
    inside, outside = outputs(tmp_path / "in.npz", 2000, 4.0), outputs(tmp_path / "out.npz", 2001, 1.0)
    goal = tmp_path / "found"
    code, out, err = reticent("attack", "--members", inside, "--outsiders", outside, "-o", goal, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["attacks"]["threshold"]["auc"]["low"] > 0.8
    assert {"tpr_at_fpr", "auc", "advantage"} <= set(found["attacks"]["threshold"])
    assert sorted(path.name for path in goal.iterdir()) == ["attack.json", "roc.svg"]
    code, out, _ = reticent("attack", "--members", inside, "--outsiders", outside)
    assert "do not publish it as it is" in " ".join(out.split())


@pytest.mark.thorough
def test_a_private_run_gives_nothing_away(reticent, tmp_path: Path) -> None:
    fit(Request(source="digits", epsilon=1.0), tmp_path / "run", keys=Keys.seeded(0))
    code, out, err = reticent("attack", tmp_path / "run", "--shadows", 8, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["shadows"] == 8
    assert found["attacks"]["likelihood"]["auc"]["low"] < 0.52
    assert len(found["in_words"]) <= 10


def test_a_category_is_guessed_beside_imputation(reticent, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["age,town,ill"]
    for _ in range(1500):
        age, town = rng.integers(20, 80), "abc"[rng.integers(3)]
        lines.append(f"{age},{town},{'yes' if age + 20 * (town == 'a') > 60 else 'no'}")
    table = tmp_path / "people.csv"
    table.write_text("\n".join(lines) + "\n")
    fit(Request(source=str(table), target="ill", epsilon=8.0), tmp_path / "run", keys=Keys.seeded(0))
    words = ("attack", tmp_path / "run", "--shadows", 0)
    code, out, err = reticent(*words, "--column", "town", "--json")
    assert code == 0, err
    guessed = json.loads(out)["attribute"]
    assert guessed["sensitive"] == "town"
    assert {row["side"] for row in guessed["rows"]} == {"members", "outsiders"}
    code, _, err = reticent(*words, "--column", "age")
    assert (code, "is not a category" in err) == (1, True)


def test_ready_scores(reticent, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{value:.4f},1" for value in rng.normal(1, 1, 500)]
    rows += [f"{value:.4f},0" for value in rng.normal(0, 1, 500)]
    path = tmp_path / "scores.csv"
    path.write_text("score,is_member\n" + "\n".join(rows) + "\n")
    code, out, _ = reticent("attack", "--scores", path, "--json")
    area = json.loads(out)["attacks"]["scores"]["auc"]
    assert code == 0
    assert area["low"] < 0.7602 < area["high"]  # the normal distribution at 1 / sqrt 2


def test_a_function_of_a_module_is_asked(reticent, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "their_model.py").write_text(
        "import numpy as np\n"
        "def predict(x):\n    p = 1 / (1 + np.exp(-x[:, 0]))\n    return np.stack([1 - p, p], axis=1)\n"
        "def broken(x):\n    raise RuntimeError('no such layer')\n"
    )
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, rows in (("in.npz", 200), ("out.npz", 201)):
        x = rng.normal(size=(rows, 2))
        np.savez(tmp_path / name, features=x, labels=(x[:, 0] > 0).astype(int))
    words = ("attack", "--members", "in.npz", "--outsiders", "out.npz", "--model")
    assert reticent(*words, "their_model:predict", "--json")[0] == 0
    code, _, err = reticent(*words, "their_model:broken")
    assert (code, "RuntimeError: no such layer" in err) == (1, True)
    code, _, err = reticent(*words, "their_model:absent")
    assert (code, "module:function" in err) == (1, True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"probabilities": np.ones((50, 3)), "labels": np.arange(50) % 3}, "sum to 3"),
        ({"probabilities": np.full((50, 3), np.nan), "labels": np.arange(50) % 3}, "first in row 0"),
        ({"probabilities": np.full((3, 3), 1 / 3), "labels": np.arange(3)}, "too few"),
        ({"probabilities": np.ones((50, 1)), "labels": np.zeros(50, int)}, "one class"),
        ({"labels": np.array([{"a": 1}], dtype=object)}, "--trust"),
    ],
)
def test_files_that_are_no_outputs_are_refused_in_one_line(reticent, tmp_path, changes, said) -> None:
    inside = outputs(tmp_path / "in.npz", 50, 1.0, **changes)
    outside = outputs(tmp_path / "out.npz", 50, 1.0)
    code, out, err = reticent("attack", "--members", inside, "--outsiders", outside)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("error:") == 1


@pytest.mark.parametrize("trust", [(), ("--trust",)])
@pytest.mark.parametrize("name", ["table.csv", "array.npy", "empty.npz"])
def test_a_file_of_another_kind_is_said_to_be_no_npz(reticent, tmp_path: Path, name, trust) -> None:
    (tmp_path / "table.csv").write_text("age,ill\n30,no\n")
    np.save(tmp_path / "array.npy", np.ones(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    outside = outputs(tmp_path / "out.npz", 50, 1.0)
    code, out, err = reticent("attack", "--members", tmp_path / name, "--outsiders", outside, *trust)
    assert (code, out) == (1, "")
    assert f"{name} is not a .npz file of arrays" in err
    assert "numpy.savez" in err
    assert "--scores" in err  # which takes tables


@pytest.mark.parametrize("shadows", [1, -3])
def test_too_few_shadows_are_refused_in_the_words_of_the_command(reticent, tmp_path: Path, shadows) -> None:
    code, _, err = reticent("attack", tmp_path, "--shadows", shadows)
    assert (code, f"--shadows {shadows} is too few" in err) == (1, True)
    assert "0" in err.partition("too few")[2]


def test_what_is_attacked_has_to_be_said_once(reticent, tmp_path: Path) -> None:
    for words in ((), (tmp_path, "--scores", tmp_path), ("--members", tmp_path / "in.npz")):
        code, _, err = reticent("attack", *words)
        assert (code, "error:" in err) == (1, True)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert "score,is_member" in reticent("attack", "--scores", tmp_path / "x.csv")[2]
