"""Renyi differential privacy: curves of single releases, and the accountant that adds them up.

A curve is an array: the Renyi divergence at each of `ORDERS`. Infinity at an order means "nothing is
claimed there"; an order is never worth a negative number.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.refusal import smallest
from reticent.accounting.theorems import tuning
from reticent.accounting.theorems.sampled_renyi import poisson_gaussian, without_replacement
from reticent.core import checks
from reticent.core.errors import Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

ORDERS = np.concatenate(
    [
        np.array([1.01, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]),
        np.arange(2, 12, 0.25),
        np.arange(12, 65),
        np.array([72, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 2048, 4096]),
    ]
).astype(np.float64)


def gaussian(mu: float, orders: np.ndarray) -> np.ndarray:
    """order * mu^2 / 2 (Mironov 2017, Corollary 3).

    Example:
        >>> gaussian(1.0, np.array([2.0, 4.0])).tolist()
        [1.0, 2.0]
    """
    return orders * mu * mu / 2


def laplace(epsilon: float, orders: np.ndarray) -> np.ndarray:
    """Laplace noise of scale sensitivity / epsilon (Mironov 2017, Corollary 2).

    Example:
        >>> laplace(1.0, np.array([2.0, 8.0])).round(3).tolist()
        [0.619, 0.91]
    """
    first = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
    second = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
    values = np.logaddexp(first, second) / (orders - 1)
    # At small losses the logarithm is of nearly 1. Less 1, it is a sum of positive terms.
    small = orders * epsilon < 0.5
    order = orders[small]
    excess = order * _exp_less_line((order - 1) * epsilon) + (order - 1) * _exp_less_line(-order * epsilon)
    values[small] = np.log1p(excess / (2 * order - 1)) / (order - 1)
    return np.clip(values, 0.0, epsilon)


def _exp_less_line(x: np.ndarray) -> np.ndarray:
    """e^x - 1 - x for |x| < 1/2, to all digits: its Taylor series."""
    total = np.ones(x.shape)
    for k in range(16, 2, -1):
        total = 1 + total * x / k
    return total * x * x / 2


def randomized_response(truth: float, choices: int, orders: np.ndarray) -> np.ndarray:
    """Exactly, from the definition: the true answer, the other one, and the rest that tells nothing.

    Example:
        >>> randomized_response(0.75, 2, np.array([2.0, 1e6])).round(3).tolist()  # towards ln 3
        [0.847, 1.099]
    """
    lie = (1 - truth) / (choices - 1)
    if lie == 0:
        return np.full(orders.shape, math.inf)
    return _response(math.log1p((truth - lie) / lie), (math.log(truth) + math.log(lie)) / 2, orders)


def pure(epsilon: float, orders: np.ndarray) -> np.ndarray:
    """The worst epsilon-DP release is randomised response between two answers (Kairouz et al. 2017).

    Example:
        >>> pure(1.0, np.array([2.0, 1e6])).round(3).tolist()
        [0.735, 1.0]
    """
    return _response(epsilon, -epsilon / 2 - math.log1p(math.exp(-epsilon)), orders)


def _response(epsilon: float, log_mean: float, orders: np.ndarray) -> np.ndarray:
    """Two answers with losses of +-epsilon, whose probabilities have this (logarithm of the) geometric mean.

    The sum of p^a q^(1-a) exceeds 1 by 4 e^log_mean sinh(a epsilon / 2) sinh((a - 1) epsilon / 2), which
    keeps its digits at a small epsilon and, in logarithms, its size at a large one.
    """
    log_excess = (
        math.log(4) + log_mean + _log_sinh(orders * epsilon / 2) + _log_sinh((orders - 1) * epsilon / 2)
    )
    return np.logaddexp(0.0, log_excess) / (orders - 1)


def _log_sinh(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-2 * x) / 2)


def exponential(epsilon: float, orders: np.ndarray) -> np.ndarray:
    """Bounded range: epsilon^2 / 8 of concentrated DP, four times less than pure DP at small epsilon.

    Example:
        >>> exponential(1.0, np.array([2.0, 4.0])).tolist()
        [0.25, 0.5]

    Reference:
        Cesar and Rogers (2021), Lemma 3.2, arXiv:2004.07223.
    """
    return np.minimum(orders * epsilon * epsilon / 8, pure(epsilon, orders))


def to_epsilon(curve: np.ndarray, delta: float, orders: np.ndarray = ORDERS) -> float:
    """The best epsilon over the orders, by the improved conversion.

    Example:
        >>> round(to_epsilon(gaussian(1.0, ORDERS), delta=1e-5), 3)
        4.729

    Reference:
        Canonne, Kamath and Steinke (2020), Proposition 12, arXiv:2004.00010; Asoodeh et al. (2021).
    """
    checks.inside_unit(delta=delta)
    values = curve + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return smallest(values)


def to_epsilon_classical(curve: np.ndarray, delta: float, orders: np.ndarray = ORDERS) -> float:
    """The conversion of the first papers: curve + ln(1/delta) / (order - 1) (Mironov 2017, Proposition 3).

    Example:
        >>> round(to_epsilon_classical(gaussian(1.0, ORDERS), delta=1e-5), 3)
        5.299
    """
    checks.inside_unit(delta=delta)
    return smallest(curve - math.log(delta) / (orders - 1))


def to_delta(curve: np.ndarray, epsilon: float, orders: np.ndarray = ORDERS) -> float:
    """The best delta over the orders at this epsilon, by the same inequality.

    Example:
        >>> f"{to_delta(gaussian(1.0, ORDERS), epsilon=4.729):.1e}"
        '1.0e-05'
    """
    checks.not_negative(epsilon=epsilon)
    logs = (orders - 1) * (curve - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return min(smallest(np.exp(np.minimum(logs, 0.0))), 1.0)


def compose_curves(
    event: Event, neighbours: Neighbours, orders: np.ndarray = ORDERS
) -> tuple[np.ndarray, float]:
    """The curve of a whole composition, and the part of delta that no curve covers.

    Releases that are only (epsilon, delta)-DP behave like epsilon-DP ones except with probability delta.
    """
    total, delta = np.zeros(orders.shape), 0.0
    for item, times in dominating.flatten(event).items():
        curve, extra = _curve(item, neighbours, orders)
        total = total + times * curve
        delta += times * extra
    return total, delta


class ApproximateCurve(NamedTuple):
    """The curve of releases that are near the real ones, and how near.

    delta: the sum of the probabilities with which a release is not covered by its curve.
    slack: the sum of the total variations between a release and the one that has the curve.
    """

    curve: np.ndarray
    delta: float
    slack: float

    def outside(self, epsilon: float) -> float:
        """What has to be set aside of delta, if the curve is read off at this epsilon or a smaller one.

        The argument, for releases chosen one after the other, stands in `filters.RenyiFilter`.
        """
        if self.slack == 0:
            return self.delta * (1 + 1e-9)
        if not epsilon <= 700:
            return math.inf
        return (self.delta + (1 + math.exp(epsilon)) * self.slack) * (1 + 1e-9)


def approximate(event: Event, neighbours: Neighbours, orders: np.ndarray = ORDERS) -> ApproximateCurve:
    """As `compose_curves`, but an overfull batch is a difference from a Poisson one, and not a refusal."""
    return ApproximateCurve(
        *compose_curves(dominating.without_truncation(event), neighbours, orders), _slack(event, neighbours)
    )


def _slack(event: Event, neighbours: Neighbours) -> float:
    """The total variation between a release and the one without a largest batch."""
    total = 0.0
    for item, times in dominating.flatten(event).items():
        if isinstance(item, events.TruncatedPoissonSampled):
            total += times * dominating.directions(item, neighbours).slack
        elif isinstance(item, events.BestOfTrials):
            # How many runs there are does not depend on the data: so often, on average, one may differ.
            total += times * item.mean * _slack(item.event, neighbours)
    return total


def epsilon(event: Event, delta: float, neighbours: Neighbours) -> float:
    """The epsilon of a composition by Renyi accounting; an upper bound at any delta, however small.

    Example:
        >>> from reticent.mechanisms.adjacency import Adjacency
        >>> round(
        ...     epsilon(
        ...         events.Gaussian(noise_multiplier=1.0), 1e-5, Neighbours(Adjacency.ADD_OR_REMOVE)
        ...     ),
        ...     3,
        ... )
        4.729
    """
    checks.inside_unit(delta=delta)
    curve, extra = compose_curves(event, neighbours)
    remaining = delta - extra * (1 + 1e-12)
    if not remaining > 0:
        return math.inf
    return 0.0 if not curve.any() else to_epsilon(curve * (1 + 1e-10), remaining)


def epsilon_with_slack(event: Event, delta: float, neighbours: Neighbours) -> float:
    """As `epsilon`, with a thousandth of delta set aside for batches that may be overfull."""
    checks.inside_unit(delta=delta)
    reserve = 1e-3 * delta
    found = approximate(event, neighbours)
    value = to_epsilon(found.curve * (1 + 1e-10), delta - reserve)
    return value if found.outside(value) <= reserve else epsilon(event, delta, neighbours)


@singledispatch
def _curve(event: Any, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    raise Unproven(
        f"Renyi accounting has no curve for {type(event).__name__} under '{neighbours.adjacency}'.",
        remedy="Use the loss-distribution accountant, or another adjacency.",
    )


@_curve.register
def _(event: events.Gaussian, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    return gaussian(_reach(neighbours) / event.noise_multiplier, orders), 0.0


@_curve.register
def _(event: events.Laplace, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    return laplace(_reach(neighbours) / event.noise_multiplier, orders), 0.0


@_curve.register
def _(event: events.NonPrivate, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    return np.full(orders.shape, math.inf), 0.0


@_curve.register
def _(
    event: events.RandomizedResponse, neighbours: Neighbours, orders: np.ndarray
) -> tuple[np.ndarray, float]:
    dominating.directions(event, neighbours)  # refuses what has no theorem
    return randomized_response(event.truth, event.choices, orders), 0.0


@_curve.register
def _(
    event: events.ExponentialMechanism, neighbours: Neighbours, orders: np.ndarray
) -> tuple[np.ndarray, float]:
    epsilon_, _ = dominating.claim(event, event.epsilon, 0.0, event.adjacency, neighbours)
    return exponential(epsilon_, orders), 0.0


@_curve.register
def _(event: events.PureDp, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    epsilon_, _ = dominating.claim(event, event.epsilon, 0.0, event.adjacency, neighbours)
    return pure(epsilon_, orders), 0.0


@_curve.register
def _(event: events.ApproximateDp, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    epsilon_, delta = dominating.claim(event, event.epsilon, event.delta, event.adjacency, neighbours)
    return pure(epsilon_, orders), delta


@_curve.register
def _(event: events.PoissonSampled, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    base = dominating.sampled_base(event.event)
    if event.rate == 0:
        return np.zeros(orders.shape), 0.0
    if event.rate == 1:
        return _curve(base, neighbours, orders)
    is_one_removed = neighbours.group == 1 and neighbours.adjacency is not Adjacency.REPLACE
    if isinstance(base, events.Gaussian) and is_one_removed:
        return poisson_gaussian(event.rate, base.noise_multiplier, orders), 0.0
    raise Unproven(
        f"Renyi accounting has no curve for this sampling under '{neighbours.adjacency}'.",
        remedy="Use the loss-distribution accountant, or add-or-remove with Gaussian noise.",
    )


@_curve.register
def _(
    event: events.TruncatedPoissonSampled, neighbours: Neighbours, orders: np.ndarray
) -> tuple[np.ndarray, float]:
    raise Unproven(
        "Renyi accounting cannot carry the small chance of an overfull batch.",
        remedy="Use the loss-distribution accountant.",
    )


@_curve.register
def _(event: events.Allocated, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    dominating.directions(event, neighbours)  # refuses what has no theorem
    raise Unproven(
        "Renyi accounting has no curve for random allocation.", remedy="Use the loss-distribution accountant."
    )


@_curve.register
def _(event: events.FixedSizeSampled, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    base = dominating.sampled_base(event.event)
    if event.batch_size == event.examples:
        return _curve(base, neighbours, orders)
    dominating.directions(event, neighbours)  # refuses what has no theorem
    if not isinstance(base, events.Gaussian):
        return np.full(orders.shape, math.inf), 0.0
    return without_replacement(event.rate, base.noise_multiplier / 2, orders), 0.0


@_curve.register
def _(event: events.BestOfTrials, neighbours: Neighbours, orders: np.ndarray) -> tuple[np.ndarray, float]:
    """An accident, after which a run tells everything, is as likely on both neighbours.

    Given that there was none in any run, fewer runs are likely, and each has its curve. One in any of them
    is at most E[K] times as likely as in one.
    """
    wide = np.union1d(ORDERS, orders)
    run, accident = compose_curves(event.event, neighbours, wide)
    trials = tuning.NegativeBinomialTrials(shape=event.shape, gamma=event.gamma)
    known = pure_epsilon(event.event, neighbours)
    curve = tuning.best_of(run, trials.thin(accident), wide, pure=known)
    return curve[np.searchsorted(wide, orders)], min(trials.mean * accident, 1.0)


def pure_epsilon(event: Event, neighbours: Neighbours) -> float:
    """An epsilon for which all of an event is epsilon-DP; infinity where none is known.

    Example:
        >>> from reticent.mechanisms.adjacency import Adjacency
        >>> one = Neighbours(Adjacency.ADD_OR_REMOVE)
        >>> (
        ...     pure_epsilon(events.Laplace(noise_multiplier=2.0), one),
        ...     pure_epsilon(events.Gaussian(noise_multiplier=2.0), one),
        ... )
        (0.5, inf)
    """
    return math.fsum(
        times * _pure_claim(item, neighbours) for item, times in dominating.flatten(event).items()
    )


def _pure_claim(event: Event, neighbours: Neighbours) -> float:
    match event:
        case events.Laplace(noise_multiplier=noise):
            return _reach(neighbours) / noise
        case (
            events.PureDp(epsilon=cost, adjacency=adjacency)
            | events.ApproximateDp(epsilon=cost, adjacency=adjacency)
            | events.ExponentialMechanism(epsilon=cost, adjacency=adjacency)
        ):
            return dominating.claim(event, cost, 0.0, adjacency, neighbours)[0]
        case _:
            return math.inf


def _reach(neighbours: Neighbours) -> int:
    return neighbours.adjacency.reach * neighbours.group
