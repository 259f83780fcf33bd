"""Bins of a column: neighbouring cells merged until each bin has enough rows, by noisy counts.

Numbers are counted twice. First in 32 equal parts of their range; then in finer parts where many rows are, so
that a column whose rows crowd at one end is not one bin there. Words are counted once, and rare ones share a
bin. All of it is post-processing of noisy counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.additive.columns import NUMBER_CELLS, STEPS

PARTS = 32  # of a number's range, counted first
_FINER = 64  # parts that are shared out where rows are
_LEAST = 0.002  # of the rows in a bin
_CERTAIN = 1.5  # deviations of a bin's noise that its rows have to exceed
_REST = 0.5  # deviations: rare words count for at least that many rows, or they would have no curve


class ColumnBins(NamedTuple):
    """The bins of a column.

    Args:
        of_cell: the bin of each cell.
        mass: the share of rows in each bin; sums to 1.
        is_number: whether bins are in order, except the last, which holds the missing cells.
        centres: where each bin lies in the range of the number, from 0 to 1; empty for words.
    """

    of_cell: np.ndarray
    mass: np.ndarray
    is_number: bool
    centres: np.ndarray


def parts_of_numbers() -> np.ndarray:
    """The part of each cell for the first count; the last part holds the missing cells."""
    inside = np.minimum(np.arange(STEPS + 1) * PARTS // STEPS, PARTS - 1)
    return np.append(inside, PARTS)


def finer_parts(noisy: np.ndarray, deviation: float) -> np.ndarray:
    """The part of each cell for the second count: each of the first parts is divided by how many rows it has.

    Args:
        noisy: the first count, with the missing cells last.
    """
    seen = np.where(noisy[:PARTS] > 2 * deviation, noisy[:PARTS], 0.0)
    total = seen.sum()
    shares = seen / total if total > 0 else np.full(PARTS, 1 / PARTS)
    width = STEPS // PARTS
    divisions = np.minimum(1 + np.floor(_FINER * shares).astype(int), width)
    cells, first = np.empty(NUMBER_CELLS, np.int64), 0
    for part, division in enumerate(divisions):
        here = np.arange(part * width, (part + 1) * width + (part == PARTS - 1))
        cells[here] = first + np.minimum((here - part * width) * division // width, division - 1)
        first += division
    cells[-1] = first
    return cells


def bins_of_numbers(parts: np.ndarray, noisy: np.ndarray, deviation: float, rows: int) -> ColumnBins:
    """Bins of a number, from the second count.

    Args:
        parts: of each cell, as they were counted.
    """
    enough = max(_CERTAIN * deviation, _LEAST * rows)
    of_part, masses, rest = np.zeros(len(noisy), np.int64), [0.0], 0.0
    for part, count in enumerate(noisy[:-1]):
        of_part[part] = len(masses) - 1
        masses[-1] += float(count)
        rest += float(count)
        if rest >= enough:
            masses.append(0.0)
            rest = 0.0
    if len(masses) > 1:  # what is left over joins the last bin
        last = masses.pop()
        masses[-1] += last
        of_part = np.minimum(of_part, len(masses) - 1)
    of_part[-1] = len(masses)
    missing = float(noisy[-1])
    masses.append(missing if missing > 2 * deviation else 0.0)
    of_cell = of_part[parts]
    numbers = np.arange(STEPS + 1) / STEPS
    centres = np.array([numbers[of_cell[:-1] == at].mean() for at in range(len(masses) - 1)])
    return ColumnBins(of_cell, _shares(masses), True, centres)


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
