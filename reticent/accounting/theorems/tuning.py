"""The best of a random number of runs: what it costs to try several settings and release one result.

Every run, its setting drawn at random and its result scored privately, is one mechanism with a Renyi curve of
its own. Of K independent runs only the best is released; K is drawn at random and never
released. Then the release costs a few times what one run costs, however many there were.

Reference:
    Papernot and Steinke (2022), Hyperparameter tuning with Renyi differential privacy, arXiv:2110.03620v2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from reticent.accounting.search import bisect
from reticent.core import checks
from reticent.mechanisms.events import BestOfTrials

_LOWEST = -60.0  # ln y, below which one interval is enough
_WIDE, _PARTS = 0.02, 25  # how wide an interval of ln y is, and into how many narrow ones it is cut


class Trials(Protocol):
    """How many runs there are: a distribution of K, by its generating function f(x) = E[x^K]."""

    @property
    def mean(self) -> float: ...

    @property
    def nothing(self) -> float:
        """The probability of no run at all."""
        ...

    def log_slope(self, better: np.ndarray) -> np.ndarray:
        """ln f'(1 - better), for the probability that a run ends better than some result."""
        ...

    def pure(self, epsilon: float) -> float:
        """What the best of runs that are each epsilon-DP costs, at every order."""
        ...

    def thin(self, chance: float) -> Trials:
        """How many runs there are, given that none of them met with an accident of this chance."""
        ...


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialTrials:
    """K of at least 1 with P(k) proportional to (1 - gamma)^k * product of (l + shape)/(l + 1) over l < k.

    Shape 1 is the geometric distribution, 0 the logarithmic one.

    Example:
        >>> NegativeBinomialTrials(shape=1.0, gamma=0.1).mean
        10.0
    """

    shape: float
    gamma: float

    def __post_init__(self) -> None:
        checks.positive(shape_above_minus_one=self.shape + 1)
        checks.inside_unit(gamma=self.gamma)

    @property
    def mean(self) -> float:
        return BestOfTrials.mean_of(self.shape, self.gamma)

    @property
    def nothing(self) -> float:
        return 0.0

    def log_slope(self, better: np.ndarray) -> np.ndarray:
        return math.log(self.mean) - (1 + self.shape) * np.log1p(better * (1 / self.gamma - 1))

    def pure(self, epsilon: float) -> float:
        """(2 + shape) epsilon: the theorem below at infinite orders."""
        return (2 + self.shape) * epsilon

    def thin(self, chance: float) -> NegativeBinomialTrials:
        return replace(self, gamma=self.gamma + (1 - self.gamma) * chance) if chance < 1 else self


@dataclass(frozen=True, kw_only=True)
class PoissonTrials:
    """K with this mean; of no runs at all, nothing is released.

    Example:
        >>> round(PoissonTrials(mean=10.0).nothing, 6)
        4.5e-05
    """

    mean: float

    def __post_init__(self) -> None:
        checks.positive(mean=self.mean)

    @property
    def nothing(self) -> float:
        return math.exp(-self.mean)

    def log_slope(self, better: np.ndarray) -> np.ndarray:
        return math.log(self.mean) - self.mean * better

    def pure(self, epsilon: float) -> float:
        return epsilon - self.mean * math.expm1(-epsilon)

    def thin(self, chance: float) -> PoissonTrials:
        return replace(self, mean=self.mean * (1 - chance)) if chance < 1 else self


def gamma_for(mean: float, shape: float) -> float:
    """The gamma with which a negative binomial of this shape has this mean, or a hair less.

    Example:
        >>> round(gamma_for(mean=10.0, shape=1.0), 6)
        0.1
    """
    checks.positive(mean_above_one=mean - 1, shape_above_minus_one=shape + 1)
    return bisect(lambda gamma: BestOfTrials.mean_of(shape, gamma) <= mean, 1e-300, 1 - 1e-12)


def best_of(curve: np.ndarray, trials: Trials, orders: np.ndarray, *, pure: float = math.inf) -> np.ndarray:
    """The Renyi curve of the best of `trials` runs, each of which has this curve.

    Args:
        pure: an epsilon for which a run is epsilon-DP, where there is one.

    Guarantee:
        An upper bound at every order: never below the curve of one run, so never negative, and never
        falling as the order grows.

        Lemma 7 of the reference: at order a the cost is that of a run plus the supremum of
        (a l(y) - (a - 1) l(y')) / (a - 1), where l(y) = ln f'(1 - y) and y, y' are the probabilities, on the
        two neighbours, that a run ends better than some result. The curve of a run bounds y' by
        exp((1 - 1/b) (curve(b) + ln y)) at every order b. The paper bounds the supremum by a formula;
        here y goes through small intervals, in each of which y is taken from the one end and y' from
        the other, so that what is found is never too small. No run at all is an outcome of its own.

    Example:
        >>> orders = np.array([2.0, 8.0, 64.0])
        >>> best_of(0.01 * orders, NegativeBinomialTrials(shape=1.0, gamma=0.1), orders).round(
        ...     2
        ... ).tolist()
        [0.62, 0.62, 1.03]
    """
    run = np.minimum.accumulate(curve[::-1])[::-1]  # a divergence never falls with its order
    bound = _by_intervals(run, trials, orders, pure)
    if isinstance(trials, NegativeBinomialTrials):
        log_inverse, log_mean = -math.log(trials.gamma), math.log(trials.mean)
        closed = closed_form(run, orders, shape=trials.shape, log_inverse=log_inverse, log_mean=log_mean)
        bound = np.minimum(bound, closed)
    if trials.nothing > 0:
        less = orders - 1
        bound = np.logaddexp(math.log(trials.nothing), less * bound) / less
    bound = np.minimum(bound, trials.pure(pure))
    return np.maximum(np.minimum.accumulate(bound[::-1])[::-1], run)


def closed_form(
    curve: np.ndarray, orders: np.ndarray, *, shape: float, log_inverse: float, log_mean: float
) -> np.ndarray:
    """The formula of Theorem 2, with ln(1/gamma) and ln E[K] put in.

    curve(a) + (1 + shape) ((1 - 1/b) curve(b) + ln(1/gamma) / b) + ln(E[K]) / (a - 1), at the best b.

    Example:
        >>> orders = np.array([2.0, 8.0, 64.0])
        >>> closed_form(
        ...     0.01 * orders, orders, shape=1.0, log_inverse=math.log(10), log_mean=math.log(10)
        ... ).round(2).tolist()
        [3.04, 1.12, 1.39]
    """
    ratio = (1 - 1 / orders) * curve + log_inverse / orders
    return curve + (1 + shape) * ratio.min() + log_mean / (orders - 1)


def _by_intervals(run: np.ndarray, trials: Trials, orders: np.ndarray, pure: float) -> np.ndarray:
    """The supremum over y, from above: over wide intervals, then over narrow ones wherever it may lie."""
    known = np.isfinite(run)
    if not known.any():
        return np.full(orders.shape, math.inf)
    shares, costs = 1 - 1 / orders[known], run[known]

    def slopes(lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ln f' at both ends of intervals of ln y, and at the largest y' that goes with them."""
        other = np.minimum(0.0, pure + highs)
        for share, cost in zip(shares, costs, strict=True):
            np.minimum(other, share * (cost + highs), out=other)
        low, high, beside = (trials.log_slope(np.exp(logs)) for logs in (lows, highs, other))
        return low, high, beside

    edges = np.linspace(_LOWEST, 0.0, round(-_LOWEST / _WIDE) + 1)
    low, high, beside = slopes(edges[:-1], edges[1:])
    may_hold = np.zeros(low.shape, bool)
    for order in orders:
        at_ends = high - beside + high / (order - 1)
        may_hold |= ~(low - beside + low / (order - 1) < at_ends.max())
    inner = edges[:-1][may_hold][:, None] + np.linspace(0.0, _WIDE, _PARTS + 1)
    inner[:, -1] = edges[1:][may_hold]
    lows = np.concatenate([[-math.inf], inner[:, :-1].ravel()])
    low, _, beside = slopes(lows, np.concatenate([[_LOWEST], inner[:, 1:].ravel()]))
    # (a l(y) - (a - 1) l(y')) / (a - 1), without a difference of large numbers
    return run + np.array([float((low - beside + low / (order - 1)).max()) for order in orders])
