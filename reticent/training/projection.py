"""Feasible sets: where parameters are put back after a step. Post-processing, so it costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import checks, trees
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree

Projection = Callable[[Any], Any]


def onto_ball(radius: float) -> Projection:
    """The nearest point whose norm over all leaves is at most `radius`.

    Example:
        >>> [round(float(x), 4) for x in onto_ball(1.0)({"w": jnp.array([3.0, 4.0])})["w"]]
        [0.6, 0.8]
    """
    checks.positive(radius=radius)

    def project(params: ArrayTree) -> Any:
        norm = trees.norm(params)
        return trees.scale(params, jnp.minimum(1.0, radius / jnp.maximum(norm, radius * 1e-30)))

    return project


def onto_box(low: float, high: float) -> Projection:
    """Every number between `low` and `high`.

    Example:
        >>> onto_box(0.0, 1.0)(jnp.array([-0.5, 0.5, 2.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    checks.finite(low=low, high=high)
    if low > high:
        raise InvalidArgument(f"The box from {low} to {high} is empty.", remedy="Swap low and high.")
    return lambda params: jax.tree.map(lambda leaf: jnp.clip(leaf, low, high), params)


def onto_simplex() -> Projection:
    """Each leaf, along its last axis, the nearest vector of probabilities.

    Example:
        >>> onto_simplex()(jnp.array([0.9, 0.9, -1.0])).round(4).tolist()
        [0.5, 0.5, 0.0]

    Reference:
        Duchi, Shalev-Shwartz, Singer and Chandra (2008), Figure 1.
    """

    def project_leaf(leaf: jax.Array) -> jax.Array:
        ordered = jnp.sort(leaf, axis=-1)[..., ::-1]
        excess = jnp.cumsum(ordered, axis=-1) - 1
        counts = jnp.arange(1, leaf.shape[-1] + 1)
        support = jnp.sum(ordered * counts > excess, axis=-1, keepdims=True)
        shift = jnp.take_along_axis(excess, support - 1, axis=-1) / support
        return jnp.maximum(leaf - shift, 0.0)

    return lambda params: jax.tree.map(project_leaf, params)
