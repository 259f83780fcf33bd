"""Batches whose sum lies at a power of two: the next float is twice as far away on one side as on the other.

Records that each move the sum by a clipping norm bring it there; one record more, and it is beyond. Thousands
of tiny records follow. In a float they are all rounded away on the one side of the power, and all rounded up
on the other: two neighbours then drift apart, by far more than a record may move them.

Reference:
    Casacuberta, Shoemate, Vadhan and Wagaman (2022), Widespread underestimation of sensitivity in
    differentially private libraries and how to fix it, arXiv:2207.10635.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from reticent.audit.distances import Distance, distance
from reticent.audit.finding import Claim
from reticent.audit.replay import Rows
from reticent.mechanisms.adjacency import Adjacency

RowsRelease = Callable[[Rows], np.ndarray | None]  # under one seed; None if the step failed

_HALVINGS = 60
_SHORT, _LONG = 0.1, 0.4  # clipping norms: of a record that is not clipped, and is not lost in rounding
_LINEAR = 1e-3
_TOGETHER = (1, 4, 16, 64)  # tiny records whose sum is rounded at once
_FLOAT_BITS = 24


class Ladder(NamedTuple):
    """Records along one direction, of any length.

    Args:
        sized: the record that moves the sum by this many clipping norms, one row of each array.
        share: the largest coordinate of the direction.
    """

    sized: Callable[[float], dict[str, np.ndarray]]
    share: float


def ladder_of(release: RowsRelease, row: Rows, claim: Claim) -> Ladder | None:
    """Finds how much a record has to be scaled, if what it adds to the sum scales with one of its arrays."""
    nobody = release({key: array[:0] for key, array in row.items()})
    if nobody is None:
        return None
    floats = (key for key, array in row.items() if np.issubdtype(array.dtype, np.floating))
    found = (
        _ladder_by(lambda scale, key=key: _scale(row, key, scale), release, nobody, claim) for key in floats
    )
    return next((each for each in found if each is not None), None)


def _ladder_by(
    scaled: Callable[[float], dict[str, np.ndarray]], release: RowsRelease, nobody: np.ndarray, claim: Claim
) -> Ladder | None:
    def moved(scale: float) -> np.ndarray:
        somebody = release(scaled(scale))
        if somebody is None or somebody.shape != nobody.shape:
            return np.full(nobody.shape, np.nan)
        return (somebody.astype(np.float64) - nobody) * (claim.divisor / claim.max_norm)

    scale = 1.0
    for _ in range(_HALVINGS):
        length = float(np.linalg.norm(moved(scale)))
        if _SHORT <= length <= _LONG:
            break
        scale *= 2.0 if length < _SHORT else 0.5
    found, half, opposite = (moved(scale * part) for part in (1, 0.5, -1))
    length = float(np.linalg.norm(found))
    off = max(np.linalg.norm(2 * half - found), np.linalg.norm(found + opposite))
    if not (_SHORT <= length <= _LONG and off <= _LINEAR):
        return None
    return Ladder(lambda size: scaled(scale * size / length), float(np.abs(found).max() / length))


def _scale(row: Rows, key: str, scale: float) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore", invalid="ignore"):
        return {**row, key: (row[key] * scale).astype(row[key].dtype)}


def near_powers(
    release: RowsRelease, ladder: Ladder, claim: Claim, rows: int, what: str
) -> Iterator[Distance]:
    """Distances of neighbours on either side of the largest power of two that so many rows reach."""
    power = 2.0 ** math.floor(math.log2(max(rows // 2, 2) * ladder.share))
    is_replaced = claim.adjacency is Adjacency.REPLACE
    height = power / ladder.share - (0 if is_replaced else 0.5)  # in clipping norms, without the record
    whole = math.floor(height)
    long, rest, other = ladder.sized(2.0), ladder.sized(height - whole), ladder.sized(-2.0)
    left = rows - whole - 2
    for together in (0, *_TOGETHER):
        tiny = ladder.sized(-1.01 * power * 2.0 ** -(_FLOAT_BITS + 1) / ladder.share / max(together, 1))
        parts = [(rest, 1), (long, whole), (long, 1), (tiny, left if together else 0)]
        inside = release(_join(parts))
        parts[2] = (other, 1) if is_replaced else (long, 0)
        without = release(_join(parts))
        label = f"a record at a sum of {power:g} clipping norms ({what})"
        if inside is None or without is None:
            yield Distance(math.inf, 0.0, label)
        else:
            yield distance(without, inside, claim, label)


def measure_copies(release: RowsRelease, row: Rows, claim: Claim, rows: int, what: str) -> Distance:
    """Measures how far one copy of a record moves a sum of copies at a power of two."""
    count = 2 ** math.floor(math.log2(max(rows, 2)))
    without, inside = (release(_join([(row, some)])) for some in (count - 1, count))
    label = f"copy {count} of a record ({what})"
    if without is None or inside is None:
        return Distance(math.inf, 0.0, label)
    return distance(without, inside, claim, label)


def _join(parts: Sequence[tuple[Rows, int]]) -> dict[str, np.ndarray]:
    return {
        key: np.concatenate([np.repeat(row[key], count, axis=0) for row, count in parts])
        for key in parts[0][0]
    }
