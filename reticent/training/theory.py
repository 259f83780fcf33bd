"""What theorems about noisy gradient descent say to do, and what they promise.

Convex losses. If gradients are no longer than G and the start is within R of a minimiser, T steps of size
R / (G sqrt T) give an average iterate within R G / sqrt T of the least loss. Noise only lengthens the
gradients: with d parameters and noise of deviation s on each entry, G^2 becomes G^2 + d s^2 on average.

Smooth losses that are not convex. If gradients of the mean loss F change by at most `smoothness` times the
distance, a step of size h <= 1 / smoothness along a noisy gradient with mean grad F(w) and variance V gives

    E F(w') <= F(w) - h |grad F(w)|^2 / 2 + smoothness h^2 V / 2.

Summed over T steps from a start whose loss is at most `gap` above the least one,

    mean over t of E |grad F(w_t)|^2 <= 2 gap / (h T) + smoothness h V.

Nothing is said about how low the loss gets: a small gradient may be that of a saddle.

Reference:
    Bassily, Smith and Thakurta (2014), Theorem 2.4, arXiv:1405.7085v2, for convex losses.
    Ghadimi and Lan (2013), Theorem 2.1, arXiv:1309.5549v1, for smooth ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from reticent.core import checks
from reticent.core.errors import Unproven
from reticent.data.sampling import FixedSize, FullBatch, Poisson
from reticent.training.clipping import lipschitz
from reticent.training.plan import Plan


def step_size(plan: Plan, *, radius: float, parameters: int) -> float:
    """R / (G sqrt T) for the plan's clipping norm (or Lipschitz constant), noise and steps.

    Args:
        radius: how far from the start a minimiser may be: that of the feasible set.
        parameters: how many numbers are trained.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=1000, sampling="full", steps=50, clipping=lipschitz(1.0)
        ... )
        >>> round(step_size(plan, radius=10.0, parameters=64), 3)
        1.384

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

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=1000, sampling="full", steps=50, clipping=lipschitz(1.0)
        ... )
        >>> round(excess_risk(plan, radius=10.0, parameters=64), 3)
        1.445
    """
    checks.positive(radius=radius)
    checks.count(steps=plan.steps)
    return radius * _expected_length(plan, parameters) / math.sqrt(plan.steps)


class BestDescent(NamedTuple):
    """A plan whose bound is the least of all, the size of its steps, and that bound."""

    plan: Plan
    step_size: float
    squared_gradient: float


def smooth_step_size(plan: Plan, *, smoothness: float, gap: float, parameters: int) -> float:
    """The step size with the least `squared_gradient`: sqrt(2 gap / (smoothness V T)), or 1 / smoothness.

    Args:
        smoothness: how fast gradients of one record's loss may change, at most: a Lipschitz constant.
        gap: how far the loss at the start is above the least one, at most.
        parameters: how many numbers are trained.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=1000, sampling="full", steps=50, clipping=lipschitz(1.0)
        ... )
        >>> round(smooth_step_size(plan, smoothness=2.0, gap=0.7, parameters=64), 3)
        0.5
    """
    checks.positive(smoothness=smoothness, gap=gap)
    checks.count(steps=plan.steps)
    variance = _variance(plan, parameters)
    longest = 1 / smoothness
    if not variance > 0:
        return longest
    return min(longest, math.sqrt(2 * gap / (smoothness * variance * plan.steps)))


def squared_gradient(plan: Plan, *, smoothness: float, gap: float, parameters: int) -> float:
    """2 gap / (h T) + smoothness h V: a bound on the mean of E |grad F|^2 over the steps of a plan.

    Guarantee:
        Holds for steps of `smooth_step_size` along the plan's noisy means, full batches, Poisson or
        fixed-size ones, no projection, and gradients of single records within the plan's Lipschitz constant.
        Clipping a longer gradient is not covered: then the sum is not a gradient of the loss. It is a bound
        on an expectation over batches and noise, so a single run may lie above it.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=1000, sampling="full", steps=50, clipping=lipschitz(1.0)
        ... )
        >>> round(squared_gradient(plan, smoothness=2.0, gap=0.7, parameters=64), 3)
        0.101
    """
    step = smooth_step_size(plan, smoothness=smoothness, gap=gap, parameters=parameters)
    return 2 * gap / (step * plan.steps) + smoothness * step * _variance(plan, parameters)


def best_descent(
    *,
    epsilon: float,
    delta: float,
    examples: int,
    gradient_bound: float,
    smoothness: float,
    gap: float,
    parameters: int,
) -> BestDescent:
    """The fewest full-batch steps with the least bound: T = sqrt(2 gap smoothness / v).

    Under one budget, noise on T steps has T times the variance v of noise on a single one. So the bound is
    2 gap smoothness / T + T v as long as the step size is 1 / smoothness, which is least at this T. From
    there on the step size shrinks, and the bound stays what it is: 2 sqrt(2 gap smoothness v), which is
    proportional to sqrt(parameters) / (epsilon examples).

    Args:
        gradient_bound: on the length of one record's gradient.

    Example:
        >>> found = best_descent(
        ...     epsilon=1, delta=1e-5, examples=10_000, gradient_bound=1, smoothness=2, gap=0.7, parameters=64
        ... )
        >>> found.plan.steps, round(found.step_size, 3), round(found.squared_gradient, 4)
        (561, 0.5, 0.01)
    """
    checks.positive(gradient_bound=gradient_bound)
    facts = {"smoothness": smoothness, "gap": gap, "parameters": parameters}

    def of(steps: int) -> BestDescent:
        plan = Plan.for_budget(
            epsilon=epsilon,
            delta=delta,
            examples=examples,
            sampling="full",
            steps=steps,
            clipping=lipschitz(gradient_bound),
        )
        return BestDescent(plan, smooth_step_size(plan, **facts), squared_gradient(plan, **facts))

    single = of(1)
    fitting = math.sqrt(2 * gap * smoothness / _variance(single.plan, parameters))
    around = {max(math.floor(fitting), 1), math.ceil(fitting)}
    return min((of(steps) for steps in sorted(around)), key=lambda found: found.squared_gradient)


def _variance(plan: Plan, parameters: int) -> float:
    """The variance of a noisy mean gradient around the true one: that of the batch, and that of the noise."""
    checks.count(parameters=parameters)
    _require_fresh_batches(plan)
    sampler, bound = plan.sampler, plan.clipping.sensitivity
    drawn = bound**2 / sampler.batch_size if sampler.batch_size < sampler.examples else 0.0
    return drawn + parameters * plan.noise_deviation**2


def _expected_length(plan: Plan, parameters: int) -> float:
    """The root of the expected squared length of a noisy mean gradient."""
    checks.count(parameters=parameters)
    _require_fresh_batches(plan)
    sampler, bound = plan.sampler, plan.clipping.sensitivity
    # A mean over a random batch, divided by its expected size: its square is at most (1 + 1/L) bound^2.
    drawn = 1 + (1 / sampler.batch_size if sampler.batch_size < sampler.examples else 0.0)
    return math.sqrt(drawn * bound**2 + parameters * plan.noise_deviation**2)


def _require_fresh_batches(plan: Plan) -> None:
    """Theorems here need steps whose expectation, given all before, is the gradient of the mean loss.

    That of a part of the records, or of those that an epoch has left, is another one.

    Raises:
        Unproven: batches of this plan are drawn otherwise.
    """
    sampler = plan.sampler
    is_cut = isinstance(sampler, Poisson) and sampler.largest is not None
    if is_cut or not isinstance(sampler, FullBatch | Poisson | FixedSize):
        what = "batches with a largest size" if is_cut else f"{type(sampler).__name__} batches"
        raise Unproven(
            f"There is no theorem here for {what}: their mean, given all before, is not the gradient.",
            remedy="Use full batches, Poisson ones or those of a fixed size.",
        )
