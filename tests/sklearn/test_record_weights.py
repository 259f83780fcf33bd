"""Weights are inside the proof or refused; batches are paid one by one, or once if they are disjoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recording import Recorder, separable

from reticent.convex import losses, noise
from reticent.convex.noisy_sums import NoisySums
from reticent.convex.problem import ConvexProblem
from reticent.convex.weighted import weigh
from reticent.core.errors import BudgetExceeded, DataError, InvalidArgument
from reticent.mechanisms.events import Composed
from reticent.sklearn import (
    PrivateAdditiveClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    SharedBudget,
)
from reticent.sklearn.partial_fits import DISJOINT

_X, _Y = separable(600)
_LOSSES = [losses.logistic(), losses.huber_hinge(0.5), losses.softmax(3), losses.squared(1.0)]


# Weights


@pytest.mark.parametrize("loss", _LOSSES, ids=lambda loss: loss.name)
def test_no_weight_takes_a_record_beyond_the_constants_of_its_loss(loss: losses.Loss):
    """Brute force: gradients and Hessians at random scores, with weights up to 1, and one twice as large."""
    rng = np.random.default_rng(0)
    scores = 4 * rng.normal(size=(4000, loss.outputs))
    own = (
        rng.uniform(-1, 1, 4000) if not loss.is_classifier else rng.integers(max(loss.outputs, 2), size=4000)
    )
    weights = rng.choice([0.0, 0.3, 1.0], 4000)
    heavy = weigh(loss)
    pairs = heavy.check_labels(np.column_stack([own, weights]))
    slopes = heavy.gradient(scores, pairs)
    assert np.linalg.norm(slopes, axis=1).max() <= loss.lipschitz * (1 + 1e-12)
    assert np.allclose(slopes, weights[:, None] * loss.gradient(scores, own.astype(float)))
    bends = np.stack(
        [heavy.hessian(scores, pairs)(np.tile(unit, (4000, 1))) for unit in np.eye(loss.outputs)]
    )
    assert np.linalg.eigvalsh(bends.transpose(1, 0, 2)).max() <= loss.smoothness * (1 + 1e-12)
    assert np.trace(bends, axis1=0, axis2=2).max() <= loss.trace * (1 + 1e-12)
    tangent = (heavy.value(scores + 1e-6, pairs) - heavy.value(scores - 1e-6, pairs)) / 2e-6
    assert tangent == pytest.approx(slopes.sum(axis=1), abs=1e-5)
    with pytest.raises(DataError, match="from 0 to 1"):
        heavy.check_labels(np.column_stack([own, 2 * weights]))


def moved_by_a_record(monkeypatch: pytest.MonkeyPatch, method: str, weight: float) -> float:
    """How far the heaviest record moves what gets noise, over what the noise is made for."""
    seen: list[tuple[np.ndarray, float]] = []

    def watched(source: Any, values: np.ndarray, *, max_norm: float, **scale: float) -> np.ndarray:
        seen.append((values, max_norm))
        return values

    x, y = np.ones((40, 1)), np.ones(40, int)
    y[0] = 0
    weights = np.full(40, 0.5)
    weights[0] = weight
    with monkeypatch.context() as patch:
        patch.setattr(noise, "add_gaussian", watched)
        for rows in (slice(0, 40), slice(1, 40)):
            model = PrivateLogisticRegression(
                method=method, norm=1.0, classes=[0, 1], examples=40, regularisation=0.5, max_weight=2.0
            )
            model.set_params(fit_intercept=False).fit(x[rows], y[rows], sample_weight=weights[rows])
    (here, apart), (there, _) = seen[0], seen[len(seen) // 2]
    return float(np.linalg.norm(here - there)) / apart


@pytest.mark.parametrize("method", ["output", "descent"])
def test_the_heaviest_record_is_hidden_and_one_beyond_the_bound_counts_as_that(
    monkeypatch: pytest.MonkeyPatch, method: str
):
    moved = [moved_by_a_record(monkeypatch, method, weight) for weight in (1.0, 2.0, 1e9)]
    assert 0.5 * moved[1] * 0.9 < moved[0] < 0.6 * moved[1]
    assert moved[1] == moved[2]
    assert 0.3 < moved[1] <= 1.0


def test_weights_decide_what_is_learnt():
    x, y = np.vstack([_X, _X]), np.concatenate([_Y, 1 - _Y])  # each row with either label
    sure = np.repeat([2.0, 0.0], 600)
    for kind in (PrivateLogisticRegression, PrivateLinearSVC):
        model = kind(epsilon=5.0, norm=1.5, classes=[0, 1], max_weight=2.0)
        assert model.fit(x, y, sample_weight=sure).score(_X, _Y) > 0.95
        assert model.fit(x, y, sample_weight=sure[::-1]).score(_X, _Y) < 0.05
        assert model.excess_risk_bound_ is None
    number = PrivateLinearRegression(epsilon=8.0, norm=1.5, bounds=(-1, 1), max_weight=2.0)
    targets = np.concatenate([_X[:, 0], -_X[:, 0]])
    assert number.fit(x, targets, sample_weight=sure).score(_X, _X[:, 0]) > 0.5
    rare = PrivateLogisticRegression(epsilon=5.0, norm=1.5, classes=[0, 1], class_weight={0: 0.0, 1: 3.0})
    assert (rare.fit(_X, _Y).predict(_X) == 1).mean() > 0.75


@pytest.mark.parametrize(
    ("model", "given", "says"),
    [
        (PrivateLogisticRegression(), {"sample_weight": np.ones(600)}, "max_weight"),
        (PrivateLogisticRegression(max_weight=1.0), {"sample_weight": -np.ones(600)}, "negative"),
        (PrivateLogisticRegression(class_weight="balanced"), {}, "was not paid for"),
        (PrivateLogisticRegression(class_weight={0: np.nan}), {}, "finite"),
        (PrivateLinearRegression(method="input", max_weight=1.0), {"sample_weight": np.ones(600)}, "once"),
        (PrivateAdditiveClassifier(), {"sample_weight": np.ones(600)}, "takes no sample_weight"),
    ],
)
def test_what_has_no_proof_is_refused_before_anything_is_paid(model: Any, given: dict[str, Any], says: str):
    budget = Recorder()
    with pytest.raises(InvalidArgument, match=says):
        model.set_params(budget=budget).fit(_X, _Y, **given)
    assert not budget.events
    with pytest.raises(TypeError, match="'weight'"):
        model.fit(_X, _Y, weight=1)


# Batches


def in_batches(budget: Any, count: int = 3, *, disjoint: bool) -> Any:
    model = PrivateLogisticRegression(0.5, delta=1e-6, norm=1.5, method="output", budget=budget)
    for rows in np.array_split(np.arange(600), count):
        model.partial_fit(_X[rows], _Y[rows], classes=[0, 1], disjoint=disjoint)
    return model


def test_each_batch_is_charged_and_the_guarantee_is_about_all():
    budget = Recorder()
    model = in_batches(budget, disjoint=False)
    assert len(budget.events) == 3
    assert model.event_ == Composed(events=tuple(budget.events))
    assert 0.6 < model.guarantee_.epsilon <= 1.5
    assert model.guarantee_.delta == pytest.approx(3e-6)
    assert model.score(_X, _Y) > 0.8
    small = SharedBudget(epsilon=0.6, delta=1e-5)
    with pytest.raises(BudgetExceeded):
        in_batches(small, disjoint=False)


def test_batches_that_are_declared_disjoint_cost_what_one_costs_and_say_so():
    budget = Recorder()
    model = in_batches(budget, disjoint=True)
    assert len(budget.events) == 1
    assert model.guarantee_.epsilon <= 0.5
    assert model.guarantee_.delta == 1e-6
    assert DISJOINT in model.guarantee_.assumptions
    shared = SharedBudget(epsilon=0.6, delta=1e-5)
    in_batches(shared, disjoint=True)
    assert DISJOINT in shared.guarantee().assumptions
    with pytest.raises(InvalidArgument, match="disjoint=True"):
        model.partial_fit(_X, _Y)
    with pytest.raises(InvalidArgument, match="another enters"):
        model.set_params(adjacency="replace").partial_fit(_X, _Y, disjoint=True)
    assert "_partial" not in vars(model.set_params(adjacency="add-or-remove", classes=[0, 1]).fit(_X, _Y))


def test_the_model_of_batches_is_their_mean(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(noise, "add_gaussian", lambda source, values, **terms: values)
    model = in_batches(None, 2, disjoint=True)
    alone = [
        PrivateLogisticRegression(0.5, delta=1e-6, norm=1.5, method="output", classes=[0, 1]).fit(
            _X[r], _Y[r]
        )
        for r in (slice(0, 300), slice(300, 600))
    ]
    assert model.coef_ == pytest.approx((alone[0].coef_ + alone[1].coef_) / 2)


# Sums of gradients


def test_a_record_moves_a_noisy_sum_by_no_more_than_is_charged(monkeypatch: pytest.MonkeyPatch):
    """Extreme records, long weights and clipping: the distance of neighbours is within what noise hides."""
    seen: list[tuple[np.ndarray, float]] = []

    def watched(source: Any, values: np.ndarray, *, max_norm: float, deviation: float) -> np.ndarray:
        seen.append((values, max_norm))
        assert deviation == pytest.approx(3.0 * max_norm)
        return values

    monkeypatch.setattr(noise, "add_gaussian", watched)
    rng = np.random.default_rng(1)
    x = np.vstack([rng.normal(size=(300, 5)), [1e300 * np.ones(5)], [1e-300 * np.ones(5)]])
    y = rng.integers(3, size=302)
    worst = 0.0
    for bound in (0.1, 1.5):
        for size in (0.0, 1.0, 1e3):
            weights = size * rng.normal(size=(6, 3))
            for gone in (0, 300, 301):
                kept = np.arange(302) != gone
                seen.clear()
                for rows in (np.ones(302, bool), kept):
                    problem = ConvexProblem.of(losses.softmax(3), x[rows], y[rows], norm=1.0, examples=302)
                    NoisySums(rng, problem, most=400, bound=bound, noise_multiplier=3.0, reach=1).at(weights)
                (here, apart), (there, _) = seen
                worst = max(worst, float(np.linalg.norm(here - there)) / apart)
    assert 0.9 < worst <= 1.0
