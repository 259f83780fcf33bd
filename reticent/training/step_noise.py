"""How much noise a step adds, and what of it is an argument of the compiled program.

The grid of sums and the multiple that noise is drawn with are numbers, and nothing of a program's structure
depends on them. So plans that differ in nothing but their noise share one compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.whole_normals import floor_deviation
from reticent.data.cyclic import participation_of
from reticent.mechanisms.gaussian import NoiseGrid, dither_growth, multiple_for, noise_grid
from reticent.training.clipping import Clipping
from reticent.training.gradients.totals import MOST_ERROR, SLACK
from reticent.training.noise_streams import NoiseStream, largest_noise, stream_of
from reticent.training.plan import Plan
from reticent.training.plan_noise import is_correlated

_DRY_RUN = 0.01  # without noise, sums are on the grid of this noise multiplier
_MOST_GROWTH = 0.5 - MOST_ERROR - SLACK  # beyond, whether rounding leaves enough is found while tracing
_NOT_COMPILED = ("noise_multiplier", "delta", "clipping")  # of a plan, where its amounts are arguments


class Amounts(NamedTuple):
    """What a program is told about the noise of a plan.

    Args:
        steps: of the grid of sums, in one clipping norm.
        multiple: what noise is drawn with; see `whole_normals`.
        growth: the share of the clipping norm that is set aside for rounding by chance.
    """

    steps: Any
    multiple: Any
    growth: Any

    def on(self, grid: NoiseGrid) -> NoiseGrid:
        """The grid of these amounts, with the structure of another."""
        return grid._replace(steps=self.steps, multiple=self.multiple if grid.multiple else 0)


def noise_stream(plan: Plan) -> NoiseStream | None:
    """How the noise of a plan is made from step to step; None where every step has its own."""
    if not plan.is_private or not is_correlated(plan.noise, plan.steps):
        return None
    reach = plan.noise.sensitivity(plan.steps, participation_of(plan.sampler, plan.steps))
    steps_of_grid = floor_deviation(multiple_for(plan.noise_multiplier)) / plan.noise_multiplier
    return stream_of(plan.noise, plan.steps, reach, steps_of_grid)


def grid_of(plan: Plan, block: int) -> NoiseGrid:
    """The grid on which sums get their noise, of which each block of so many units is one."""
    stream = noise_stream(plan)
    return noise_grid(
        plan.noise_multiplier or _DRY_RUN,
        plan.sampler.capacity,
        block,
        largest_noise=lambda largest: largest_noise(stream, largest),
    )


def amounts_in(given: Amounts | None, plan: Plan, grid: NoiseGrid, numbers: int, devices: int) -> Amounts:
    """The amounts that a program was given, or its constants."""
    if given is None:
        return constant_amounts(plan, grid, numbers, devices)
    return jax.tree.map(jnp.asarray, given)


def constant_amounts(plan: Plan, grid: NoiseGrid, numbers: int, devices: int) -> Amounts:
    """Constants of a program, with what rounding adds whichever of so many numbers are rounded by chance."""
    stream = noise_stream(plan)
    kept = 0.0 if stream is None else stream.margin(numbers)
    return Amounts(grid.steps, grid.multiple, dither_growth(numbers, grid.steps, devices) + kept)


def traced_amounts(plan: Plan, block: int, numbers: int, devices: int) -> Amounts | None:
    """Arguments of a program; None where its amounts have to be constants."""
    if not plan.is_private or noise_stream(plan) is not None:
        return None
    steps, multiple, growth = constant_amounts(plan, grid_of(plan, block), numbers, devices)
    if not growth <= _MOST_GROWTH:
        return None
    return Amounts(np.float32(steps), np.int32(multiple), np.float32(growth))


def structure_of(plan: Plan, block: int, amounts: Amounts | None) -> Hashable:
    """All of a plan that its program is compiled from, besides the amounts that are its arguments."""
    if amounts is None:
        return plan
    grid = grid_of(plan, block)
    same = [(each.name, getattr(plan, each.name)) for each in fields(plan) if each.name not in _NOT_COMPILED]
    return (*same, _structure_of_clipping(plan.clipping), grid.shift, grid.is_wide, grid.multiple > 0)


def _structure_of_clipping(clipping: Clipping) -> Clipping:
    """The norm of a run is part of its state; what a program has of it is how layers share it."""
    if len(clipping.bounds) > 1:
        return clipping
    return replace(clipping, bounds=tuple((name, 1.0) for name, _ in clipping.bounds))


def with_amounts(many: Callable[..., Any], amounts: Amounts | None) -> Callable[..., Any]:
    """The steps of a call, given these amounts each time."""
    return lambda state, served, stop, roots: many(state, served, stop, roots._replace(amounts=amounts))
