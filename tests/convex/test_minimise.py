"""The minimiser keeps its promise, whatever the loss, the conditioning and the storage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from reticent.convex import losses, minimise
from reticent.convex.losses import Loss
from reticent.convex.problem import INTERCEPT, ConvexProblem
from reticent.core.errors import InvalidArgument, ReticentError

LOSSES = (
    losses.logistic(),
    losses.logistic(0.5),
    losses.huber_hinge(),
    losses.softmax(3),
    losses.squared(1.0),
    losses.huber(0.3, bound=10.0),
)
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def data(loss: Loss, rows: int = 200, columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(rows, columns)) * (draw.random((rows, columns)) < 0.5)
    classes = 2 if loss.targets == "binary" else loss.outputs
    y = draw.integers(0, classes, rows).astype(float) if loss.is_classifier else np.tanh(x[:, 0])
    return x, y


def gradient(problem: ConvexProblem, weights: np.ndarray, mu: float, tilt: np.ndarray) -> np.ndarray:
    slopes = problem.loss.gradient(problem.rows @ weights, problem.labels)
    return problem.rows.T @ slopes / problem.examples + mu * weights + tilt


@by_loss
@pytest.mark.parametrize("mu", [1e-7, 1e-3, 1.0])
def test_the_gradient_at_the_result_is_within_its_bound(loss: Loss, mu: float):
    x, y = data(loss)
    problem = ConvexProblem.of(loss, x, y, norm=2.0)
    tilt = np.random.default_rng(0).normal(size=(problem.features, loss.outputs)) * 1e-3 * min(1, mu * 1e3)
    found = minimise.minimise(problem, regularisation=mu, gradient_bound=1e-11, tilt=tilt)
    assert np.linalg.norm(gradient(problem, found.weights, mu, tilt)) <= found.gradient_norm <= 1e-11


@by_loss
def test_values_slopes_and_bends_belong_together(loss: Loss):
    draw = np.random.default_rng(5)
    scores = draw.normal(size=(50, loss.outputs)) * 2
    _, y = data(loss, rows=50)
    direction, small = draw.normal(size=scores.shape), 1e-6
    ahead, behind = scores + small * direction, scores - small * direction
    slope = (loss.value(ahead, y) - loss.value(behind, y)) / (2 * small)
    np.testing.assert_allclose(slope, (loss.gradient(scores, y) * direction).sum(axis=1), atol=1e-6)
    bend = (loss.gradient(ahead, y) - loss.gradient(behind, y)) / (2 * small)
    np.testing.assert_allclose(bend, loss.hessian(scores, y)(direction), atol=1e-5)


@by_loss
def test_no_slope_and_no_bend_exceeds_its_constant(loss: Loss):
    draw = np.random.default_rng(6)
    scores = draw.normal(size=(2000, loss.outputs)) * draw.choice([0.1, 1, 30], size=(2000, 1))
    _, y = data(loss, rows=2000)
    if not loss.is_classifier:
        y = draw.choice([-1.0, 1.0], 2000)
    lengths = np.linalg.norm(loss.gradient(scores, y), axis=1)
    assert 0.9 * loss.lipschitz < lengths.max() <= loss.lipschitz * (1 + 1e-12)
    at_zero = np.linalg.norm(loss.gradient(np.zeros_like(scores), y), axis=1)
    assert at_zero.max() == pytest.approx(loss.undecided)
    unit = np.eye(loss.outputs)
    columns = [loss.hessian(scores, y)(np.tile(unit[i], (2000, 1))) for i in range(loss.outputs)]
    eigenvalues = np.linalg.eigvalsh(np.stack(columns, axis=2))
    assert 0.9 * loss.smoothness < eigenvalues.max() <= loss.smoothness * (1 + 1e-12)
    assert eigenvalues.sum(axis=1).max() <= loss.trace * (1 + 1e-12)
    assert (eigenvalues > 1e-9).sum(axis=1).max() <= loss.rank


def test_the_minimum_is_that_of_another_solver():
    x, y = data(losses.logistic())
    problem = ConvexProblem.of(losses.logistic(), x, y, norm=2.0)

    def value(weights: np.ndarray) -> float:
        return problem.risk(weights[:, None]) + 0.005 * float(weights @ weights)

    other = optimize.minimize(value, np.zeros(problem.features), tol=1e-12).x
    found = minimise.minimise(problem, regularisation=0.01, gradient_bound=1e-12).weights[:, 0]
    np.testing.assert_allclose(found, other, atol=1e-5)


@by_loss
def test_sparse_and_dense_rows_give_the_same(loss: Loss):
    x, y = data(loss, columns=60)
    x *= np.random.default_rng(1).random(x.shape) < 0.1
    dense = ConvexProblem.of(loss, x, y, norm=2.0)
    thin = ConvexProblem.of(loss, sparse.csr_matrix(x), y, norm=2.0)
    assert sparse.issparse(thin.rows)
    assert not sparse.issparse(dense.rows)
    np.testing.assert_allclose(thin.rows.toarray(), dense.rows, atol=1e-15)
    assert thin.clipped == dense.clipped
    left, right = (
        minimise.minimise(item, regularisation=0.01, gradient_bound=1e-12).weights for item in (dense, thin)
    )
    np.testing.assert_allclose(left, right, atol=1e-9)


@pytest.mark.parametrize("declared", [None, 30_000, 200_000])
def test_a_large_problem_starts_on_a_part_of_its_rows(declared: int | None):
    x, y = data(losses.softmax(3), rows=40_000, columns=4)
    problem = ConvexProblem.of(losses.softmax(3), x, y, norm=2.0, examples=declared)
    found = minimise.minimise(problem, regularisation=1e-4, gradient_bound=1e-11)
    assert found.steps <= 6
    assert np.linalg.norm(gradient(problem, found.weights, 1e-4, np.zeros_like(found.weights))) <= 1e-11


def test_what_cannot_be_reached_is_said(monkeypatch: pytest.MonkeyPatch):
    x, y = data(losses.logistic())
    problem = ConvexProblem.of(losses.logistic(), x, y, norm=2.0)
    monkeypatch.setattr(minimise, "_MOST_STEPS", 1)
    with pytest.raises(ReticentError, match="above the promised"):
        minimise.minimise(problem, regularisation=1e-3, gradient_bound=1e-12)
    with pytest.raises(InvalidArgument, match="no certified minimiser"):
        minimise.minimise(problem, regularisation=0.0, gradient_bound=1e-12)


def test_rows_are_never_longer_than_one_and_keep_their_meaning():
    draw = np.random.default_rng(2)
    x = draw.normal(size=(300, 5)) * 10.0 ** draw.integers(-200, 150, size=(300, 1))
    x[0], x[1] = 0.0, 1e300
    problem = ConvexProblem.of(losses.logistic(), x, np.zeros(300), norm=3.0)
    assert np.linalg.norm(problem.rows, axis=1).max() <= 1 + 1e-12
    lengths = np.linalg.norm(x / 1e150, axis=1) * 1e150
    assert problem.clipped == np.count_nonzero(lengths > 3.0)
    weights = draw.normal(size=(6, 1))
    coefficients, constant = problem.in_users_units(weights)
    short = lengths <= 3.0
    np.testing.assert_allclose(
        (x @ coefficients + constant)[short], (problem.rows @ weights)[short], rtol=1e-9
    )
    assert problem.rows[0, -1] == pytest.approx(INTERCEPT / np.hypot(1, INTERCEPT))
