"""Per-example gradients, clipped one by one: right for every loss, at the memory of examples x parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core.trees import ArrayTree
from reticent.training.gradients.pinning import pinned
from reticent.training.gradients.totals import FLOOR, sum_of_squares, whole_total


def clipped_sum(
    loss: Callable[[Any, Any], jax.Array],
    params: ArrayTree,
    batch: ArrayTree,
    is_real: jax.Array,
    scales: Callable[[list[jax.Array]], list[jax.Array]],
) -> tuple[list[jax.Array], jax.Array, jax.Array]:
    """The sum of the clipped gradients in steps of the grid, leaf by leaf, the norms and the losses.

    Args:
        scales: from the squared norms of each leaf, (examples,) each, to what its gradients are
            multiplied by.
    """
    losses, gradients = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0))(params, batch)
    gradients = pinned([leaf.astype(jnp.float32) for leaf in jax.tree.leaves(gradients)], is_real)
    squares = [FLOOR + sum_of_squares(gradient, is_real) for gradient in gradients]
    by_leaf = [jnp.where(is_real, scale, 0.0) for scale in scales(squares)]
    sums = [whole_total(gradient, scale) for gradient, scale in zip(gradients, by_leaf, strict=True)]
    return sums, jnp.sqrt(sum(squares, jnp.float32(0))), losses
