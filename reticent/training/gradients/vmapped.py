"""Per-example gradients, clipped one by one: right for every loss, at the memory of examples x parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import trees


def clipped_sum(
    loss: Callable[[Any, Any], jax.Array],
    params: Any,
    batch: Any,
    is_real: jax.Array,
    clip: Callable[[Any], Any],
) -> tuple[Any, jax.Array, jax.Array]:
    """The sum of the clipped gradients, the norms before clipping, and the losses."""

    def contribution(example: Any, is_real: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(params, example)
        clipped = jax.tree.map(lambda leaf: jnp.where(is_real, leaf, 0), clip(gradient))
        return clipped, trees.norm(gradient), value

    clipped, norms, losses = jax.vmap(contribution)(batch, is_real)
    # A product with ones: XLA sums over the first axis a hundred times slower on CPU.
    ones = jnp.ones(is_real.shape, jnp.float32)
    total = jax.tree.map(
        lambda leaf: jnp.tensordot(ones, leaf, axes=1, precision=jax.lax.Precision.HIGHEST), clipped
    )
    return total, norms, losses
