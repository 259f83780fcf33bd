"""What a row's residual is, in whole numbers: how far its target is from what the curves say.

A residual follows from the row and from what was released before, by whole numbers, tables and divisions.
So it is the same wherever the row stands among the others, on every machine. A row without a target has
none: its residuals are 0.
"""

from __future__ import annotations

import functools
import math
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.errors import InvalidArgument

UNIT = 1 << 16  # steps of a score in 1: of half the range of a target, or of a logit
MOST = 1 << 12  # no row's residuals are longer than this

_FARTHEST = 1 << 30  # steps of a score
_COARSER = 1 << 4  # steps of a score in one step of the tables
_TABLE = 1 << 16  # steps on either side of 0 that the tables have: 16 logits
_NEARLY_MOST = MOST * (1 - 2.0**-40)
_RARE = 0.002  # the least share of a class to start from
_SLACK = 0.05  # by which residuals of two classes may be longer than all are at first


class AdditiveTarget(Protocol):
    """What is predicted.

    Attributes:
        outputs: how many scores a row has.
        curvature: how much residuals move when scores do, at most; for the length of steps.
    """

    @property
    def outputs(self) -> int: ...

    def start_sums(self, y: np.ndarray) -> np.ndarray:
        """What is summed over all rows before the first pass: whole numbers, (rows, k), no row above MOST."""
        ...

    def start(self, sums: np.ndarray, rows: int) -> tuple[np.ndarray, float]:
        """The scores to start from, by these sums with noise, and the curvature."""
        ...

    def first_reach(self, constant: np.ndarray) -> float:
        """The length at which residuals may be cut where there is much noise, 1 for none that is shorter.

        Args:
            constant: the scores to start from.
        """
        ...

    def residuals(self, y: np.ndarray, scores: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (rows, outputs), none longer than MOST, and which rows' were not cut.

        Args:
            scores: whole numbers of steps, (rows, outputs).
            reach: where residuals of a number or of two classes are cut, in steps. What is returned is in
                units of it: the shorter it is, the smaller is the noise.
        """
        ...


class NumberTarget:
    """A number within bounds. Scores are in units of half the range, from its middle.

    Args:
        bounds: the smallest and the largest target; others are clipped to them.
    """

    outputs = 1

    def __init__(self, bounds: tuple[float, float]) -> None:
        low, high = float(bounds[0]), float(bounds[1])
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise InvalidArgument(
                f"bounds={tuple(bounds)} are not an interval.",
                remedy="Pass the smallest and the largest target.",
            )
        self.middle, self.half = low / 2 + high / 2, (high / 2 - low / 2) or 1.0

    def whole(self, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Targets in steps, and which rows have one."""
        values = np.asarray(y, np.float64)
        is_there = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (np.where(is_there, values, self.middle) - self.middle) / self.half
        inside = np.clip(np.nan_to_num(scaled, nan=0.0), -1.0, 1.0)
        return np.rint(inside * UNIT).astype(np.int64), is_there

    def start_sums(self, y: np.ndarray) -> np.ndarray:
        wanted, is_there = self.whole(y)
        return np.where(is_there, wanted // (UNIT // MOST), 0)[:, None]

    def start(self, sums: np.ndarray, rows: int) -> tuple[np.ndarray, float]:
        return np.clip(sums / (MOST * rows), -1.0, 1.0), 1.0

    def first_reach(self, constant: np.ndarray) -> float:
        return 1.0

    def residuals(self, y: np.ndarray, scores: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
        wanted, is_there = self.whole(y)
        away = wanted - cut_scores(scores[:, 0])
        is_inside = (np.abs(away) <= reach) & is_there
        kept = np.trunc(np.clip(away, -reach, reach) * float(MOST) / reach)
        return np.where(is_there, kept, 0.0)[:, None], is_inside


class ClassTarget:
    """Classes counted from 0; a negative one is missing. Scores are logits: one for two classes, or one each.

    Args:
        weights: what each class counts, at most 1; all count 1 without.
    """

    def __init__(self, count: int, weights: tuple[float, ...] = ()) -> None:
        if count < 2 or (weights and (len(weights) != count or not all(0 <= w <= 1 for w in weights))):
            raise InvalidArgument(
                f"{count} classes with weights {weights} cannot be learned.",
                remedy="Pass two classes or more, and weights from 0 to 1.",
            )
        self.count, self.weights = count, np.array(weights or (1.0,) * count)

    @property
    def outputs(self) -> int:
        return 1 if self.count == 2 else self.count

    def start_sums(self, y: np.ndarray) -> np.ndarray:
        counted = np.trunc(self.weights * MOST)
        return np.where(np.asarray(y)[:, None] == np.arange(self.count), counted, 0.0).astype(np.int64)

    def start(self, sums: np.ndarray, rows: int) -> tuple[np.ndarray, float]:
        shares = np.clip(sums / max(float(np.maximum(sums, 0.0).sum()), 1.0), _RARE, 1 - _RARE)
        if self.count > 2:
            logs = np.log(shares)
            return logs - logs.mean(), 0.5
        share = float(np.clip(shares[1], _RARE, 1 - _RARE))
        return np.array([math.log(share / (1 - share))]), min(0.25, 1.5 * max(share * (1 - share), 0.01))

    def first_reach(self, constant: np.ndarray) -> float:
        """With two classes, residuals are at most the larger one's share as long as all curves are flat."""
        if self.count > 2:
            return 1.0
        share = 1 / (1 + math.exp(-float(constant[0])))
        longest = max(share * float(self.weights[0]), (1 - share) * float(self.weights[1]))
        return min(longest + _SLACK, 1.0)

    def residuals(self, y: np.ndarray, scores: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.asarray(y).astype(np.int64)
        is_there = (labels >= 0) & (labels < self.count)
        labels = np.where(is_there, labels, 0)
        weights = np.where(is_there, self.weights[labels], 0.0)
        if self.count == 2:
            place = np.clip(cut_scores(scores[:, 0]) // _COARSER, -_TABLE, _TABLE) + _TABLE
            away, most = (labels - _logistic()[place]) * weights, reach / UNIT
            kept = np.trunc(np.clip(away, -most, most) * (MOST / most))[:, None]
            return kept, np.abs(away) <= most
        return self._softmax_residuals(labels, scores, weights), np.ones(len(labels), bool)

    def _softmax_residuals(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Cut to a length of MOST, one class after the other: no sum has an order that could differ."""
        logits = cut_scores(scores)
        below = np.minimum((logits.max(axis=1, keepdims=True) - logits) // _COARSER, _TABLE)
        odds = _exponentials()[below]  # (rows, classes)
        total = functools.reduce(np.add, odds.T)
        kept = -odds / total[:, None]
        kept[np.arange(len(labels)), labels] += 1.0
        length = np.sqrt(functools.reduce(np.add, np.square(kept).T))
        kept = np.trunc(kept * (weights * _NEARLY_MOST / np.maximum(length, 1.0))[:, None])
        # No row is longer than MOST, by far more than these roundings. If one were, it would count as zeros.
        is_short = functools.reduce(np.add, np.square(kept).T) <= float(MOST) ** 2
        return np.where(is_short[:, None], kept, 0.0)


def cut_scores(scores: np.ndarray) -> np.ndarray:
    """Whole scores within a range that no sum of them leaves."""
    return np.clip(np.asarray(scores, np.int64), -_FARTHEST, _FARTHEST)


@functools.lru_cache(maxsize=1)
def _logistic() -> np.ndarray:
    """The probability of the second class at each step."""
    steps = np.arange(-_TABLE, _TABLE + 1) * (_COARSER / UNIT)
    return 1 / (1 + np.exp(-steps))


@functools.lru_cache(maxsize=1)
def _exponentials() -> np.ndarray:
    """e to the minus of each number of steps."""
    return np.exp(-np.arange(_TABLE + 1) * (_COARSER / UNIT))
