"""The moments accountant, step by step as in the paper that made private deep learning practical.

Kept so that the published figures can be reproduced; `renyi` and the loss distribution are tighter.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.accounting.refusal import smallest
from reticent.accounting.theorems.sampled_renyi import binomial_sum
from reticent.core import checks

_LARGEST_MOMENT = 32  # "we only need to compute alpha(lambda) for lambda <= 32", Abadi et al., Section 3.2


def log_moment(rate: float, noise_multiplier: float, moment: int) -> float:
    """alpha(lambda) of one step: lambda times the Renyi divergence at order lambda + 1.

    Example:
        >>> round(log_moment(rate=0.01, noise_multiplier=4.0, moment=8), 6)
        0.000233
    """
    checks.count(moment=moment)
    checks.positive(noise_multiplier=noise_multiplier)
    checks.probability(rate=rate)
    if rate == 0:
        return 0.0
    if rate == 1:
        return moment * (moment + 1) / (2 * noise_multiplier**2)
    return moment * binomial_sum(rate, noise_multiplier, moment + 1)


def epsilon(
    rate: float, noise_multiplier: float, steps: int, delta: float, *, largest_moment: int = _LARGEST_MOMENT
) -> float:
    """The tail bound over the moments: min (T alpha(lambda) + ln(1/delta)) / lambda.

    Example:
        >>> round(epsilon(rate=0.01, noise_multiplier=4.0, steps=10_000, delta=1e-5), 2)
        1.26

    Reference:
        Abadi et al. (2016), Theorem 2, arXiv:1607.00133v2.
    """
    checks.count(minimum=0, steps=steps)
    checks.inside_unit(delta=delta)
    moments = np.arange(1, largest_moment + 1)
    logs = np.array([log_moment(rate, noise_multiplier, int(moment)) for moment in moments])
    return smallest((steps * logs - math.log(delta)) / moments)


def strong_composition(rate: float, noise_multiplier: float, steps: int, delta: float) -> float:
    """The baseline that the paper beats: amplification of every step, then strong composition.

    Example:
        >>> round(strong_composition(rate=0.01, noise_multiplier=4.0, steps=10_000, delta=1e-5), 2)
        9.34

    Reference:
        Abadi et al. (2016), Section 5.1 and Figure 2: 9.34 against 1.26.
    """
    checks.positive(rate=rate, noise_multiplier=noise_multiplier)
    checks.probability(rate=rate)
    checks.count(steps=steps)
    checks.inside_unit(delta=delta)
    step_delta = delta / (2 * steps * rate)
    step = rate * math.sqrt(2 * math.log(1.25 / step_delta)) / noise_multiplier
    return step * math.sqrt(2 * steps * math.log(2 / delta)) + steps * step * step
