"""Releases for programs that do not have reticent: they predict what the run predicts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import DataError, Unavailable
from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Number
from reticent.data.encoding import encode
from reticent.data.files import open_table
from reticent.runs.export import export
from reticent.runs.fit import fit
from reticent.runs.portable import _column
from reticent.runs.predict import Predictor
from reticent.runs.released_model import _encode
from reticent.runs.request import Request

DOMAIN = """
version = 1
target = "TARGET"
[columns.age]
kind = "number"
bounds = [20, 80]
missing = true
lenient = true
[columns.town]
kind = "category"
values = ["a", "b"]
other = true
missing = true
[columns.ill]
kind = "KIND"
values = ["no", "yes"]
other = false
[columns.cost]
kind = "number"
bounds = [0, 1000]
"""
NEW = [
    {"age": "25.5", "town": "a", "ill": "no", "cost": "100"},
    {"age": " 99 ", "town": "elsewhere", "ill": "yes", "cost": "5000"},
    {"age": "", "town": "?", "ill": "no", "cost": "-3"},
    {"age": "unknown", "town": "b", "ill": "yes", "cost": "500.25"},
]

# Run where reticent cannot be imported, and neither can pickle load anything.
_ALONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["reticent"] = None
from released_model import load
from sklearn.base import clone, is_classifier
model = clone(load(sys.argv[1]))
rows = json.loads(sys.stdin.read())
found = {"predictions": model.predict(rows).tolist(), "encoded": model.encode(rows).tolist()}
found["is_classifier"] = is_classifier(model)
if found["is_classifier"]:
    found["probabilities"] = model.predict_proba(rows).tolist()
    found["again"] = model.predict_proba(model.encode(rows)).tolist()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("portable")
    rows = []
    for _ in range(300):
        age, town = rng.uniform(20, 80), "ab"[rng.integers(2)]
        rows.append(f"{age:.1f},{town},{'yes' if age > 50 else 'no'},{10 * age:.1f}")
    (folder / "t.csv").write_text("\n".join(["age,town,ill,cost", *rows]) + "\n")
    lines = [",".join(row.values()) for row in NEW]
    (folder / "new.csv").write_text("\n".join([",".join(NEW[0]), *lines]) + "\n")
    return folder


THOROUGH = pytest.param("mlp", marks=pytest.mark.thorough)


@pytest.fixture(scope="module", params=["ill", "cost", "additive", THOROUGH])
def run(request: pytest.FixtureRequest, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear model of two classes, one of a number, a perceptron, and an additive model."""
    target = "cost" if request.param == "cost" else "ill"
    folder = tmp_path_factory.mktemp("run")
    text = DOMAIN.replace("TARGET", target).replace("KIND", "category" if target == "cost" else "label")
    if target == "ill":
        text = text.replace("other = false\n", "")
    (folder / "d.toml").write_text(text)
    wanted: dict[str, Any] = {
        "source": str(table / "t.csv"),
        "epsilon": 8.0,
        "domain": str(folder / "d.toml"),
    }
    wanted |= {"model": request.param} if request.param in ("mlp", "additive") else {"method": "objective"}
    fit(Request(**wanted), folder / "run", keys=Keys.seeded(3))
    return folder / "run"


def test_a_scikit_learn_release_predicts_the_same_without_reticent(
    run: Path, table: Path, tmp_path: Path
) -> None:
    export(run, tmp_path / "release", forms=["sklearn"])
    assert {"released_model.py", "arrays.npz", "encoding.json"} <= {
        path.name for path in (tmp_path / "release").iterdir()
    }
    ended = subprocess.run(
        [sys.executable, "-I", "-c", _ALONE, tmp_path / "release"],
        input=json.dumps(NEW),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    predictor = Predictor(run)
    new = open_table(table / "new.csv")
    assert np.allclose(found["encoded"], encode(new, predictor._domain())["x"], atol=1e-6)
    expected = list(predictor.table(new))
    if found["is_classifier"]:
        assert found["predictions"] == [row["prediction"] for row in expected]
        shares = [[row["probability of no"], row["probability of yes"]] for row in expected]
        assert np.allclose(found["probabilities"], shares, atol=2e-6)
        assert np.allclose(found["again"], shares, atol=2e-6)
    else:
        assert np.allclose(found["predictions"], [row["prediction"] for row in expected], rtol=1e-5)


def test_an_onnx_release_predicts_the_same_in_another_runtime(run: Path, table: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export(run, tmp_path / "release", forms=["onnx"])
    predictor = Predictor(run)
    x = np.asarray(encode(open_table(table / "t.csv"), predictor._domain())["x"])
    session = onnxruntime.InferenceSession(
        str(tmp_path / "release" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    scores = predictor.scores(x)
    meta = session.get_modelmeta().custom_metadata_map
    if predictor.problem.is_classification:
        shares, labels = session.run(["probabilities", "label"], {"features": x})
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        assert np.allclose(shares, odds / odds.sum(axis=1, keepdims=True), atol=1e-5)
        assert np.array_equal(labels, scores.argmax(axis=1))
        assert json.loads(meta["classes"]) == ["no", "yes"]
    else:
        (found,) = session.run(["prediction"], {"features": x})
        assert np.allclose(found, scores, rtol=1e-5)
    assert len(json.loads(meta["features"])) == x.shape[1]
    assert "differential privacy" in meta["guarantee"]


def test_no_file_of_a_release_is_a_pickle_or_holds_what_is_private(run: Path, tmp_path: Path) -> None:
    for form in ("onnx", "sklearn"):
        export(run, tmp_path / form, forms=[form])
        names = {path.name for path in (tmp_path / form).iterdir()}
        assert names <= {
            *("MODEL_CARD.md", "domain.toml", "model.safetensors", "run.json", "encoding.json"),
            *("model.onnx", "arrays.npz", "released_model.py"),
        }
        said = json.loads((tmp_path / form / "encoding.json").read_text())
        assert "t.csv" not in json.dumps(said)
    with np.load(tmp_path / "sklearn" / "arrays.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype == np.float32 for name in arrays.files)


def test_a_form_that_is_not_there_leaves_nothing_behind(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(Unavailable, match=r"reticent\[onnx\]"):
        export(run, tmp_path / "release", forms=["onnx"])
    assert not (tmp_path / "release").exists()


def test_a_model_of_images_has_no_other_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    from dataclasses import replace

    from reticent.runs import portable

    predictor = Predictor(run)
    predictor.learner = replace(predictor.learner, name="cnn")
    with pytest.raises(DataError, match="takes images"):
        portable.portable_model(predictor, predictor.record)


def test_dates_ordered_words_and_buckets_are_encoded_alike(tmp_path: Path) -> None:
    domain = Domain(
        columns={
            "seen": Number.of_dates(
                "2024-01-01", "2024-12-31", missing=True, lenient=True, parts=("month", "weekday")
            ),
            "pain": Category(values=("low", "mild", "high"), ordered=True, missing=True),
            "city": Category(buckets=5, missing=True),
        },
        ignore_case=True,
    )
    rows = [
        {"seen": "2024-03-01", "pain": "mild", "city": "KÖLN"},
        {"seen": "soon", "pain": "high", "city": "Bonn"},
        {"seen": "", "pain": "odd", "city": ""},
    ]
    path = tmp_path / "t.csv"
    path.write_text("seen,pain,city\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    spec = {
        "columns": [_column(name, column) for name, column in domain.columns.items()],
        "missing_markers": domain.missing_markers,
        "ignore_case": True,
    }
    alone = [_encode(row, spec) for row in rows]
    np.testing.assert_allclose(alone, encode(open_table(path, header=True), domain)["x"], atol=1e-6)
