"""How far one record moves C X, for each way to take part: by theorems, rounded up.

A record contributes vectors of length 1 at most, in steps that a `Participation` allows. Sums here are of
numbers of one sign, so that float64 is off by the number of terms times 2^-53 of the result at most; that is
added.

Reference:
    Choquette-Choo et al. (2023), Multi-epoch matrix factorization, arXiv:2211.06530v3, and (Amplified) banded
    matrix factorization, arXiv:2306.08153v2; Kalinin and Lampert (2024), Theorem 2, arXiv:2405.13763v2.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.core.errors import Unproven
from reticent.noise.participation import Participation
from reticent.noise.series import shifted_sum

_UNIT = 2.0**-53


def rounded_up(value: float, terms: int) -> float:
    """At least the exact value of a root of sums of so many terms, each a product or a sum, of one sign."""
    return value * (1 + 4 * (terms + 4) * _UNIT) if terms else value


def toeplitz_sensitivity(column: np.ndarray, steps: int, participation: Participation) -> float:
    """The sensitivity of a lower-triangular Toeplitz matrix, given by its first column.

    Coefficients that are not negative and do not grow have a theorem: the worst record takes part in steps 0,
    separation, 2 separation and so on. Others that are not negative are made larger until they do not grow:
    no entry gets smaller, and so no sensitivity.

    Raises:
        Unproven: a coefficient is negative, and bands overlap.

    Example:
        >>> toeplitz_sensitivity(np.ones(5), 5, Participation(times=4, separation=1)) ** 2
        46.0...
    """
    column, part = np.asarray(column, float)[:steps], participation.within(steps)
    last = int(np.max(np.flatnonzero(column), initial=0))
    if last == 0 and abs(column[0]) == 1.0:
        return math.sqrt(part.times)  # independent noise
    if part.times == 1 or last < part.separation:
        # The columns of a record share no row: what it adds to C X is orthogonal.
        norm = math.sqrt(float(np.sum(column**2)))
        return rounded_up(math.sqrt(part.times) * norm, len(column) + 2)
    if np.any(column < 0):
        raise Unproven(
            f"There is no theorem for negative coefficients, {last + 1} bands and steps {part.separation} "
            "apart.",
            remedy="Use at most as many bands as steps lie between two batches of a record.",
        )
    decreasing = np.maximum.accumulate(column[::-1])[::-1]
    total = shifted_sum(decreasing, steps, part.separation, part.times)
    return rounded_up(math.sqrt(float(np.sum(total**2))), steps + part.times)


def matrix_sensitivity(matrix: np.ndarray, participation: Participation) -> float:
    """The sensitivity of any matrix with one column for each step.

    A record in a fixed order has a sum over all pairs of its steps. Else, for columns that are orthogonal
    where a record may use both, it is the largest sum of squared lengths; for products of columns that are
    not negative, a bound by two rounds of dynamic programming.

    Raises:
        Unproven: some columns have a negative product, and a record may use both.

    Example:
        >>> matrix_sensitivity(np.diag([0.0, 3, 0, 1, 2]), Participation(times=3, separation=2)) ** 2
        13.0...
    """
    steps = matrix.shape[1]
    products, part = matrix.T @ matrix, participation.within(steps)
    # Entries of either sign may cancel: what rounding may do to a product is at most this.
    slack = (matrix.shape[0] + 2) * _UNIT * (np.abs(matrix).T @ np.abs(matrix))
    squares = np.diag(products) * (1 + (steps + 4) * _UNIT)
    if part.times == 1:
        return _root(float(np.max(squares)), 1)
    if part.is_cyclic:
        sums = [
            float(np.sum((np.abs(products) + slack)[first :: part.separation, first :: part.separation]))
            for first in range(min(part.separation, steps))
        ]
        return _root(max(sums), steps**2)
    rows, columns = np.indices(products.shape)
    apart = np.abs(rows - columns) >= part.separation
    if np.all(matrix_overlap(matrix)[apart] == 0):
        return _root(_best_sum(squares, part), steps)
    if np.any(products[apart] < -slack[apart]):
        raise Unproven(
            "There is no theorem for columns with negative products that one record may use.",
            remedy="Use fewer bands, a fixed order of records, or another strategy.",
        )
    upper = np.abs(products) + slack
    reach = np.array([_best_with(upper[at], at, part) for at in range(steps)])
    return _root(_best_sum(reach, part), steps**2)


def matrix_overlap(matrix: np.ndarray) -> np.ndarray:
    """Which columns share a row."""
    used = (matrix != 0).astype(float)
    return used.T @ used


def _root(square: float, terms: int) -> float:
    return rounded_up(math.sqrt(square), terms)


def _best_sum(values: np.ndarray, part: Participation) -> float:
    """The largest sum of at most `times` values that are at least `separation` apart."""
    best = np.zeros(len(values) + part.separation)
    for _ in range(part.times):
        taken = values + best[: len(values)]  # with this one as the last
        fresh = np.zeros_like(best)
        fresh[part.separation :] = np.maximum.accumulate(taken)
        best = np.maximum(fresh, 0.0)
    return float(best[-1])


def _best_with(row: np.ndarray, at: int, part: Participation) -> float:
    """The largest sum over a pattern that contains `at`, at most: each side of it with all the rest."""
    rest = Participation(times=max(part.times - 1, 1), separation=part.separation)
    if part.times == 1:
        return float(row[at])
    before, after = row[: max(at - part.separation + 1, 0)], row[at + part.separation :]
    sides = [_best_sum(side, rest) for side in (before, after) if len(side)]
    return float(row[at]) + sum(sides)
