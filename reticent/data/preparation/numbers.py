"""Bounds of a column of numbers, from two noisy histograms: over powers of four, then over equal cells.

Bounds that are too wide cost a model some resolution; bounds that are too narrow cost it the rows beyond, and
whoever is predicted. So where the noise leaves a choice, the wider ones are taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_LEAST, _MOST = -15, 30  # exponents of four: from a billionth to a quintillion
_EXPONENTS = _MOST - _LEAST + 1
COARSE = 2 * _EXPONENTS + 1  # cells: negative, zero, positive
FINE = 24  # cells: more would split the rows of a tail until none stands out
_LITTLE = 1 / 500  # of the rows in a deviation of the noise: tails that drown in less of it may be continued
_SEEN = 3.0  # deviations above which the count of a tail's cell is taken for rows


class Tails(NamedTuple):
    """What bounds do about the few rows at either end of a number's range.

    Args:
        cut: the share of rows that may be cut off on each side, if the noise lets one see so few.
        are_continued: where hardly any noise is, bounds go on to where a tail that gets thinner evenly would
            have one row left.
    """

    cut: float = 0.01
    are_continued: bool = False


TAILS = Tails()


def coarse_counts(numbers: np.ndarray) -> np.ndarray:
    """How many of the numbers have each sign and power of four."""
    sizes = np.abs(numbers)
    with np.errstate(divide="ignore"):
        exponents = np.clip(np.floor(np.log2(sizes) / 2), _LEAST, _MOST).astype(int) - _LEAST
    places = np.where(numbers > 0, _EXPONENTS + 1 + exponents, _EXPONENTS - 1 - exponents)
    places = np.where(sizes < 4.0**_LEAST, _EXPONENTS, places)
    return np.bincount(places, minlength=COARSE)


def coarse_range(noisy: np.ndarray, deviation: float) -> tuple[float, float] | None:
    """The range of the cells that stand out of the noise, and of those beside them that seem to have rows."""
    found = np.flatnonzero(noisy > seen_above(deviation))
    if not len(found):
        return None
    first, last = int(found[0]), int(found[-1])
    if first > 0 and noisy[first - 1] > deviation:
        first -= 1
    if last < COARSE - 1 and noisy[last + 1] > deviation:
        last += 1
    return _edges(first)[0], _edges(last)[1]


def seen_above(deviation: float) -> float:
    """A count that stands out: the largest of the cells' noises is above it once in a thousand times."""
    return deviation * float(np.sqrt(2 * np.log(1000 * COARSE)))


def _edges(place: int) -> tuple[float, float]:
    """The numbers that a coarse cell holds."""
    exponent = abs(place - _EXPONENTS) - 1 + _LEAST
    if place == _EXPONENTS:
        return 0.0, 0.0
    near, far = 4.0**exponent, 4.0 ** (exponent + 1)
    return (near, far) if place > _EXPONENTS else (-far, -near)


def fine_counts(numbers: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """How many of the numbers are in each of the equal cells; those outside count in the nearest one."""
    low, high = bounds
    if high <= low:
        return np.array([len(numbers)] + [0] * (FINE - 1))
    inside = np.clip(numbers, low, high)
    places = np.clip((inside - low) / (high - low) * FINE, 0, FINE - 1).astype(int)
    return np.bincount(places, minlength=FINE)


def quantile_bounds(
    noisy: np.ndarray,
    bounds: tuple[float, float],
    deviation: float,
    present: float | None = None,
    *,
    tails: Tails = TAILS,
) -> tuple[float, float]:
    """The edges between which all but a small share of the rows lie, as far as the noise allows.

    Where zeros alone stand out of the noise, the other numbers keep their sign: -1 to 1. Clipped to zero they
    would be lost, and in a column of yes or no the rare answer with them.

    Args:
        present: about how many rows have a number at all, if that is known better than from these cells.
    """
    low, high = bounds
    if high <= low:
        return low - 1, high + 1
    rows = float(noisy.sum()) if present is None else present
    first, last = (
        _crowd(noisy, deviation, rows, tails.cut) or _between_tails(noisy, deviation, tails.cut) or (0, FINE)
    )
    if tails.are_continued and deviation <= _LITTLE * rows:
        first = min(first, _end_of_tail(noisy, deviation))
        last = max(last, FINE - _end_of_tail(noisy[::-1], deviation))
    width = (high - low) / FINE
    return low + first * width, high - (FINE - last) * width


def typical_number(noisy: np.ndarray, bounds: tuple[float, float]) -> float:
    """The middle of the cell below and above which there are about as many rows."""
    low, high = bounds
    up_to = np.cumsum(np.maximum(noisy, 0.0))
    if high <= low or not (up_to[-1] > 0):
        return low / 2 + high / 2
    place = int(np.searchsorted(up_to, up_to[-1] / 2))
    return float(low + (place + 0.5) * ((high - low) / FINE))


def _crowd(noisy: np.ndarray, deviation: float, present: float, tail: float) -> tuple[int, int] | None:
    """The few cells that hold nearly everybody, if any do: seen from outside, empty cells would hide them."""
    up_to = np.concatenate([[0.0], np.cumsum(noisy)])
    for cells in range(1, FINE // 4 + 1):
        inside = up_to[cells:] - up_to[:-cells]
        first = int(inside.argmax())
        if inside[first] >= (1 - 2 * tail) * present - deviation * np.sqrt(cells):
            is_more = noisy > deviation  # in a cell beside them
            before = first > 0 and is_more[first - 1]
            after = first + cells < FINE and is_more[first + cells]
            return first - bool(before), first + cells + bool(after)
    return None


def _between_tails(noisy: np.ndarray, deviation: float, tail: float) -> tuple[int, int] | None:
    """The cells that are left when tails are cut off from both sides.

    And one more on each side, since rows are seen late where they are few.
    """
    left, right = (_first_above_noise(counts, deviation, tail) for counts in (noisy, noisy[::-1]))
    if left is None or right is None or left + right >= FINE:
        return None
    return max(left - 1, 0), min(FINE - right + 1, FINE)


def _first_above_noise(noisy: np.ndarray, deviation: float, tail: float) -> int | None:
    """The first cell up to which there are more rows than noise or the tail would explain."""
    up_to = np.cumsum(noisy)
    noise = 1.5 * deviation * np.sqrt(np.arange(1, len(noisy) + 1))
    found = np.flatnonzero(up_to > np.maximum(noise, tail * up_to[-1]))
    return int(found[0]) if len(found) else None


def _end_of_tail(noisy: np.ndarray, deviation: float) -> float:
    """The cells before the place where a tail on the left would have one row left; infinite if there is none.

    A tail has three cells in a row that stand out of the noise, each with fewer rows than the next. It goes
    on falling as fast as it does at most among them. If the cell before them has fewer rows than that, it
    ends there.
    """
    last = int(np.argmax(noisy > _SEEN * deviation))
    if not 0 < last < FINE - 2:
        return math.inf
    counts = noisy[last : last + 3]
    if not 0 < counts[0] < counts[1] < counts[2]:
        return math.inf
    fall = float(np.diff(np.log(counts)).max())
    if noisy[last - 1] + 2 * deviation < counts[0] * math.exp(-fall):
        return math.inf
    return max(last - math.log(max(counts[0], 1.0)) / fall, 0.0)
