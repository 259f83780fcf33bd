"""The weights of a linear model by name: what they say is what predictions do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import DataError
from reticent.core.keys import Keys
from reticent.data.files import open_table
from reticent.runs.fit import fit
from reticent.runs.learners import learner
from reticent.runs.method import Inputs
from reticent.runs.methods.convex import Convex
from reticent.runs.predict import Predictor
from reticent.runs.problem import Problem
from reticent.runs.request import Request
from reticent.runs.weights import labelled_weights
from reticent.training.checkpoint import Checkpoints

DOMAIN = """
version = 1
target = "TARGET"
[columns.age]
kind = "number"
bounds = [20, 80]
[columns.town]
kind = "category"
values = ["a", "b"]
other = false
[columns.ill]
kind = "label"
values = ["no", "yes"]
[columns.cost]
kind = "number"
bounds = [0, 1000]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, rng = tmp_path_factory.mktemp("weights"), np.random.default_rng(0)
    lines = ["age,town,ill,cost"]
    for _ in range(400):
        age, town = rng.uniform(20, 80), "ab"[rng.integers(2)]
        lines.append(f"{age:.1f},{town},{'yes' if age > 50 else 'no'},{10 * age:.1f}")
    (place / "t.csv").write_text("\n".join(lines) + "\n")
    (place / "low.csv").write_text("age,town,cost,ill\n20,a,0,no\n80,a,0,no\n20,b,0,no\n")
    return place


@pytest.mark.parametrize("target", ["ill", "cost"])
def test_an_effect_is_how_far_the_prediction_moves(folder: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "d.toml").write_text(DOMAIN.replace("TARGET", target))
    if target == "cost":  # the label may only be a target
        (tmp_path / "d.toml").write_text(
            DOMAIN.replace("TARGET", target).replace('kind = "label"', 'kind = "category"')
        )
    request = Request(
        source=str(folder / "t.csv"), epsilon=5.0, domain=str(tmp_path / "d.toml"), target=target
    )
    fit(replace(request, method="output"), tmp_path / "run", keys=Keys.seeded(1))
    predictor = Predictor(tmp_path / "run")
    found = {weight.feature: weight for weight in labelled_weights(predictor).weights}
    from reticent.data.encoding import encode

    scores = predictor.scores(encode(open_table(folder / "low.csv"), predictor._domain())["x"])
    ranked = scores[:, 1] - scores[:, 0] if target == "ill" else scores[:, 0]
    is_clipped = target == "cost" and ranked[1] in (0.0, 1000.0)
    if not is_clipped:
        assert ranked[1] - ranked[0] == pytest.approx(found["age"].effect, rel=1e-3)
        moved = found["town = b"].effect - found["town = a"].effect
        assert ranked[2] - ranked[0] == pytest.approx(moved, rel=1e-3, abs=1e-4)
    assert found["age"].deviation is not None


def test_the_stated_deviation_is_that_of_the_noise(tmp_path: Path) -> None:
    """Without rows the weights are noise. False alarm: below 1e-6, as 4000 draws have 1.1% of error."""
    problem = Problem(rows=500, shape=(40,), classes=("a", "b"))
    recipe = Convex("output", 1.0, 1e-5)
    stated = recipe.noise_deviation(problem)
    assert stated is not None
    drawn = []
    for seed in range(100):
        inputs = Inputs(
            learner=learner("linear", problem),
            problem=problem,
            train_on={"x": np.zeros((0, 40), np.float32), "y": np.zeros(0, np.int32)},
            held_out={},
            keys=Keys.seeded(seed),
            checkpoints=Checkpoints(path=tmp_path / "c", stamp=""),
        )
        drawn.append(np.asarray(recipe.follow(inputs).params["w"])[:, 1])
    assert np.std(drawn) == pytest.approx(stated, rel=0.06)
    assert Convex("objective", 1.0, 1e-5).noise_deviation(problem) is None


def test_a_model_without_named_weights_says_so(tmp_path: Path) -> None:
    request = Request(source="digits", epsilon=3.0, method="output", model="linear")
    fit(request, tmp_path / "run", keys=Keys.seeded(1))
    with pytest.raises(DataError, match="no weights with names"):
        labelled_weights(Predictor(tmp_path / "run"))
