"""What an answer costs when the votes are known: Renyi divergences that depend on private data.

The surer the teachers are, the less an answer tells about any one of them. But how sure they are is private:
a number from this module is for the holder of the data, and is published only after `sanitise`.
It also says less than differential privacy: by how much an outcome is likelier on these votes than on a
neighbour's, and not the other way round, where the divergence can be larger (tests/pate/test_costs.py).

Votes are (queries, classes), orders (orders,), results (queries, orders). Everything in float64.

The formulas are for real noise; the noise that is drawn is whole numbers of a step. With `step` they are
bounds for that. Let D be the difference of two counts' noise and g >= 1 the gap between the counts, both in
steps; a tie counts as wrong, whichever class wins it.

    normal     D is discrete normal, and its law falls beyond 0: P(D >= g), a sum over whole numbers, is at
               most the integral from g - 1 on. At g = 0 it is (1 + P(D = 0)) / 2, which is smaller too.
    Laplace    with q = e^-x, x the step over the scale, P(D >= g) is
               q^g (g (1 - q) + q + (1 + q^2) / (1 + q)) / (1 + q)^2. For x <= 1/8 that is at most
               (2 + x / 2 + x^2 + g x (1 + x)) q^g / 4, and the formula at g - 1, which is
               (2 + (g - 1) x) q^(g - 1) / 4, at least (2 + x - x^3 / 2 + g x (1 + x)) q^g / 4.

So every gap is taken to be one step smaller. That a wrong answer has probability 1 - 1 / classes at most
holds as it is: the first plurality is a vote or more ahead of those before it and no less of those after it,
so it wins whenever its noise is among the largest.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Num
from scipy.special import log_ndtr, logsumexp

from reticent.core import checks


def log_wrong_gaussian(
    counts: Num[np.ndarray, "queries classes"], sigma: float, *, step: float = 0.0
) -> Float[np.ndarray, " queries"]:
    """ln of a bound on the probability that GNMax answers anything but the plurality: (queries,).

    Reference:
        Papernot et al. (2018), Proposition 7, arXiv:1802.08908: the sum of erfc(gap / 2 sigma) / 2.
    """
    checks.positive(sigma=sigma)
    gaps = _gaps(counts) - step
    return _at_most_even(logsumexp(log_ndtr(-gaps / (math.sqrt(2) * sigma)), axis=1), counts.shape[1])


def log_wrong_laplace(
    counts: Num[np.ndarray, "queries classes"], scale: float, *, step: float = 0.0
) -> Float[np.ndarray, " queries"]:
    """`log_wrong_gaussian` for Laplace noise of this scale (1 / gamma).

    Reference:
        Papernot et al. (2017), Lemma 4, arXiv:1610.05755: the sum of (2 + gamma gap) / (4 exp(gamma gap)).
    """
    checks.positive(scale=scale)
    gaps = (_gaps(counts) - step) / scale
    return _at_most_even(np.asarray(logsumexp(np.log((2 + gaps) / 4) - gaps, axis=1)), counts.shape[1])


def log_pass_probability(
    counts: Num[np.ndarray, "queries classes"], threshold: float, sigma: float, *, step: float = 0.0
) -> Float[np.ndarray, " queries"]:
    """ln of the probability that the largest count passes the threshold with its noise: (queries,).

    With a step the less likely of passing and failing is at most as likely as this says: the largest count
    is taken to be one step nearer to the threshold.
    """
    checks.positive(sigma=sigma)
    ahead = np.max(counts, axis=1) - threshold
    return log_ndtr(np.sign(ahead) * np.maximum(np.abs(ahead) - step, 0.0) / sigma)


def gaussian_max(
    log_wrong: Float[np.ndarray, " queries"], sigma: float, orders: Float[np.ndarray, " orders"]
) -> Float[np.ndarray, "queries orders"]:
    """The divergence of one GNMax answer: the smaller of order / sigma^2 and what the votes allow.

    Reference:
        Papernot et al. (2018), Theorem 6 and Proposition 10, arXiv:1802.08908.
    """
    checks.positive(sigma=sigma)
    orders = np.asarray(orders, np.float64)
    log_wrong = np.asarray(log_wrong, np.float64)[:, None]
    found = np.broadcast_to(orders / sigma**2, (len(log_wrong), len(orders))).copy()
    higher = sigma * np.sqrt(-log_wrong)  # mu_2; mu_1 is one more
    second = higher / sigma**2
    with np.errstate(invalid="ignore", divide="ignore"):
        limit = (higher - 1) * second - higher * (np.log1p(1 / higher) + np.log1p(1 / (higher - 1)))
        applies = (higher > 1) & (log_wrong <= limit) & (-log_wrong > second) & (higher + 1 > orders)
        dependent = dependent_bound(log_wrong, sigma, orders)
    found[applies] = np.minimum(found, dependent)[applies]
    found[np.isneginf(log_wrong[:, 0])] = 0.0
    return found


def dependent_bound(log_wrong: np.ndarray | float, sigma: float, order: np.ndarray | float) -> np.ndarray:
    """Theorem 6 by itself, whether or not its conditions hold: the caller knows."""
    higher = sigma * np.sqrt(-log_wrong)
    first, second = (higher + 1) / sigma**2, higher / sigma**2
    log_right = log1m_exp(log_wrong)
    log_a = log_right - log1m_exp((log_wrong + second) * (1 - 1 / higher))
    log_b = first - log_wrong / higher
    total = np.logaddexp(log_right + (order - 1) * log_a, log_wrong + (order - 1) * log_b)
    return total / (order - 1)


def gaussian_check(
    log_pass: Float[np.ndarray, " queries"], sigma: float, orders: Float[np.ndarray, " orders"]
) -> Float[np.ndarray, "queries orders"]:
    """The divergence of one threshold check, by the same theorem.

    The largest count moves by one where a histogram moves by the root of two: hence the factor.
    """
    unlikely = np.minimum(log_pass, log1m_exp(log_pass))
    return gaussian_max(unlikely, math.sqrt(2) * sigma, orders)


def pure_dp(
    log_wrong: Float[np.ndarray, " queries"], epsilon: float, orders: Float[np.ndarray, " orders"]
) -> Float[np.ndarray, "queries orders"]:
    """The divergence of an epsilon-DP answer that is wrong with this probability (LNMax: epsilon = 2 gamma).

    The smallest of order epsilon^2 / 2, epsilon and, where it is proved, the bound of Papernot et al. (2017),
    Theorem 3, arXiv:1610.05755, which needs q <= 1 / (e^epsilon + 1).
    """
    checks.positive(epsilon=epsilon)
    moments = np.asarray(orders, np.float64) - 1
    log_wrong = np.asarray(log_wrong, np.float64)[:, None]
    found = np.minimum(epsilon * epsilon * (moments + 1) / 2, epsilon)
    found = np.broadcast_to(found, (len(log_wrong), len(moments))).copy()
    applies = np.broadcast_to(log_wrong <= -math.log1p(math.exp(epsilon)), found.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_right = log1m_exp(log_wrong)
        ratio = log_right - log1m_exp(np.minimum(log_wrong + epsilon, 0.0))
        dependent = np.logaddexp(log_right + moments * ratio, log_wrong + moments * epsilon) / moments
    found[applies] = np.minimum(found, dependent)[applies]
    return found


def log1m_exp(x: np.ndarray | float) -> np.ndarray:
    """ln(1 - e^x) for x <= 0, to all digits."""
    x = np.asarray(x, np.float64)
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


def _gaps(counts: np.ndarray) -> np.ndarray:
    """How far every other class is behind the first one: (queries, classes - 1)."""
    ordered = np.sort(np.asarray(counts, np.float64), axis=1)[:, ::-1]
    return ordered[:, :1] - ordered[:, 1:]


def _at_most_even(log_wrong: np.ndarray, classes: int) -> np.ndarray:
    return np.minimum(log_wrong, math.log1p(-1 / classes))
