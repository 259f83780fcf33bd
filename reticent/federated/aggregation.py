"""One step of the server on updates that have arrived, by the code that takes the steps of `rt.train`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.core import trees
from reticent.core.trees import ArrayTree
from reticent.data.sampling import Batch
from reticent.training.averages import last
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.devices.memory import examples_at_once
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.local_training import clients_at_once
from reticent.training.plan import Plan
from reticent.training.step import Blocks, Roots, private_step


class Aggregation:
    """Clips, sums, noises and applies the updates of a round.

    An update is the gradient, with its sign changed, of a loss that is linear in the parameters. So nothing
    about clipping, exact sums, noise or adaptive norms is written a second time.
    """

    def __init__(
        self, plan: Plan, params: ArrayTree, optimizer: optax.GradientTransformation, microbatch: int | None
    ) -> None:
        self._plan, self._leaves = plan, [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
        if microbatch is None:
            example = {name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in self._by_name().items()}
            fitting = examples_at_once(_against, params, example, "vmap")
            microbatch = min(fitting, clients_at_once(trees.size(params)))  # as in the simulator
        blocks = Blocks.of(plan, microbatch)
        sums = clipped_gradient_sum(_against, clipping=plan.clipping, strategy="vmap")
        step = private_step(
            sums, plan, optimizer, None, last().update, contribution=Contribution(), blocks=blocks
        )
        self._step = jax.jit(lambda state, rows, batch, roots: step(state, DeviceRows(rows), batch, roots)[0])

    def step(
        self, state: ArrayTree, updates: Mapping[int, list[np.ndarray]], batch: Batch, roots: Roots
    ) -> Any:
        """The next state.

        Args:
            updates: the leaves of those that came, by their slot in the batch.
        """
        slots = sorted(updates)
        room = self._room(int(batch.drawn))  # who came decides about no shape: others would be rounded anew
        rows = {name: np.zeros((room, *leaf.shape), leaf.dtype) for name, leaf in self._by_name().items()}
        for row, slot in enumerate(slots):
            for name, leaf in zip(rows, updates[slot], strict=True):
                rows[name][row] = leaf
        indices, has_come = np.zeros(len(batch.indices), np.int32), np.zeros(len(batch.indices), bool)
        indices[slots], has_come[slots] = np.arange(len(slots)), True
        drawn = batch.drawn  # whoever came: slots are worked on as they were drawn
        arrived = Batch(jnp.asarray(indices), jnp.asarray(has_come), end=drawn)
        return jax.block_until_ready(self._step(state, rows, arrived, roots))

    def _by_name(self) -> dict[str, np.ndarray]:
        return {f"{at:04d}": leaf for at, leaf in enumerate(self._leaves)}

    def _room(self, count: int) -> int:
        """Rows for so many updates: few shapes, since each is compiled once."""
        piece = max(8, math.ceil(self._plan.sampler.batch_size / 2))
        return max(-(-count // piece), 1) * piece


def _against(params: ArrayTree, update: Mapping[str, jax.Array]) -> jax.Array:
    """Linear in the parameters, with minus the update as its slope."""
    leaves = jax.tree.leaves(params)
    named = [update[name] for name in sorted(update)]
    return sum((-jnp.sum(change * leaf) for change, leaf in zip(named, leaves, strict=True)), jnp.float32(0))
