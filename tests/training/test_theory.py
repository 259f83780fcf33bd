"""Noisy descent on losses that are smooth and not convex: the bound holds, and no much smaller one would."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from reticent.core.errors import InvalidArgument, Unproven
from reticent.data.allocation import Allocation
from reticent.data.cyclic import Cyclic, CyclicPoisson
from reticent.data.sampling import FullBatch, Poisson, Sampler, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import lipschitz
from reticent.training.plan import Plan
from reticent.training.theory import best_descent, excess_risk, smooth_step_size, squared_gradient


def plan_of(noise: float, steps: int, sampler: Sampler | None = None) -> Plan:
    return Plan(
        sampler=sampler or FullBatch(examples=100),
        clipping=lipschitz(1.0),
        noise_multiplier=noise,
        steps=steps,
        delta=1e-5,
        adjacency=Adjacency.ADD_OR_REMOVE,
    )


def exact_mean(smoothness: float, gap: float, parameters: int, plan: Plan, step: float) -> float:
    """For F(w) = smoothness |w|^2 / 2, of which every step's expectation is known."""
    squared = 2 * gap / smoothness  # the distance from the minimum, squared
    total = 0.0
    for _ in range(plan.steps):
        total += smoothness**2 * squared
        squared = (1 - step * smoothness) ** 2 * squared + step**2 * parameters * plan.noise_deviation**2
    return total / plan.steps


def test_the_bound_holds_for_a_bowl_and_no_quarter_of_it_would() -> None:
    draw, closest = np.random.default_rng(0), math.inf
    for _ in range(200):
        smoothness, gap = 10 ** draw.uniform(-2, 2, 2)
        parameters, steps = (int(10**power) for power in draw.uniform(0, 3, 2))
        plan = plan_of(10 ** draw.uniform(-1, 2), steps)
        facts = {"smoothness": smoothness, "gap": gap, "parameters": parameters}
        bound = squared_gradient(plan, **facts)
        found = exact_mean(smoothness, gap, parameters, plan, smooth_step_size(plan, **facts))
        assert found <= bound
        closest = min(closest, bound / found)
    assert closest < 4


def test_the_bound_holds_for_a_network_with_a_fixed_last_layer() -> None:
    """Sixteen tanh units whose outputs are added with signs: smooth, not convex, constants by hand."""
    draw = np.random.default_rng(1)
    rows, width, units = 500, 4, 16
    x = draw.normal(size=(rows, width))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    y = np.sign(x[:, 0] * x[:, 1] + 0.1)
    signs = np.where(np.arange(units) % 2, 1, -1) / math.sqrt(units)
    # |grad| <= |signs| = 1; the Hessian is at most 1/4 |grad f|^2 + max |signs| max |tanh''|
    smoothness, gap = 0.25 + 0.77 / math.sqrt(units), math.log(2)

    def gradient(w: np.ndarray) -> np.ndarray:
        hidden = np.tanh(x @ w.T)
        slope = -y / (1 + np.exp(y * (hidden @ signs)))
        return ((slope[:, None] * (1 - hidden**2) * signs).T @ x) / rows

    plan = Plan(
        sampler=FullBatch(examples=rows),
        clipping=lipschitz(1.0),
        noise_multiplier=5.0,
        steps=100,
        delta=1e-5,
        adjacency=Adjacency.ADD_OR_REMOVE,
    )
    facts = {"smoothness": smoothness, "gap": gap, "parameters": units * width}
    step = smooth_step_size(plan, **facts)
    means = []
    for _ in range(10):
        w, squares = np.zeros((units, width)), []
        for _ in range(plan.steps):
            g = gradient(w)
            squares.append(np.square(g).sum())
            w = w - step * (g + plan.noise_deviation * draw.normal(size=w.shape))
        means.append(np.mean(squares))
    assert 0 < np.mean(means) <= squared_gradient(plan, **facts)


def test_random_batches_add_their_variance() -> None:
    """(1/L^2) q sum |g_i|^2 is at most bound^2 / L for Poisson batches of expected size L."""
    full = squared_gradient(plan_of(1.0, 10), smoothness=1.0, gap=1.0, parameters=3)
    drawn = plan_of(0.1, 10, Poisson(examples=100, batch_size=10))  # the same noise per entry
    assert math.isclose(drawn.noise_deviation, plan_of(1.0, 10).noise_deviation)
    assert squared_gradient(drawn, smoothness=1.0, gap=1.0, parameters=3) > full


def test_batches_whose_mean_is_not_the_gradient_have_no_theorem() -> None:
    """A part that has its turn may pull the other way: steps of 1/smoothness then never come to rest."""
    sizes = {"examples": 100, "batch_size": 50}
    for sampler in (Cyclic(**sizes), Shuffled(**sizes), CyclicPoisson(**sizes, parts=2), Allocation(**sizes)):
        plan = replace(plan_of(0.1, 10), sampler=sampler, adjacency=sampler.adjacencies[0])
        for promised in (
            lambda plan: squared_gradient(plan, smoothness=1.0, gap=1.0, parameters=3),
            lambda plan: excess_risk(plan, radius=1.0, parameters=3),
        ):
            with pytest.raises(Unproven, match=f"no theorem here for {type(sampler).__name__} batches"):
                promised(plan)
    cut = replace(plan_of(0.1, 10), sampler=Poisson(**sizes, largest=60))
    with pytest.raises(Unproven, match="largest size"):
        squared_gradient(cut, smoothness=1.0, gap=1.0, parameters=3)


def test_no_other_number_of_steps_has_a_smaller_bound() -> None:
    facts = {"smoothness": 2.0, "gap": 0.7, "parameters": 64}
    best = best_descent(epsilon=1.0, delta=1e-5, examples=2000, gradient_bound=1.0, **facts)
    for steps in (1, best.plan.steps // 3, 3 * best.plan.steps):
        other = Plan.for_budget(
            epsilon=1.0, delta=1e-5, examples=2000, sampling="full", steps=steps, clipping=lipschitz(1.0)
        )
        assert best.squared_gradient <= squared_gradient(other, **facts) * (1 + 1e-6)


@pytest.mark.parametrize("name", ["smoothness", "gap"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_constants_that_are_not_positive_are_refused(name: str, value: float) -> None:
    facts = {"smoothness": 1.0, "gap": 1.0} | {name: value}
    with pytest.raises(InvalidArgument, match=name):
        squared_gradient(plan_of(1.0, 10), parameters=3, **facts)
