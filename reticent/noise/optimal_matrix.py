"""The dense strategy of least error for few steps, as a convex problem in X = C'C.

The squared error of the prefix sum A is the trace of A'A X^-1. Columns of C that one record uses are
orthogonal: then its contributions add up like independent ones. If records come in a fixed order, the
squared lengths of the columns that one uses have a fixed sum; else every column has length 1. What is left
of X is free.

Reference:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), arXiv:2202.08312v2; Choquette-Choo et al. (2023),
    arXiv:2211.06530v3 and arXiv:2306.08153v2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.noise.participation import Participation

MOST_STEPS = 512
_KEPT = 20  # directions that the descent remembers
_ITERATIONS = 2000


@lru_cache(32)  # a strategy is asked for its sensitivity and its error again and again
def optimal_matrix(steps: int, participation: Participation, bands: int | None = None) -> np.ndarray:
    """The lower-triangular C of least root mean squared error.

    Args:
        bands: entries further below the diagonal are 0; by default, all may be used.

    Example:
        >>> matrix = optimal_matrix(4, Participation(times=1))
        >>> np.sum(matrix**2, axis=0).round(9).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    checks.count(steps=steps)
    if not steps <= MOST_STEPS:
        raise InvalidArgument(
            f"A dense strategy for {steps} steps takes too long to find: at most {MOST_STEPS}.",
            remedy="Use rt.noise.toeplitz or rt.noise.banded.",
        )
    part = participation.within(steps)
    start = np.ones(steps)
    classes = np.arange(steps)  # of columns whose squared lengths have a fixed sum
    if part.is_cyclic and part.times > 1:
        classes %= part.separation
        start = part.times / np.bincount(classes)[classes]
    value = _trace_of_inverse(_weights(steps), _free(steps, part, bands), classes)
    found = _lower_factor(_descend(value, np.diag(start)))
    found.setflags(write=False)
    return found


def _free(steps: int, part: Participation, bands: int | None) -> np.ndarray:
    """Which products of columns may differ from 0; those on the diagonal are 1."""
    lag = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    is_free = lag > 0
    if part.times > 1:
        is_free &= (lag % part.separation != 0) if part.is_cyclic else (lag < part.separation)
    return is_free if bands is None else is_free & (lag < bands)


def _weights(steps: int) -> np.ndarray:
    """A'A of the prefix sum, over the number of steps."""
    later = np.maximum.outer(np.arange(steps), np.arange(steps))
    return (steps - later) / steps


Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _trace_of_inverse(weights: np.ndarray, is_free: np.ndarray, classes: np.ndarray) -> Objective:
    """The trace of W X^-1, and its slope along what is free."""

    def value(products: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            factor = cho_factor(products, lower=True)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(products)
        pulled = cho_solve(factor, weights)  # X^-1 W
        slope = -cho_solve(factor, pulled.T)
        own = np.diag(slope)
        means = np.bincount(classes, own) / np.bincount(classes)
        return float(np.trace(pulled)), np.where(is_free, slope, 0.0) + np.diag(own - means[classes])

    return value


def _descend(value: Objective, start: np.ndarray) -> np.ndarray:
    """Limited-memory quasi-Newton steps that never leave the cone of positive matrices."""
    here, (loss, slope) = start, value(start)
    moves: list[tuple[np.ndarray, np.ndarray, float]] = []
    for _ in range(_ITERATIONS):
        if not np.max(np.abs(slope), initial=0.0) > 1e-9 * loss:
            break
        direction = -_newton_like(slope, moves)
        fall = float(np.sum(direction * slope))
        if not fall < 0:
            moves, direction = [], -slope
            fall = float(np.sum(direction * slope))
        size = 1.0 if moves else min(1.0, 0.1 / float(np.sqrt(-fall)))
        while True:
            there = here + size * direction
            fresh, steeper = value(there)
            if fresh <= loss + 1e-4 * size * fall or size < 1e-12:
                break
            size /= 2
        if not fresh < loss:
            break
        step, change = there - here, steeper - slope
        if (curve := float(np.sum(step * change))) > 0:
            moves = [*moves[-_KEPT + 1 :], (step, change, curve)]
        is_done = loss - fresh <= 1e-14 * loss
        here, loss, slope = there, fresh, steeper
        if is_done:
            break
    return here


def _newton_like(slope: np.ndarray, moves: list[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    found, shares = slope.copy(), []
    for step, change, curve in reversed(moves):
        share = float(np.sum(step * found)) / curve
        found -= share * change
        shares.append(share)
    if moves:
        _, change, curve = moves[-1]
        found *= curve / float(np.sum(change * change))
    for (step, change, curve), share in zip(moves, reversed(shares), strict=True):
        found += step * (share - float(np.sum(change * found)) / curve)
    return found


def _lower_factor(products: np.ndarray) -> np.ndarray:
    """The lower-triangular C with C'C = X: a Cholesky factor of X read backwards."""
    return np.linalg.cholesky(products[::-1, ::-1]).T[::-1, ::-1]
