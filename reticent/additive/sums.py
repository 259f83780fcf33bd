"""The releases of an additive model: sums over rows in whole numbers, with whole noise.

Every sum here adds whole numbers that stay below 2^47, so it is exact in any order. A row's part in a sum
depends on that row and on what was released before. What bounds it is computed in whole numbers too.

Where users are protected, a row counts one part in so many as its user has rows, cut towards zero. All rows
of a user together then add no more than one row may, however many there are: each adds at most its share of
that length, and lengths add up to no more than their sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reticent.additive.targets import MOST
from reticent.core.errors import DataError
from reticent.mechanisms.whole import deviation_of, parts_of_one, whole_normals

WEIGHT = 1 << 10  # steps in a weight of 1
MOST_ROWS = 1 << 25  # times MOST and WEIGHT: sums stay below 2^47, and on the grid of the noise below 2^62

_FINE = 64  # steps of the grid in a deviation, at least; at most 256 times as many

LEAST_CONSTANT = WEIGHT // 10  # the least weight of the intercept
_INSIDE = WEIGHT // 10  # the weight of the number of residuals that were not cut


class Noisy(NamedTuple):
    """Released numbers, and the deviation of the noise in each."""

    values: np.ndarray
    deviation: float


class PassSums(NamedTuple):
    """What one pass releases.

    Args:
        columns: for each column the products of features and residuals, (features, outputs), over `scale`.
        constant: the sum of the residuals, (outputs,).
        inside: how many residuals were not cut.
        deviation: of the noise in `columns`; that in `constant` and `inside` is so many times as large.
    """

    columns: list[np.ndarray]
    constant: np.ndarray
    inside: float
    deviation: float
    constant_deviation: float
    inside_deviation: float


def require_few_rows(rows: int) -> None:
    """
    Raises:
        DataError: there are so many that a sum might not be exact.
    """
    if rows > MOST_ROWS:
        raise DataError(
            f"More than {MOST_ROWS:,} rows cannot be added up exactly.",
            remedy="Train on fewer rows, or choose another model.",
        )


def rows_of_own_user(users: np.ndarray) -> np.ndarray:
    """How many rows the user of each row has.

    >>> rows_of_own_user(np.array(["ann", "bob", "ann"])).tolist()
    [2, 1, 2]
    """
    _, owner, counts = np.unique(users, return_inverse=True, return_counts=True)
    return counts[owner]


def release_counts(
    source: np.random.Generator,
    places: Sequence[np.ndarray],
    sizes: Sequence[int],
    multiplier: float,
    siblings: np.ndarray | None = None,
) -> list[Noisy]:
    """How many rows, or users, are in each place of each column, with noise.

    Args:
        siblings: how many rows the user of each row has; None where every row is its own unit.

    Guarantee:
        Costs a Gaussian of this noise multiplier: a row is counted once in each column, and so adds a vector
        of length sqrt(columns). The rows of a user count as parts of one.
    """
    unit, weights = (1, None) if siblings is None else (MOST, MOST // siblings)
    counts = [
        np.bincount(place, weights=weights, minlength=size)  # whole, and exact below 2^53
        for place, size in zip(places, sizes, strict=True)
    ]
    noisy = _add_noise(source, counts, unit * math.sqrt(len(counts)), multiplier)
    return [Noisy(part / unit, noisy.deviation / unit) for part in noisy.parts]


def release_start(
    source: np.random.Generator, parts: np.ndarray, multiplier: float, siblings: np.ndarray | None = None
) -> Noisy:
    """The sum of rows no longer than MOST, with noise."""
    require_bounded(parts)
    noisy = _add_noise(source, [_shared(parts, siblings).sum(axis=0)], MOST, multiplier)
    return Noisy(noisy.parts[0], noisy.deviation)


def whole_tables(tables: Sequence[np.ndarray], weights: np.ndarray) -> list[np.ndarray]:
    """The features of each column times its weight, cut towards zero to whole numbers of 1 / WEIGHT."""
    pairs = zip(tables, weights, strict=True)
    return [np.trunc(table * (weight * WEIGHT)).astype(np.int64) for table, weight in pairs]


def longest_row(tables: Sequence[np.ndarray], constant: int = LEAST_CONSTANT) -> int:
    """A bound on the length of what a row adds in a pass, in units of MOST: a whole number, rounded up.

    The features of each column's bin, beside the constant and the flag for a residual that was not cut.

    Args:
        constant: its weight, a whole number.
    """
    squares = [int(np.square(table).sum(axis=1).max()) for table in tables]
    return math.isqrt(sum(squares) + constant**2 + _INSIDE**2) + 1


def release_pass(
    source: np.random.Generator,
    bins: Sequence[np.ndarray],
    tables: Sequence[np.ndarray],
    residuals: np.ndarray,
    is_inside: np.ndarray,
    multiplier: float,
    constant: int = LEAST_CONSTANT,
    siblings: np.ndarray | None = None,
) -> PassSums:
    """The sums of one pass, with noise.

    Args:
        bins: of each row, one array per column.
        tables: whole features of each bin, by `whole_tables`.
        residuals: (rows, outputs), whole numbers; no row is longer than MOST.
        is_inside: whether a residual was not cut.
        constant: the weight of the sum of the residuals, a whole number.
        siblings: how many rows the user of each row has; None where every row is its own unit.

    Guarantee:
        Costs a Gaussian of this noise multiplier. A row adds its residuals times its features, its
        residuals times a constant, and MOST times a constant if it was not cut: a vector no longer than MOST
        times `longest_row`. Whether rows are cut is so cheap to know that it shares the noise. The rows of a
        user add their shares, which together are no longer than that.
    """
    require_bounded(residuals)
    residuals, uncut = _shared(residuals, siblings), np.where(is_inside, MOST, 0)
    exact = [
        np.stack([_products(at, table, column) for column in residuals.T], axis=1)
        for at, table in zip(bins, tables, strict=True)
    ]
    alone = (residuals.sum(axis=0) * constant).astype(np.int64)
    inside = np.array([_shared(uncut, siblings).sum() * _INSIDE], np.int64)
    noisy = _add_noise(source, [*exact, alone, inside], MOST * longest_row(tables, constant), multiplier)
    *columns, constants, counted = noisy.parts
    unit = MOST * WEIGHT
    return PassSums(
        columns=[part / unit for part in columns],
        constant=constants / (MOST * constant),
        inside=float(counted[0]) / (MOST * _INSIDE),
        deviation=noisy.deviation / unit,
        constant_deviation=noisy.deviation / (MOST * constant),
        inside_deviation=noisy.deviation / (MOST * _INSIDE),
    )


class Releases:
    """All that a fit releases, by the functions above. An audit puts canaries into what is released."""

    def counts(
        self,
        source: np.random.Generator,
        places: Sequence[np.ndarray],
        sizes: Sequence[int],
        multiplier: float,
        siblings: np.ndarray | None = None,
    ) -> list[Noisy]:
        return release_counts(source, places, sizes, multiplier, siblings)

    def start(
        self,
        source: np.random.Generator,
        parts: np.ndarray,
        multiplier: float,
        siblings: np.ndarray | None = None,
    ) -> Noisy:
        return release_start(source, parts, multiplier, siblings)

    def one_pass(
        self,
        source: np.random.Generator,
        bins: Sequence[np.ndarray],
        tables: Sequence[np.ndarray],
        residuals: np.ndarray,
        is_inside: np.ndarray,
        multiplier: float,
        constant: int,
        siblings: np.ndarray | None = None,
    ) -> PassSums:
        return release_pass(source, bins, tables, residuals, is_inside, multiplier, constant, siblings)


RELEASES = Releases()


def require_bounded(parts: np.ndarray) -> None:
    """Checks that rows are whole and no longer than MOST: a bound that the noise rests on."""
    if np.any(parts != np.trunc(parts)) or np.any(np.square(parts).sum(axis=1) > float(MOST) ** 2):
        raise AssertionError("a row adds more than it may")


def _shared(parts: np.ndarray, siblings: np.ndarray | None) -> np.ndarray:
    """What each row adds of its part: one in so many as its user has rows, cut towards zero."""
    if siblings is None:
        return parts
    return np.trunc(parts / siblings.reshape(-1, *(1,) * (parts.ndim - 1)))


def _products(bins: np.ndarray, table: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """The sum over rows of a residual times the features of the row's bin."""
    by_bin = np.bincount(bins, weights=residuals, minlength=len(table))  # whole, and exact below 2^53
    return by_bin.astype(np.int64) @ table


class _NoisyParts(NamedTuple):
    parts: list[np.ndarray]
    deviation: float


def _add_noise(
    source: np.random.Generator, parts: Sequence[np.ndarray], max_norm: float, multiplier: float
) -> _NoisyParts:
    """Whole normals on all parts together, on a grid that divides 1.

    Guarantee:
        Costs no more than real Gaussian noise of `multiplier` times `max_norm` on whole values, up to 2^-64
        per number: nothing is rounded, and the grid's noise is no smaller (`parts_of_one`).
    """
    flat = np.concatenate([np.asarray(part, np.int64).ravel() for part in parts])
    levels, steps = parts_of_one(multiplier * max_norm * (1 + 1e-12), fine=_FINE)
    noisy = (flat * steps + whole_normals(source, flat.shape, levels=levels)) / steps
    ends = np.cumsum([part.size for part in parts])[:-1]
    shaped = [piece.reshape(np.shape(part)) for piece, part in zip(np.split(noisy, ends), parts, strict=True)]
    return _NoisyParts(shaped, deviation_of(levels) / steps)
