"""What the theorem about noisy projected gradient descent says to do, and what it promises.

For a convex loss whose gradients are no longer than G, started within R of a minimiser, T steps of size
R / (G sqrt T) give an average iterate within R G / sqrt T of the least loss. Noise only lengthens the
gradients: with d parameters and noise of deviation s on each entry, G^2 becomes G^2 + d s^2 on average.
"""

from __future__ import annotations

import math

from reticent.core import checks
from reticent.training.plan import Plan


def step_size(plan: Plan, *, radius: float, parameters: int) -> float:
    """R / (G sqrt T) for the plan's clipping norm (or Lipschitz constant), noise and steps.

    Args:
        radius: how far from the start a minimiser may be: that of the feasible set.
        parameters: how many numbers are trained.

    Reference:
        Bassily, Smith and Thakurta (2014), Theorem 2.4, arXiv:1405.7085v2.
    """
    checks.positive(radius=radius)
    checks.count(steps=plan.steps)
    return radius / (_expected_length(plan, parameters) * math.sqrt(plan.steps))


def excess_risk(plan: Plan, *, radius: float, parameters: int) -> float:
    """R G / sqrt T: a bound on the expected excess of the average iterate's loss over the least one.

    Holds for a convex loss with that Lipschitz constant, full batches or Poisson ones, projection onto a
    set of this radius, the step size of `step_size` and `output="mean"`. Clipping a longer gradient is
    not covered: then the sum is not a gradient of the loss.
    """
    checks.positive(radius=radius)
    checks.count(steps=plan.steps)
    return radius * _expected_length(plan, parameters) / math.sqrt(plan.steps)


def _expected_length(plan: Plan, parameters: int) -> float:
    """The root of the expected squared length of a noisy mean gradient."""
    checks.count(parameters=parameters)
    sampler, bound = plan.sampler, plan.clipping.sensitivity
    # A mean over a random batch, divided by its expected size: its square is at most (1 + 1/L) bound^2.
    drawn = 1 + (1 / sampler.batch_size if sampler.batch_size < sampler.examples else 0.0)
    return math.sqrt(drawn * bound**2 + parameters * plan.noise_deviation**2)
