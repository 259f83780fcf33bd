"""Weights by class: they move the model, and not what it costs or what one row can do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.learners import learner
from reticent.runs.problem import Problem, with_class_weights
from reticent.runs.record import RunRecord
from reticent.runs.request import Request
from reticent.training.gradients import clipped_gradient_sum

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
PROBLEM = Problem(rows=9, shape=(2,), classes=("no", "yes"))


@pytest.fixture
def request_for(tmp_path: Path) -> Request:
    """One row in ten is ill, most of them old."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(1500):
        is_ill = rng.random() < 0.1
        age = np.clip(rng.normal(65 if is_ill else 50, 15), 0, 100)
        rows.append(f"{age:.1f},{'yes' if is_ill else 'no'}")
    (tmp_path / "t.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    (tmp_path / "d.toml").write_text(DOMAIN)
    return Request(source=str(tmp_path / "t.csv"), domain=str(tmp_path / "d.toml"), epsilon=8.0)


def recall_of_the_second_class(record: RunRecord) -> float:
    assert record.result.scores is not None
    assert record.result.scores.details is not None
    found = record.result.scores.details.recalls[1]
    assert found is not None
    return found


def test_a_rare_class_with_a_weight_is_found_more_often_at_the_same_cost(
    request_for: Request, tmp_path: Path
) -> None:
    plain = fit(request_for, tmp_path / "plain", keys=Keys.seeded(1)).record
    weighted = fit(
        replace(request_for, class_weights={"yes": 10.0}), tmp_path / "weighted", keys=Keys.seeded(1)
    ).record
    assert recall_of_the_second_class(plain) < 0.2
    assert recall_of_the_second_class(weighted) > 0.5
    assert weighted.event == plain.event
    assert weighted.result.guarantee.epsilon == plain.result.guarantee.epsilon
    assert weighted.result.problem is not None
    assert weighted.result.problem.class_weights == (0.1, 1.0)


@pytest.mark.parametrize("weight", [1e-30, 0.5, 1e30])
def test_no_weight_lets_a_row_do_more_than_its_clipping_norm(weight: float) -> None:
    problem = with_class_weights(PROBLEM, {"yes": weight})
    learn = learner("linear", problem)
    params = learn.model.init(jax.random.key(0))
    for value in (0.0, 1.0, 3e38):
        for label in (0, 1):
            batch = {"x": jnp.full((1, 2), value), "y": jnp.array([label])}
            total, _ = clipped_gradient_sum(learn.loss, max_norm=1.0)(params, batch, jnp.array([True]))
            leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(total)]
            assert np.linalg.norm(np.concatenate(leaves)) <= 1.0 + 1e-5


def test_weights_that_mean_nothing_are_refused_before_anything_is_paid(
    request_for: Request, tmp_path: Path
) -> None:
    for change, said in (
        ({"class_weights": {"maybe": 2.0}}, "no class 'maybe'"),
        ({"class_weights": {"yes": 2.0}, "method": "objective"}, "clip every gradient"),
        ({"class_weights": {"yes": 0.0}}, "positive"),
        ({"class_weights": {"yes": float("nan")}}, "positive"),
        (
            {"class_weights": {"yes": 2.0}, "domain": None, "classes": "private", "target": "ill"},
            "classes that are declared",
        ),
    ):
        with pytest.raises(InvalidArgument, match=said):
            fit(replace(request_for, **change), tmp_path / "run")
        assert not (tmp_path / "run").exists()
