"""What to ask: how many questions, about which public records, with how much noise.

All of it is decided by public numbers and public records alone, so it costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.accounting.theorems import gaussian_dp
from reticent.core import checks
from reticent.pate.aggregators import Confident, GaussianMax

_AHEAD = 2.0  # deviations of the noise that a unanimous vote is ahead
_ROUNDED_UP = 1 + 1e-8  # epsilon is found to ten digits


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of GNMax, or of Confident-GNMax if there is a threshold. They may be published.

    Args:
        queries: how many public records are asked about.
        threshold: the largest count has to reach it for an answer; None asks without a check.
        sigma_check: noise of the check, on the largest count; None without a check.
        sigma_vote: noise on every count.
    """

    queries: int
    threshold: float | None
    sigma_check: float | None
    sigma_vote: float

    @property
    def aggregator(self) -> GaussianMax | Confident:
        if self.threshold is None or self.sigma_check is None:
            return GaussianMax(sigma=self.sigma_vote)
        return Confident(threshold=self.threshold, sigma_check=self.sigma_check, sigma=self.sigma_vote)


def choose_settings(teachers: int, classes: int, pool: int, epsilon: float, delta: float) -> Settings:
    """Chooses as many questions as keep a unanimous vote two deviations ahead of the noise.

    The noise is what the budget leaves for that many. A student of noisy counts depends little on how
    many there are, since their total information is the same: with a part of MNIST's train file as the
    pool, 437, 983 and 2,730 questions gave students of 98.5, 98.7 and 98.7 % (epsilon 2), and results on
    Adult were as even, with an exact Gaussian process as the student. Hence two deviations. No check: every
    question would pay for it, and the student judges an answer by its neighbours' anyway.

    Example:
        >>> choose_settings(teachers=250, classes=10, pool=9000, epsilon=2.0, delta=1e-6).queries
        785
    """
    checks.count(teachers=teachers, classes=classes, pool=pool)
    checks.positive(epsilon=epsilon)
    mu = 1 / gaussian_dp.noise_multiplier(epsilon, delta)
    reach = teachers * mu / (2 * _AHEAD)  # sigma * sqrt(2) * _AHEAD = teachers, and sigma = sqrt(2 n) / mu
    queries = min(max(round(reach**2), 2 * classes), pool)
    sigma = math.sqrt(2 * queries) / mu * _ROUNDED_UP
    return Settings(queries=queries, threshold=None, sigma_check=None, sigma_vote=sigma)


def choose_far_apart(
    features: Any, queries: int, *, seed: int | np.random.Generator | None = None
) -> np.ndarray:
    """Chooses rows that cover the pool, by k-means++ seeding.

    Each is drawn with probability proportional to its squared distance from those before it.

    Example:
        >>> sorted(choose_far_apart([[0.0], [0.1], [9.0], [9.1]], 2, seed=0).tolist())
        [0, 3]

    Reference:
        Arthur and Vassilvitskii (2007), k-means++: the advantages of careful seeding, Section 2.2.
    """
    rows = np.asarray(features, np.float32).reshape(len(features), -1)
    checks.count(queries=queries)
    source = np.random.default_rng(seed)
    if queries >= len(rows):
        return source.permutation(len(rows))
    lengths = np.square(rows).sum(axis=1)
    chosen = [int(source.integers(len(rows)))]
    apart = np.full(len(rows), np.inf, np.float32)
    while len(chosen) < queries:
        last = chosen[-1]
        apart = np.minimum(apart, np.maximum(lengths + lengths[last] - 2 * rows @ rows[last], 0))
        apart[last] = 0
        total = apart.sum(dtype=np.float64)
        if total <= 0:  # only copies of what was chosen are left
            left = np.setdiff1d(np.arange(len(rows)), chosen)
            return np.append(chosen, source.permutation(left)[: queries - len(chosen)])
        place = source.random() * total
        chosen.append(int(np.searchsorted(np.cumsum(apart, dtype=np.float64), place, side="right")))
    return np.asarray(chosen)
