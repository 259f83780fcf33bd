"""Renyi divergences of Gaussian releases on a random batch."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

_LARGEST_QUADRATURE_ORDER = 12.0  # above it whole orders are enough, and the finite sum is exact
_LARGEST_NOISE = 1e150  # more costs less, and its square overflows
_LEAST_QUADRATURE_NOISE = 0.1  # below it the integrand is too sharp for a rule of a few thousand points


def poisson_gaussian(rate: float, noise_multiplier: float, orders: np.ndarray) -> np.ndarray:
    """The Poisson-sampled Gaussian at any orders above 1, whole or not; exact, not a bound on it.

    Whole orders by the binomial sum, the others by integration. Where that would take too many points (an
    order above 12, next to no noise) the next whole order bounds it: the divergence grows with the order.

    Reference:
        Mironov, Talwar and Zhang (2019), Section 3.3, arXiv:1908.10530: under add-or-remove the larger
        divergence is that of the mixture from the single Gaussian.
    """
    noise_multiplier = min(noise_multiplier, _LARGEST_NOISE)
    values = np.empty(orders.shape)
    is_open = (orders != np.floor(orders)) & (orders <= _LARGEST_QUADRATURE_ORDER)
    is_open &= noise_multiplier >= _LEAST_QUADRATURE_NOISE
    for index in np.flatnonzero(~is_open):
        values[index] = binomial_sum(rate, noise_multiplier, math.ceil(orders[index]))
    if is_open.any():
        values[is_open] = quadrature(rate, noise_multiplier, orders[is_open])
    return np.maximum(values, 0.0)


def binomial_sum(rate: float, noise_multiplier: float, order: int) -> float:
    """(order - 1)^-1 ln sum_k C(order, k) (1 - rate)^(order - k) rate^k e^{(k^2 - k) / (2 sigma^2)}."""
    k = np.arange(order + 1)
    if not 2 * noise_multiplier**2 > order**2 / float(np.finfo(float).max):
        return math.inf  # the largest term is beyond floats
    terms = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = (
        terms + k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2 * noise_multiplier**2)
    )
    # The terms k = 0 and 1 nearly make up 1; what the others add is summed apart, to keep its digits.
    if terms[2:].max() > 30:
        return float(np.logaddexp.reduce(terms)) / (order - 1)
    base = -_binomial_tail(rate, order)
    return float(np.log1p(base + np.exp(terms[2:]).sum())) / (order - 1)


def _binomial_tail(rate: float, order: int) -> float:
    """The probability of two or more successes in `order` trials: what the first two terms lack to 1."""
    k = np.arange(2, order + 1)
    terms = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return float(np.exp(terms + k * math.log(rate) + (order - k) * math.log1p(-rate)).sum())


def quadrature(rate: float, noise_multiplier: float, orders: np.ndarray) -> np.ndarray:
    """The same for any order: ln E[(1 - rate + rate e^l)^order] / (order - 1) by the trapezoid rule.

    The integrand is analytic in a strip around the real line and dies off like a Gaussian, so the
    rule converges exponentially fast in the number of points.
    """
    sigma = noise_multiplier
    step = min(sigma / 8, sigma * sigma / 8)
    top = float(orders.max())
    z = np.arange(-14 * sigma, top + 14 * sigma + step, step)  # (points,)
    log_weight = -0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(step)
    log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * z - 1) / (2 * sigma * sigma))
    # E[r^order] - 1 = E[r^order - 1 - order (r - 1)], because E[r] = 1: near 1 only the excess is summed.
    ratio_less_1 = rate * np.expm1(np.minimum((2 * z - 1) / (2 * sigma * sigma), 700.0))
    values = np.empty(len(orders))
    for index, order in enumerate(orders):
        logs = log_weight + order * log_ratio
        peak = float(logs.max())
        if peak > 30 or float(np.logaddexp.reduce(logs)) > 1:
            values[index] = float(np.logaddexp.reduce(logs)) / (order - 1)
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.expm1(np.minimum(order * log_ratio, 700.0)) - order * ratio_less_1
            is_small = np.abs(ratio_less_1) * max(order, 1.0) < 0.1
            excess[is_small] = _power_less_line(ratio_less_1[is_small], order)
            terms = np.exp(log_weight) * excess
        values[index] = np.log1p(np.maximum(terms.sum(), 0.0)) / (order - 1)
    return values


def _power_less_line(x: np.ndarray, order: float) -> np.ndarray:
    """(1 + x)^order - 1 - order x for small x, to all digits: the binomial series."""
    total = np.ones(x.shape)
    for k in range(16, 2, -1):
        total = 1 + total * x * (order - k + 1) / k
    return total * x * x * order * (order - 1) / 2


def without_replacement(rate: float, noise_multiplier: float, orders: np.ndarray) -> np.ndarray:
    """Batches of fixed size, one record replaced; an upper bound at whole orders, infinity at the others.

    `noise_multiplier` is relative to how far a replacement moves the sum.

    Reference:
        Wang, Balle and Kasiviswanathan (2019), Theorem 9, arXiv:1808.00087.
    """
    noise_multiplier = min(noise_multiplier, _LARGEST_NOISE)
    values = np.full(orders.shape, math.inf)
    for index, order in enumerate(orders):
        if order == int(order) and order <= 512:
            values[index] = _without_replacement(rate, noise_multiplier, int(order))
    return values


def _without_replacement(rate: float, noise_multiplier: float, order: int) -> float:
    j = np.arange(2, order + 1)
    divergence = j / (2 * noise_multiplier**2)
    log_terms = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1) + j * math.log(rate)
    # A Gaussian has no largest loss, so the factor min(2, (e^{eps(inf)} - 1)^j) is 2.
    log_terms = log_terms + (j - 1) * divergence + math.log(2)
    second = divergence[0]
    tight_second = math.log(4) + (math.log(math.expm1(second)) if second < 700 else second)
    log_terms[0] += min(tight_second, second + math.log(2)) - (second + math.log(2))
    return float(np.logaddexp(0.0, np.logaddexp.reduce(log_terms))) / (order - 1)
