"""The one-run test for a whole trade-off curve: that of (epsilon, delta), or a Gaussian's.

A curve says how often a test of one coin can be right, by how often it is wrong. For the curve of
(epsilon, delta) this is a second test beside the binomial tail, and the stronger one where there are many
canaries: its price for delta does not grow with them. A Gaussian curve has one number mu, and using all of it
shows more; but whether the curve *is* Gaussian cannot be seen from the scores. That is an assumption, and for
randomised response a false one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from reticent.accounting.theorems import gaussian_dp

Inverse = Callable[[np.ndarray], np.ndarray]

_LARGEST_MU = 40.0
_LARGEST_EPSILON = 30.0
_POINTS = 32  # of a search, in each round
_ROUNDS = 4
_STOPPED = 64  # counts after which a decided search is looked at


def is_refuted(inverse: Inverse, *, canaries: int, guesses: int, correct: int, error: float) -> np.ndarray:
    """Whether so many right guesses, or more, have a probability below `error` under each curve.

    Let F be the curve: an event that has probability x under one value of a coin has at most F(x) under the
    other. Let p be the distribution of the number of right guesses among r, A_j the sum over c >= j of
    c p_c / m, and B_j the same with r - c in place of c. Summed over coins, and because F is concave,
    A_j <= F(B_{j-1}) for every j. Suppose that P[c >= v] were `error`. Then the least that can follow is with
    all of it at c = v; each inequality forces B_{j-1} up from A_j, and A_0 + B_0, which is r / m, may come
    out too large.

    Args:
        inverse: of F, for all curves at once: one entry each.

    Reference:
        Mahloujifar, Melis and Chaudhuri (2024), Auditing f-differential privacy in one run,
        arXiv:2410.22235.
    """
    whole = guesses / canaries
    right = inverse(np.zeros(1)) * 0 + error * correct / canaries
    wrong = np.full_like(right, error * (guesses - correct) / canaries)
    for count in range(correct - 1, -1, -1):
        forced = np.maximum(wrong, inverse(np.minimum(right, 1.0)))
        right = right + count / (guesses - count) * (forced - wrong)
        wrong = forced
        if count % _STOPPED == 0 and np.all(right + wrong > whole):
            break
    return right + wrong > whole * (1 + 1e-9)  # a rounding error refutes nothing


def gaussian(mus: np.ndarray) -> Inverse:
    """The family of the curves Phi(Phi^-1(x) + mu)."""
    return lambda chance: ndtr(ndtri(chance) - mus)


def approximate(epsilons: np.ndarray, delta: float) -> Inverse:
    """The family of the curves min(e^epsilon x + delta, 1 - e^-epsilon (1 - delta - x))."""
    smaller, larger = np.exp(-epsilons), np.exp(epsilons)
    return lambda chance: np.maximum((chance - delta) * smaller, 1 - delta - (1 - chance) * larger)


@lru_cache(maxsize=65536)
def smallest_epsilon(*, canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The largest epsilon that so many right guesses refute, when a wrong refutation has probability `error`.

    Guarantee:
        Training that is (epsilon, delta)-private gets a larger answer with probability at most `error`, if
        the number of guesses was fixed before the coins were looked at.
    """
    return _largest_refuted(
        lambda epsilons: approximate(epsilons, delta), _LARGEST_EPSILON, canaries, guesses, correct, error
    )


@lru_cache(maxsize=65536)
def smallest_gaussian_epsilon(
    *, canaries: int, guesses: int, correct: int, delta: float, error: float
) -> float:
    """The epsilon at `delta` of the most private Gaussian curve that is not refuted.

    Guarantee:
        As `smallest_epsilon`, for training whose trade-off curve is Gaussian, and for no other.
    """
    mu = _largest_refuted(gaussian, _LARGEST_MU, canaries, guesses, correct, error)
    return gaussian_dp.epsilon(mu, delta) if mu > 0 and delta > 0 else (math.inf if mu > 0 else 0.0)


def _largest_refuted(
    curves: Callable[[np.ndarray], Inverse],
    largest: float,
    canaries: int,
    guesses: int,
    correct: int,
    error: float,
) -> float:
    """Searches with a refuted value below; returns nothing when not even the smallest is refuted."""
    if 2 * correct <= guesses:
        return 0.0
    low, high = 0.0, largest
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _POINTS + 1)
        refuted = is_refuted(curves(grid), canaries=canaries, guesses=guesses, correct=correct, error=error)
        if not refuted[0]:
            return low
        last = _POINTS if refuted.all() else int(np.argmin(refuted)) - 1
        low, high = float(grid[last]), float(grid[min(last + 1, _POINTS)])
    return low
