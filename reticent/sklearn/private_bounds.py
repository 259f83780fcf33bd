"""Private releases that find what was not declared: a norm, bounds, the classes."""

from __future__ import annotations

import math
from collections import Counter
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Stream, step_key
from reticent.data.preparation import categories, numbers
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.mechanisms.events import ExponentialMechanism
from reticent.mechanisms.selection import exponential_mechanism
from reticent.sklearn.spending import Spending

_COVERED = 0.9  # the share of rows that the norm found is to cover
_TAIL = 0.05  # the share of targets cut off on each side
_ENOUGH = 50.0  # epsilon times records, with which a bound of the targets is nearly always found
_MOST_FOR_BOUND = 0.2  # of epsilon, where there are few records
_STEPS = 64  # of the stream of preparation
_NONE = (0.0, 0.0)  # the range of a column of which none is found


class Finder:
    """Private looks at the data before a fit. Every look is paid from one share of the budget.

    Args:
        share: of epsilon and delta, for all that `wanted` counts.
        wanted: how many looks there will be; decided by what is declared, never by the data.
    """

    def __init__(self, spending: Spending, share: float, wanted: int) -> None:
        if not 0 < share <= 1:
            raise InvalidArgument(
                f"preparation={share} is not a share of a budget.",
                remedy="Pass a number above 0 and below 1.",
            )
        self._spending = spending
        self._root = spending.keys.take(Stream.PREPARATION, steps=range(_STEPS))
        self._epsilon = share * spending.epsilon / max(wanted, 1)
        self._delta = share * spending.delta
        self._step = len(PreparationRelease)

    def norm(self, x: Any) -> float:
        """A length that about nine of ten rows do not exceed: a power of the square root of 2 times sqrt(d).

        Where there are too few rows to see anything, lengths near sqrt(d), those of standardised columns,
        are the likeliest.
        """
        powers = np.arange(-40, 41) / 2
        lengths = math.sqrt(x.shape[1]) * 2.0**powers
        return self._least(row_norms(x), _COVERED, lengths, np.abs(powers), "the norm", self._epsilon)

    def bounds(self, targets: np.ndarray) -> tuple[float, float]:
        """An interval that holds most targets; its ends are powers of two, or zero.

        A model of targets in wrong bounds is worth nothing. So where the declared number of records is small,
        each end gets more than its share: what it takes to find it, but at most a fifth of epsilon.
        """
        total = self._spending.epsilon
        epsilon = max(self._epsilon, min(_ENOUGH / self._spending.examples, _MOST_FOR_BOUND * total))
        powers = np.arange(-20, 41)
        ends = np.concatenate([-(2.0 ** powers[::-1]), [0.0], 2.0**powers])
        rarity = np.abs(np.concatenate([powers[::-1], [0], powers])) / 2
        high, low = (
            sign * self._least(sign * targets, 1 - _TAIL, ends, rarity, "the bounds of the targets", epsilon)
            for sign in (1, -1)
        )
        return (low, high) if low < high else (min(low, high) - 1.0, max(low, high) + 1.0)

    def _least(
        self,
        values: np.ndarray,
        share: float,
        candidates: np.ndarray,
        rarity: np.ndarray,
        what: str,
        epsilon: float,
    ) -> float:
        """The least candidate that this share of the values does not exceed, or one near it.

        Scored by how many records would have to change before it were another one.

        Args:
            rarity: how unlikely each candidate is before anything is seen, in powers of e.

        Guarantee:
            Costs an `ExponentialMechanism`: a record moves a count by one, and adding to the scores what
            does not depend on the data changes nothing.
        """
        spending = self._spending
        event = ExponentialMechanism(epsilon=epsilon, adjacency=spending.adjacency)
        spending.set_apart(epsilon)
        spending.pay(event, f"find {what}")
        counts = np.searchsorted(np.sort(values), candidates, side="right")
        wanted = share * spending.examples
        scores = np.minimum(counts - wanted, wanted - np.concatenate([[0], counts[:-1]]))
        # Replacing a record moves a count by one as well: half of what removing and adding would.
        max_change = 1 / spending.adjacency.reach
        self._step += 1
        key = step_key(self._root, self._step)
        scores = scores - rarity * 2 / epsilon
        return float(candidates[int(exponential_mechanism(key, scores, event, max_change=max_change))])

    def classes(self, labels: np.ndarray) -> np.ndarray:
        """The labels that enough rows have, sorted. A label of a single row is almost never shown.

        Raises:
            InvalidArgument: fewer than two are found.
        """
        if self._delta == 0:
            raise InvalidArgument(
                "Classes cannot be found with delta 0: an undeclared label may leak with a small chance.",
                remedy="Declare them: classes=[...]. Or pass a delta above 0.",
            )
        # A replaced row may take its label away and bring another: each half costs its own delta.
        hidden = 0.5 * self._delta / self._spending.adjacency.reach
        noise = self._buy((PreparationRelease.WORDS,), hidden, "find the classes")
        names, counts = _count_labels(labels)
        deviation = noise.deviation(PreparationRelease.WORDS, 1)
        noisy = noise.noisy(self._root, PreparationRelease.WORDS, counts, 1)
        above = categories.threshold(deviation, 1, noise.delta)
        frequent = np.flatnonzero(noisy > above)
        frequent = np.sort(frequent[np.argsort(-noisy[frequent], kind="stable")[: categories.MOST_WORDS]])
        if len(frequent) < 2:
            raise InvalidArgument(
                f"Fewer than two classes have the {above:.0f} rows that finding one takes at this price.",
                remedy="Declare them, classes=[...], or classes='public' if the set of labels is public. Or "
                "spend more: a larger epsilon, or preparation.",
            )
        return _sort_names(names[frequent]) if names.dtype == object else names[frequent]

    def _buy(self, releases: tuple[PreparationRelease, ...], hidden: float, purpose: str) -> PreparationNoise:
        """Pays for the least noise that the finder's share covers, and returns it."""
        spending = self._spending

        def with_noise(multiplier: float) -> PreparationNoise:
            return PreparationNoise(
                noise_multiplier=multiplier, delta=hidden, releases=releases, adjacency=spending.adjacency
            )

        multiplier = calibrate.noise_for(
            lambda value: with_noise(value).event,
            Neighbours(spending.adjacency),
            epsilon=self._epsilon,
            delta=self._delta,
            guess=5 / self._epsilon,
        )
        noise = with_noise(multiplier)
        spending.set_apart(self._epsilon, self._delta)
        spending.pay(noise.event, purpose)
        return noise

    def columns(self, x: np.ndarray) -> list[tuple[float, float] | None]:
        """Bounds of every column; None where nothing stands out of the noise."""
        width = x.shape[1]
        # The delta is of words, which are not looked for.
        noise = self._buy(
            (PreparationRelease.RANGES, PreparationRelease.QUANTILES), 0.5, "find the bounds of the columns"
        )
        coarse = np.stack([numbers.coarse_counts(column) for column in x.T])
        deviation = noise.deviation(PreparationRelease.RANGES, width)
        noisy = noise.noisy(self._root, PreparationRelease.RANGES, coarse, width)
        ranges = [numbers.coarse_range(row, deviation) for row in noisy]
        fine = np.stack([numbers.fine_counts(x[:, place], ranges[place] or _NONE) for place in range(width)])
        deviation = noise.deviation(PreparationRelease.QUANTILES, width)
        noisy = noise.noisy(self._root, PreparationRelease.QUANTILES, fine, width)
        return [
            None if found is None else numbers.quantile_bounds(row, found, deviation, self._spending.examples)
            for row, found in zip(noisy, ranges, strict=True)
        ]


def _count_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels there are, and how many rows have each.

    In an array of objects only words and numbers are labels, and 1, 1.0 and True are three: no label causes
    an error, or decides how that of another row is written.
    """
    if labels.dtype != object:
        return np.unique(labels, return_counts=True)
    counted = Counter((type(label), label) for label in labels if isinstance(label, (str, Real)))
    names = np.empty(len(counted), object)
    names[:] = [label for _, label in counted]
    return names, np.array(list(counted.values()), np.int64)


def _sort_names(names: np.ndarray) -> np.ndarray:
    """Words before numbers, each in their order."""
    words = sorted(name for name in names if isinstance(name, str))
    amounts = sorted(name for name in names if not isinstance(name, str))
    return np.array(words + amounts, object if words and amounts else None)


def row_norms(x: Any) -> np.ndarray:
    """The length of each row, without overflow on the way."""
    if sparse.issparse(x):
        largest = abs(x).max(axis=1).toarray().ravel()
        unit = np.where(largest > 0, largest, 1.0)
        scaled = sparse.diags_array(1 / unit) @ x
        return unit * np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
    largest = np.abs(x).max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)
    return unit * np.linalg.norm(x / unit[:, None], axis=1)
