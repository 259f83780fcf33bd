"""How much to ask, and with how much noise: from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reticent.accounting.theorems import gaussian_dp
from reticent.core import checks
from reticent.pate.aggregators import Confident, GaussianMax

_AHEAD = 2.0  # deviations of the noise that a unanimous vote is ahead
_ROUNDED_UP = 1 + 1e-8  # epsilon is found to ten digits


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of GNMax, or Confident-GNMax where there is a threshold. All of it may be published.

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


def settings(teachers: int, classes: int, pool: int, epsilon: float, delta: float) -> Settings:
    """As many questions as keep a unanimous vote two deviations ahead of the noise on two counts.

    The noise is what the budget leaves for that many. A student that is given noisy counts hardly minds how
    many there are, since their information adds up to the same: on a part of MNIST's train file that played
    the pool, 437, 983 and 2,730 questions gave students of 98.5, 98.7 and 98.7 % (epsilon 2), and Adult was
    as even with an exact Gaussian process for a student. Two deviations was chosen from that. No check:
    every question would pay for it, and the student judges an answer by its neighbours' anyway.
    """
    checks.count(teachers=teachers, classes=classes, pool=pool)
    checks.positive(epsilon=epsilon)
    mu = 1 / gaussian_dp.noise_multiplier(epsilon, delta)
    reach = teachers * mu / (2 * _AHEAD)  # sigma * sqrt(2) * _AHEAD = teachers, and sigma = sqrt(2 n) / mu
    queries = min(max(round(reach**2), 2 * classes), pool)
    sigma = math.sqrt(2 * queries) / mu * _ROUNDED_UP
    return Settings(queries=queries, threshold=None, sigma_check=None, sigma_vote=sigma)
