"""What a random sample buys: a release on a batch says less about a record that may not be in it."""

from __future__ import annotations

import math

from reticent.core import checks


def poisson(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """(epsilon, delta)-DP on a batch that each record joins with probability `rate`.

    >>> round(poisson(1.0, 0.0, 0.01)[0], 10)
    0.0170368632

    Guarantee:
        (ln(1 + rate (e^epsilon - 1)), rate delta) under add-or-remove; the same under replacement
        for batches of fixed size drawn without replacement, with rate = batch / examples.

    Edge cases:
        rate 0       (0, 0): nobody is ever drawn
        rate 1       (epsilon, delta): everybody always is
        epsilon 0    0, whatever the rate
        NaN          refused with `InvalidArgument`

    Reference:
        Balle, Barthe and Gaboardi (2018), Theorems 8 and 9, arXiv:1807.01647.
    """
    checks.not_negative(epsilon=epsilon)
    checks.probability(delta=delta, rate=rate)
    if epsilon > 700:  # ln(e^x + 1 - rate) with x = epsilon + ln(rate)
        x = epsilon + math.log(rate) if rate else -math.inf
        return max(x, 0.0) + math.log1p(math.exp(-abs(x))), rate * delta
    return math.log1p(rate * math.expm1(epsilon)), rate * delta


def poisson_simple(rate: float) -> float:
    """The lecture's first bound: a 1-DP release on a batch of rate r is (2 r)-DP. For comparison only.

    Example:
        >>> poisson_simple(0.01)
        0.02

    Reference:
        Smith (2009), Differential privacy and the secrecy of the sample, Lemma 3.
    """
    checks.probability(rate=rate)
    return 2 * rate


def inner_epsilon(epsilon: float, rate: float) -> float:
    """The inverse: the epsilon that a release on the batch may have, so that `epsilon` comes out.

    Example:
        >>> round(inner_epsilon(0.1, rate=0.01), 3)
        2.444
    """
    checks.not_negative(epsilon=epsilon)
    checks.positive(rate=rate)
    checks.probability(rate=rate)
    if epsilon > 1:  # the same with e^epsilon taken out, which may not fit a float
        return epsilon + math.log1p((rate - 1) * math.exp(-epsilon)) - math.log(rate)
    grown = math.expm1(epsilon) / rate
    return math.log1p(grown) if math.isfinite(grown) else math.log(math.expm1(epsilon)) - math.log(rate)
