"""Rows are no longer than 1 as floats, however the worst of them was stored."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from reticent.convex import exponential, losses
from reticent.convex.problem import ConvexProblem

SIZES = [5e-324, 1e-310, 1e-200, 0.1, 1.0, 3.0, 1e160, 1.7e308]


def longest(problem: ConvexProblem) -> float:
    """Of all rows, in exact arithmetic."""
    rows = problem.rows.toarray() if sparse.issparse(problem.rows) else problem.rows
    return float(max(sum(Fraction(entry) ** 2 for entry in row) for row in rows.tolist()))


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("norm", [0.1, 3.0])
def test_no_row_is_longer_than_one(is_sparse: bool, norm: float):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 40)) * (draw.random((200, 40)) < 0.05)
    x *= draw.choice(SIZES[2:-1], size=(200, 1))
    x[:8, 0], x[8:16, :2] = SIZES, np.array(SIZES)[:, None]
    given = sparse.csr_array(x) if is_sparse else x
    problem = ConvexProblem.of(losses.logistic(), given, np.zeros(200), norm=norm)
    assert sparse.issparse(problem.rows) == is_sparse
    assert 1 - 1e-12 < longest(problem) <= 1


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 2e-308])
def test_the_smallest_entry_does_not_let_other_rows_escape(tiny: float):
    x = np.full((300, 30), 0.1) * (np.arange(30) < 2)
    x[0] = 0.0
    x[0, 0] = tiny
    dense, thin = (
        ConvexProblem.of(losses.logistic(), given, np.zeros(300), norm=0.1)
        for given in (x, sparse.csr_array(x))
    )
    assert longest(thin) <= 1
    assert dense.clipped == thin.clipped == 299


def test_an_entry_that_is_stored_in_parts_is_their_sum():
    parts = np.full(60, 0.9)
    stored = sparse.csr_array((parts, np.zeros(60, int), [0, 30, 60]), (2, 20))
    problem = ConvexProblem.of(losses.logistic(), stored, np.zeros(2), norm=1.0)
    assert longest(problem) <= 1
    assert problem.clipped == 2
    assert stored.nnz == 60, "the caller's matrix is left as it was"


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("columns", [1, 2, 7, 60, 333])
def test_a_row_has_the_same_bits_wherever_it_stands(columns: int, is_sparse: bool):
    """One record less moves all others up: nothing else about them may change."""
    draw = np.random.default_rng(columns)
    x = draw.normal(size=(1003, columns)) * (draw.random((1003, columns)) < (0.05 if is_sparse else 1))
    found = [
        ConvexProblem.of(
            losses.logistic(), sparse.csr_array(part) if is_sparse else part, np.zeros(len(part)), norm=1.0
        )
        for part in (x, x[1:], x[5:])
    ]
    whole, *parts = [item.rows.toarray() if sparse.issparse(item.rows) else item.rows for item in found]
    assert all(np.array_equal(whole[-len(part) :], part) for part in parts)


@pytest.mark.parametrize("loss", [losses.softmax(3), losses.absolute(bound=1.0)], ids=lambda loss: loss.name)
def test_a_record_adds_the_same_to_every_score_wherever_it_stands(loss: losses.Loss):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(1003, 1 if loss.outputs > 1 else 3))
    y = draw.integers(0, 3, 1003).astype(float)
    points = exponential.grid(3, 6.0)[0][::300]

    def scores(here: slice) -> np.ndarray:
        given = ConvexProblem.of(loss, x[here], y[here], norm=1.0, intercept=False)
        return exponential.scores(given, points, 0.0, 6.0)

    for cut in (1, 2, 500, 1002):
        assert np.array_equal(scores(slice(cut)) + scores(slice(cut, None)), scores(slice(None)))
