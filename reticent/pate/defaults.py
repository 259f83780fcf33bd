"""How much to ask, and with how much noise: from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reticent.accounting import gaussian_dp
from reticent.core import checks
from reticent.pate.aggregators import Confident, GaussianMax

_AHEAD = 2.0  # deviations of the noise that a unanimous vote is ahead


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

    The noise is what the budget leaves for that many. No check: it costs as much as many an answer, and the
    student can judge an answer by its neighbours'.
    """
    checks.count(teachers=teachers, classes=classes, pool=pool)
    checks.positive(epsilon=epsilon)
    mu = 1 / gaussian_dp.noise_multiplier(epsilon, delta)
    reach = teachers * mu / (2 * _AHEAD)  # sigma * sqrt(2) * _AHEAD = teachers, and sigma = sqrt(2 n) / mu
    queries = min(max(round(reach**2), 2 * classes), pool)
    return Settings(queries=queries, threshold=None, sigma_check=None, sigma_vote=math.sqrt(2 * queries) / mu)
