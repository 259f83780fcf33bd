"""Records at the extremes of float64, dense and sparse, for every method: none is longer or pulls harder."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import reticent as rt
from reticent.convex import losses
from reticent.convex.problem import ConvexProblem
from reticent.core.errors import DataError, InvalidArgument, ReticentError

ROWS, FEATURES = 60, 30
LARGEST, LEAST = float(np.finfo(np.float64).max), 5e-324
EXTREMES = (LARGEST, -LARGEST, 1e300, 1e155, 1e-155, 2.3e-308, 1e-310, 5.6e-309, LEAST, -LEAST, 0.0, -0.0)


def _table(value: float, *, is_sparse: bool) -> Any:
    """Ordinary rows behind one whose first entries are extreme."""
    rows = np.zeros((ROWS, FEATURES))
    rows[:, :2] = np.random.default_rng(0).choice([-0.1, 0.1], (ROWS, 2))
    rows[0] = 0
    rows[0, :3] = value
    return sparse.csr_array(rows) if is_sparse else rows


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("norm", [1e-300, 0.1, 1e300])
def test_no_row_is_longer_than_one(norm: float, is_sparse: bool) -> None:
    for value in EXTREMES:
        table = _table(value, is_sparse=is_sparse)
        problem = ConvexProblem.of(losses.logistic(), table, np.zeros(ROWS), norm=norm)
        rows = problem.rows.toarray() if sparse.issparse(problem.rows) else problem.rows
        assert np.isfinite(rows).all(), value
        for row in rows[:3]:
            assert math.sqrt(math.fsum(entry * entry for entry in row)) <= 1, value


@pytest.mark.parametrize("norm", [LEAST, 1e-301, 1e301, LARGEST, math.inf, math.nan, 0.0])
def test_a_norm_that_floats_cannot_divide_by_is_refused(norm: float) -> None:
    with pytest.raises(InvalidArgument):
        ConvexProblem.of(losses.logistic(), _table(1.0, is_sparse=False), np.zeros(ROWS), norm=norm)


def test_entries_that_are_stored_in_parts_count_as_their_sum() -> None:
    def of(values: list[float]) -> sparse.csr_array:
        return sparse.csr_array((np.array(values), np.array([0, 0]), np.array([0, 2])), shape=(1, 40))

    problem = ConvexProblem.of(losses.logistic(), of([0.7, 0.7]), np.zeros(1), norm=1.0, intercept=False)
    assert sparse.linalg.norm(problem.rows) <= 1
    for parts in ([LARGEST, LARGEST], [np.inf, -np.inf], [np.nan, 1.0]):
        with pytest.raises(DataError, match="NaN or infinity"):
            ConvexProblem.of(losses.logistic(), of(parts), np.zeros(1), norm=1.0)


@pytest.mark.parametrize("bound", [math.inf, math.nan, 0.0, -1.0, 1e100])
@pytest.mark.parametrize("loss", [losses.absolute, lambda bound: losses.huber(1.0, bound=bound)])
def test_targets_without_a_bound_that_floats_can_hold_are_refused(loss: Any, bound: float) -> None:
    with pytest.raises(InvalidArgument):
        loss(bound=bound)


@pytest.mark.parametrize("method", ["output", "objective", "exponential"])
@pytest.mark.parametrize("target", [1e100, -LARGEST, LEAST])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_target_beyond_its_bound_is_clipped_by_every_method(
    method: str, target: float, is_sparse: bool
) -> None:
    """Neighbours with the target at its bound and far beyond it are the same to the last bit."""
    rows = _table(0.05, is_sparse=is_sparse)
    found = []
    for value in (target, float(np.clip(target, -3.0, 3.0))):
        y = np.linspace(-1, 1, ROWS)
        y[0] = value
        result = rt.convex.fit(
            losses.huber(1.0, bound=3.0),
            rows,
            y,
            norm=1.0,
            method=method,
            epsilon=1.0,
            delta=1e-6 if method != "exponential" else None,
            regularisation=0.1,
            keys=rt.Keys.seeded(3),
        )
        found.append(np.append(result.coefficients, result.intercept))
    assert np.array_equal(*found)


def test_an_error_of_a_minimiser_shows_nothing_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    from reticent.convex import minimise

    monkeypatch.setattr(minimise, "_MOST_STEPS", 1)
    said = set()
    for shift in (0.01, 0.09):
        problem = ConvexProblem.of(
            losses.logistic(), _table(shift, is_sparse=False), np.arange(ROWS) % 2, norm=0.1
        )
        with pytest.raises(ReticentError) as caught:
            minimise.minimise(problem, regularisation=1e-3, gradient_bound=1e-11)
        said.add(str(caught.value))
    assert len(said) == 1
