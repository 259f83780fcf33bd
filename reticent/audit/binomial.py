"""The test behind a one-run audit: how many guesses can be right when the training is private.

Under (epsilon, delta) every guess of a coin is right with at most the probability of randomised response,
independently enough for the binomial tail to hold, plus a term for delta.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaincinv, gammaln

_POINTS = 32  # of a search, in each round
_ROUNDS = 4


def p_values(*, canaries: int, guesses: int, correct: int, epsilons: np.ndarray, delta: float) -> np.ndarray:
    """An upper bound on the probability of so many right guesses, for each epsilon.

    Reference:
        Steinke, Nasr and Jagielski (2023), Theorem 5.2, arXiv:2305.08846: with f the upper tail of
        Binomial(guesses, e^epsilon / (1 + e^epsilon)), at most
        f(v) + 2 m delta max_i (f(v - i) - f(v)) / i.
    """
    epsilons = np.asarray(epsilons, np.float64)
    if correct == 0:
        return np.ones_like(epsilons)
    log_right, log_wrong = -np.log1p(np.exp(-epsilons)), -np.log1p(np.exp(epsilons))
    tail = betainc(correct, guesses - correct + 1, np.exp(log_right))
    if delta == 0:
        return tail
    below = np.arange(correct - 1, -1, -1)  # v - 1, v - 2, ..., 0
    choose = gammaln(guesses + 1) - gammaln(below + 1) - gammaln(guesses - below + 1)
    log_mass = choose + np.multiply.outer(log_right, below) + np.multiply.outer(log_wrong, guesses - below)
    steepest = np.max(np.cumsum(np.exp(log_mass), axis=-1) / np.arange(1, correct + 1), axis=-1)
    return np.minimum(tail + 2 * canaries * delta * steepest, 1.0)


@lru_cache(maxsize=65536)
def smallest_epsilon(*, canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The largest epsilon that so many right guesses refute, when a wrong refutation has probability `error`.

    Guarantee:
        Training that is (epsilon, delta)-private gets a larger answer with probability at most `error`, if
        the number of guesses was fixed before the coins were looked at.

    >>> round(smallest_epsilon(canaries=100, guesses=100, correct=100, delta=0.0, error=0.05), 2)
    3.49
    """
    if 2 * correct <= guesses:
        return 0.0
    share = float(betaincinv(correct, guesses - correct + 1, error))
    pure = math.log(share) - math.log1p(-share) if share > 0.5 else 0.0
    if delta == 0 or pure == 0:
        return pure
    low, high = 0.0, pure
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _POINTS + 1)
        refuted = (
            p_values(canaries=canaries, guesses=guesses, correct=correct, epsilons=grid, delta=delta) <= error
        )
        if not refuted[0]:
            return low if low > 0 else 0.0
        last = int(np.argmin(refuted)) - 1 if not refuted.all() else _POINTS
        low, high = float(grid[last]), float(grid[min(last + 1, _POINTS)])
        if last == _POINTS:
            break
    return low
