"""Gaussian differential privacy: the exact cost of Gaussian releases, and the central-limit estimate.

`mu` is sensitivity over standard deviation; releases compose as the root of the sum of squares.
"""

from __future__ import annotations

import math

from scipy.special import erfcx, log_ndtr, ndtr

from reticent.accounting.search import bisect
from reticent.core import checks
from reticent.core.errors import InvalidArgument


def delta(mu: float, epsilon: float) -> float:
    """The smallest delta at `epsilon`, exactly.

    >>> round(delta(1.0, 0.0), 12), round(delta(1.0, 1.0), 12)
    (0.382924922548, 0.126936737507)

    Reference:
        Balle and Wang (2018), Theorem 8, arXiv:1805.06530: Phi(a) - e^epsilon Phi(b) with
        a = mu/2 - epsilon/mu and b = a - mu.
    """
    checks.positive(mu=mu)
    checks.finite(epsilon=epsilon)
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if a > 0:
        return max(float(ndtr(a) - math.exp(min(epsilon + log_ndtr(b), 0.0))), 0.0)
    # Both terms are the normal density at `a` times a Mills ratio: the difference keeps its digits.
    mills = float(erfcx(-a / math.sqrt(2)) - erfcx(-b / math.sqrt(2)))
    return max(math.exp(-a * a / 2) / 2 * mills, 0.0)


def epsilon(mu: float, delta_: float) -> float:
    """The smallest epsilon >= 0 at a delta, to ten digits, rounded up.

    >>> round(epsilon(1.0, 1e-5), 9)
    4.377178096

    Edge cases:
        mu near 0    0: delta alone covers the release
        mu so large that its square overflows    infinity
        delta of 0, 1, or NaN    refused with `InvalidArgument`
    """
    checks.positive(mu=mu)
    checks.inside_unit(delta=delta_)
    if delta(mu, 0.0) <= delta_:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta_))  # Mironov 2017, Proposition 3
    if not math.isfinite(high):
        return math.inf
    return bisect(lambda value: delta(mu, value) <= delta_, 0.0, high) * (1 + 1e-10)


def noise_multiplier(epsilon_: float, delta_: float) -> float:
    """The least noise, over the sensitivity, that gives (epsilon, delta): the analytic Gaussian mechanism.

    >>> round(noise_multiplier(1.0, 1e-5), 9)
    3.730631635
    """
    checks.not_negative(epsilon=epsilon_)
    checks.inside_unit(delta=delta_)
    high = 1.0
    while not delta(1 / high, epsilon_) <= delta_:
        high *= 2
    return bisect(lambda value: delta(1 / value, epsilon_) <= delta_, high * 2.0**-60, high)


def classical_noise_multiplier(epsilon_: float, delta_: float) -> float:
    """The textbook formula sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon up to 1 only.

    Example:
        >>> round(classical_noise_multiplier(1.0, 1e-5), 3)
        4.845

    Reference:
        Dwork and Roth (2014), Theorem A.1. At epsilon 10 and delta 1e-5 it gives too little noise.

    Raises:
        InvalidArgument: epsilon is above 1.
    """
    checks.positive(epsilon=epsilon_)
    checks.inside_unit(delta=delta_)
    if not epsilon_ <= 1:
        raise InvalidArgument(
            f"The classical formula is proved for epsilon up to 1, and epsilon is {epsilon_:g}.",
            remedy="Use noise_multiplier, which is exact for every epsilon (and gives less noise below 1).",
        )
    return math.sqrt(2 * math.log(1.25 / delta_)) / epsilon_


def central_limit_mu(rate: float, noise: float, steps: int) -> float:
    """What Poisson-sampled Gaussian steps tend to: *an estimate, not a bound*. It falls below the truth.

    Example:
        >>> round(central_limit_mu(rate=0.01, noise=1.0, steps=1000), 3)
        0.415

    Reference:
        Bu, Dong, Long and Su (2020), Deep learning with Gaussian differential privacy, Corollary 4.
    """
    checks.probability(rate=rate)
    checks.positive(noise=noise)
    checks.count(steps=steps)
    return rate * math.sqrt(steps * math.expm1(min(noise**-2, 700.0)))
