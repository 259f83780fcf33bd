"""Composition of guarantees: what several (epsilon, delta)-DP releases cost together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from reticent.accounting.search import bisect
from reticent.core import checks

Guarantees = Sequence[tuple[float, float]]


def basic(guarantees: Guarantees) -> tuple[float, float]:
    """Epsilons and deltas add up, however adaptively the releases were chosen.

    Example:
        >>> basic([(0.5, 1e-6), (0.25, 0.0)]), basic([])
        ((0.75, 1e-06), (0.0, 0.0))

    Reference:
        Dwork and Roth (2014), Theorem 3.16.
    """
    for epsilon, delta in guarantees:
        checks.not_negative(epsilon=epsilon, delta=delta)
    total = math.fsum(epsilon for epsilon, _ in guarantees)
    return total, min(math.fsum(delta for _, delta in guarantees), 1.0)


def advanced(epsilon: float, delta: float, times: int, delta_extra: float) -> tuple[float, float]:
    """Advanced composition in its sharper published form.

    Guarantee:
        (e sqrt(2 T ln(1/d')) + T e (e^e - 1)/(e^e + 1), T delta + d') for T adaptive releases.

    Example:
        >>> round(advanced(0.1, 0.0, times=100, delta_extra=1e-5)[0], 4)
        5.2981
        >>> advanced(0.1, 0.0, times=0, delta_extra=1e-5)
        (0.0, 1e-05)

    Reference:
        Dwork, Rothblum and Vadhan (2010) with the bias of Dwork and Rothblum (2016), Corollary 2.2.
    """
    return advanced_heterogeneous([(epsilon, delta)], delta_extra, times=times)


def advanced_first(epsilon: float, delta: float, times: int, delta_extra: float) -> tuple[float, float]:
    """Advanced composition as first published and as most lectures print it.

    Guarantee:
        (e sqrt(2 T ln(1/d')) + T e (e^e - 1), T delta + d').

    Example:
        >>> cost, delta = advanced_first(0.1, 0.0, 100, 1e-6)
        >>> round(cost, 3), delta
        (6.308, 1e-06)

    Reference:
        Dwork and Roth (2014), Theorem 3.20.
    """
    checks.not_negative(epsilon=epsilon, delta=delta)
    checks.count(minimum=0, times=times)
    checks.inside_unit(delta_extra=delta_extra)
    spread = epsilon * math.sqrt(-2 * times * math.log(delta_extra))
    return spread + times * epsilon * _expm1(epsilon), min(times * delta + delta_extra, 1.0)


def advanced_heterogeneous(
    guarantees: Guarantees, delta_extra: float, *, times: int | Sequence[int] = 1
) -> tuple[float, float]:
    """Advanced composition of different releases, the whole list or each one of it `times` times over.

    Example:
        >>> cost, delta = advanced_heterogeneous([(0.1, 0.0), (0.2, 0.0)], 1e-6, times=50)
        >>> round(cost, 3), delta
        (9.558, 1e-06)

    Reference:
        Kairouz, Oh and Viswanath (2017), Theorem 3.5, second and first term of the minimum.
    """
    checks.inside_unit(delta_extra=delta_extra)
    bias = squares = total_delta = 0.0
    counts = times if isinstance(times, Sequence) else [times] * len(guarantees)
    for (epsilon, delta), count in zip(guarantees, counts, strict=True):
        checks.not_negative(epsilon=epsilon, delta=delta)
        checks.count(minimum=0, times=count)
        bias += count * epsilon * math.tanh(epsilon / 2)
        squares += count * epsilon * epsilon
        total_delta += count * delta
    spread = math.sqrt(-2 * squares * math.log(delta_extra))
    return bias + spread, min(total_delta + delta_extra, 1.0)


def largest_epsilon(target: float, times: int, delta_extra: float) -> float:
    """The inverse of `advanced`: the most each of `times` releases may cost to stay within `target`.

    Example:
        >>> round(largest_epsilon(target=1.0, times=100, delta_extra=1e-5), 4)
        0.0204
    """
    checks.positive(target=target)
    checks.count(times=times)
    # `bisect` finds where a condition starts to hold, so search for the first epsilon that is too large.
    too_large = bisect(lambda e: not advanced(e, 0.0, times, delta_extra)[0] <= target, 0.0, target + 1.0)
    return math.nextafter(too_large * (1 - 1e-13), 0.0)


def largest_epsilon_simple(target: float, times: int, delta_extra: float) -> float:
    """The lecture's corollary for targets below 1: target / sqrt(8 T ln(1/d')).

    Example:
        >>> round(largest_epsilon_simple(0.5, times=100, delta_extra=1e-6), 5)
        0.00476

    Reference:
        Dwork and Roth (2014), Corollary 3.21.
    """
    checks.inside_unit(target=target, delta_extra=delta_extra)
    checks.count(times=times)
    return target / math.sqrt(-8 * times * math.log(delta_extra))


def optimal(epsilon: float, delta: float, times: int, delta_target: float) -> float:
    """The smallest epsilon of T-fold composition of (epsilon, delta)-DP releases: no theorem can do better.

    Every such release is a post-processing of randomised response, whose T-fold loss is binomial.

    Example:
        >>> round(optimal(0.1, 0.0, times=100, delta_target=1e-5), 3)
        4.307
        >>> optimal(0.0, 0.0, times=100, delta_target=1e-5), optimal(0.1, 0.5, times=100, delta_target=1e-5)
        (0.0, inf)

    Reference:
        Kairouz, Oh and Viswanath (2017), Theorem 3.3, arXiv:1311.0776v4.
    """
    checks.not_negative(epsilon=epsilon)
    checks.probability(delta=delta)
    checks.count(minimum=0, times=times)
    checks.inside_unit(delta_target=delta_target)
    if times == 0 or epsilon == 0:
        return 0.0 if -math.expm1(times * math.log1p(-min(delta, 1 - 1e-16))) <= delta_target else math.inf
    exposed = -math.expm1(times * math.log1p(-delta)) if delta < 1 else 1.0
    if not exposed <= delta_target:
        return math.inf
    lies = np.arange(times + 1)
    log_weights = gammaln(times + 1) - gammaln(lies + 1) - gammaln(times - lies + 1) - lies * epsilon
    log_weights += -times * math.log1p(math.exp(-epsilon)) + times * math.log1p(-delta)
    losses = (times - 2 * lies) * epsilon

    def is_enough(value: float) -> bool:
        above = losses > value
        gain = np.exp(log_weights[above]) * -np.expm1(value - losses[above])
        return exposed + float(gain.sum()) * (1 + 1e-12) <= delta_target

    return 0.0 if is_enough(0.0) else bisect(is_enough, 0.0, times * epsilon)


def _expm1(value: float) -> float:
    return math.expm1(min(value, 700.0))
