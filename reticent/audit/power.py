"""What an audit could have seen: simulated with the plan's own numbers, before or after a run.

`without_noise` is the audit's power: a trainer that adds no noise at all would have shown about so much. If
that is not above the claim, no bug could have contradicted it. `as_planned` is what a correct trainer shows.
"""

from __future__ import annotations

from statistics import median

import numpy as np

from reticent.audit.bounds import one_run
from reticent.audit.canaries import Absence
from reticent.audit.scoring import log_likelihood_ratio
from reticent.training.plan import Plan

_TRIALS = 5


def without_noise(
    plan: Plan, canaries: int, *, absence: Absence = "removed", confidence: float = 0.95
) -> float:
    """The median bound on a trainer that samples as the plan says and adds no noise.

    A canary is given away by the first batch that it is in; one that is in none cannot be seen.
    """
    rate = plan.sampler.batch_size / plan.sampler.examples
    never = (1 - rate) ** plan.steps
    rng = np.random.default_rng(0)  # a simulation of ours: nothing here is secret

    def trial() -> float:
        included = rng.integers(0, 2, canaries).astype(bool)
        seen = rng.random(canaries) >= never
        sign = np.where(included, 1.0, -1.0 if absence == "opposite" else 0.0)
        scores = sign * seen + 1e-6 * rng.random(canaries)
        return one_run(scores, included, delta=plan.delta, confidence=confidence).epsilon

    return median(trial() for _ in range(_TRIALS))


def as_planned(plan: Plan, canaries: int, *, absence: Absence = "removed", confidence: float = 0.95) -> float:
    """The median bound on a trainer that does what the plan says, seen through white-box scores."""
    rate, noise = plan.sampler.batch_size / plan.sampler.examples, plan.noise_multiplier
    rng = np.random.default_rng(0)

    def trial() -> float:
        included = rng.integers(0, 2, canaries).astype(bool)
        sign = np.where(included, 1.0, -1.0 if absence == "opposite" else 0.0)
        scores = np.zeros(canaries)
        for _ in range(plan.steps):
            noisy = sign * (rng.random(canaries) < rate) + noise * rng.standard_normal(canaries)
            scores += np.asarray(
                log_likelihood_ratio(noisy, rate=rate, noise_multiplier=noise, absence=absence)
            )
        return one_run(scores, included, delta=plan.delta, confidence=confidence).epsilon

    return median(trial() for _ in range(_TRIALS if canaries * plan.steps < 2_000_000 else 1))
