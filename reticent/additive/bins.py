"""Bins of a column: neighbouring cells merged until each bin has enough rows, by noisy counts.

Numbers are counted twice. First in 32 equal parts of their range; then in finer parts where many rows are, so
that a column whose rows crowd at one end is not one bin there. Both counts are smoothed together: with few
rows most of a count is noise. Words are counted once, and rare ones share a bin. All of it is post-processing
of noisy counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from reticent.additive.columns import NUMBER_CELLS, STEPS
from reticent.additive.smoothing import combine, smooth
from reticent.additive.sums import Noisy

PARTS = 32  # of a number's range, counted first
_FINER = 64  # parts that are shared out where rows are
_LEAST = 0.0005  # of the rows in a bin
_CERTAIN = 1.5  # deviations of a second count's noise that the rows of a bin have to exceed
_FEWEST = 6  # bins of rows that lie evenly, however much noise there is: smooth counts are better than that
_REST = 0.5  # deviations: rare words count for at least that many rows, or they would have no curve


class FineBins(NamedTuple):
    """The parts of a number's range that bins were made of, in order; the last one holds the missing cells.

    Args:
        of_cell: the part of each cell.
        bins: the bin of each part.
        mass: the share of rows in each part; sums to 1.
        centres: where each part lies in the range, from 0 to 1; one less, as missing cells lie nowhere.
    """

    of_cell: np.ndarray
    bins: np.ndarray
    mass: np.ndarray
    centres: np.ndarray


class ColumnBins(NamedTuple):
    """The bins of a column.

    Args:
        of_cell: the bin of each cell.
        mass: the share of rows in each bin; sums to 1.
        is_number: whether bins are in order, except the last, which holds the missing cells.
        centres: where each bin lies in the range of the number, from 0 to 1; empty for words.
        parts: of a number.
    """

    of_cell: np.ndarray
    mass: np.ndarray
    is_number: bool
    centres: np.ndarray
    parts: FineBins | None = None


def parts_of_numbers() -> np.ndarray:
    """The part of each cell for the first count; the last part holds the missing cells."""
    inside = np.minimum(np.arange(STEPS + 1) * PARTS // STEPS, PARTS - 1)
    return np.append(inside, PARTS)


def finer_parts(first: Noisy, rows: int) -> np.ndarray:
    """The part of each cell for the second count: each of the first parts is divided by how many rows it has.

    Args:
        first: the first count, with the missing cells last.
        rows: the declared, public number of rows.
    """
    missing = _standing_out(first.values[-1], first.deviation)
    variances = np.full(PARTS, first.deviation**2)
    seen = smooth(first.values[:PARTS], variances, np.ones(PARTS), rows - missing)
    total = seen.sum()
    shares = seen / total if total > 0 else np.full(PARTS, 1 / PARTS)
    width = STEPS // PARTS
    divisions = np.minimum(1 + np.floor(_FINER * shares).astype(int), width)
    cells, start = np.empty(NUMBER_CELLS, np.int64), 0
    for part, division in enumerate(divisions):
        here = np.arange(part * width, (part + 1) * width + (part == PARTS - 1))
        cells[here] = start + np.minimum((here - part * width) * division // width, division - 1)
        start += division
    cells[-1] = start
    return cells


def bins_of_numbers(parts: np.ndarray, first: Noisy, second: Noisy, rows: int) -> ColumnBins:
    """Bins of a number, from both counts.

    Args:
        parts: of each cell, as they were counted the second time.
        rows: the declared, public number of rows.
    """
    masses = _rows_in_parts(parts, first, second, rows)
    enough = min(_CERTAIN * second.deviation, rows / _FEWEST)
    return _merge(parts, masses, max(enough, _LEAST * rows))


def _rows_in_parts(parts: np.ndarray, first: Noisy, second: Noisy, rows: int) -> np.ndarray:
    """How many rows are in each of the parts that were counted the second time, the missing cells last."""
    _, starts, cells = np.unique(parts[:-1], return_index=True, return_counts=True)
    coarse, widths = parts_of_numbers()[starts], cells.astype(np.float64)
    old, new = first.deviation**2, second.deviation**2
    missing, variance = combine(first.values[-1:], np.array([old]), second.values[-1:], np.array([new]))
    nowhere = _standing_out(float(missing[0]), math.sqrt(variance[0]))
    counts = second.values[:-1]
    together = np.bincount(coarse, weights=counts, minlength=PARTS)
    variances = np.bincount(coarse, minlength=PARTS) * new
    both = combine(first.values[:PARTS], np.full(PARTS, old), together, variances)
    totals = smooth(*both, np.ones(PARTS), rows - nowhere)
    inside = [
        smooth(counts[here], np.full(len(here), new), widths[here], totals[part])
        for part, here in enumerate(np.split(np.arange(len(counts)), np.flatnonzero(np.diff(coarse)) + 1))
    ]
    return np.append(np.concatenate(inside), nowhere)


def _standing_out(count: float, deviation: float) -> float:
    return float(count) if count > 2 * deviation else 0.0


def _merge(parts: np.ndarray, masses: np.ndarray, enough: float) -> ColumnBins:
    """Neighbouring parts together, until each bin has enough rows; the missing cells stay apart."""
    of_part, merged, rest = np.zeros(len(masses), np.int64), [0.0], 0.0
    for part, count in enumerate(masses[:-1]):
        of_part[part] = len(merged) - 1
        merged[-1] += float(count)
        rest += float(count)
        if rest >= enough:
            merged.append(0.0)
            rest = 0.0
    if len(merged) > 1:  # what is left over joins the last bin
        last = merged.pop()
        merged[-1] += last
        of_part = np.minimum(of_part, len(merged) - 1)
    of_part[-1] = len(merged)
    merged.append(float(masses[-1]))
    of_cell = of_part[parts]
    centres, finer = _centres(of_cell), FineBins(parts, of_part, _shares(masses), _centres(parts))
    return ColumnBins(of_cell, _shares(merged), True, centres, finer)


def _centres(of_cell: np.ndarray) -> np.ndarray:
    """Where the places of a number's cells lie in its range, from 0 to 1, but for that of missing cells."""
    inside = of_cell[:-1]
    return np.bincount(inside, weights=np.arange(STEPS + 1) / STEPS) / np.bincount(inside)


def bins_of_words(noisy: np.ndarray, deviation: float, most: int) -> ColumnBins:
    """Bins of a category: one per word that enough rows have, and one for all others; `most` in all."""
    is_seen = noisy > _CERTAIN * deviation
    is_seen[np.argsort(-noisy, kind="stable")[max(most - 1, 0) :]] = False
    of_cell = np.where(is_seen, np.cumsum(is_seen) - 1, is_seen.sum())
    masses = np.append(noisy[is_seen], max(float(noisy[~is_seen].sum()), _REST * deviation))
    return ColumnBins(of_cell, _shares(masses), False, np.empty(0))


def _shares(masses: list[float] | np.ndarray) -> np.ndarray:
    positive = np.maximum(np.asarray(masses, np.float64), 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(len(positive), 1 / len(positive))
