"""Laplace noise: for each coordinate, or for a whole vector at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import checks, trees
from reticent.core.errors import InvalidArgument
from reticent.core.keys import leaf_keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Laplace, PureDp
from reticent.mechanisms.gaussian import widened
from reticent.mechanisms.sensitivity import BoundedSum


def add_laplace_noise(key: jax.Array, total: BoundedSum, event: Laplace) -> Any:
    """Adds independent Laplace noise of scale `event.noise_multiplier * total.max_norm` to every number.

    Guarantee:
        The result costs `event`. The contributions must be bounded in the L1 norm: an L2 bound says
        nothing useful about the sum of many coordinates' losses.
    """
    if total.norm != "l1":
        raise InvalidArgument(
            "Laplace noise on each coordinate needs contributions bounded in the L1 norm, these are in L2.",
            remedy="Use add_vector_laplace_noise or add_gaussian_noise, or bound them in L1.",
        )
    scale = event.noise_multiplier * total.max_norm
    return jax.tree.map(
        lambda leaf, leaf_key: (
            widened(leaf) + scale * jax.random.laplace(leaf_key, jnp.shape(leaf), jnp.float32)
        ),
        total.value,
        leaf_keys(key, total.value),
    )


def add_vector_laplace_noise(
    key: jax.Array, total: BoundedSum, *, epsilon: float, adjacency: Adjacency
) -> tuple[Any, PureDp]:
    """Adds noise with density proportional to exp(-epsilon * norm / sensitivity); returns its event too.

    The direction is uniform, the length Gamma-distributed with one shape unit a dimension.

    Guarantee:
        `epsilon`-DP under `adjacency`: the log density changes by at most epsilon when the centre
        moves by the sensitivity (Chaudhuri, Monteleoni and Sarwate 2011, Theorem 6).
    """
    checks.positive(epsilon=epsilon)
    event = PureDp(epsilon=epsilon, adjacency=adjacency)
    direction_key, length_key = jax.random.split(key)
    value = jax.tree.map(widened, total.value)
    normals = jax.tree.map(
        lambda leaf, leaf_key: jax.random.normal(leaf_key, leaf.shape, jnp.float32),
        value,
        leaf_keys(direction_key, value),
    )
    dimension = trees.size(value)
    length = jax.random.gamma(length_key, float(dimension)) * (total.sensitivity(adjacency) / epsilon)
    return trees.add(value, trees.scale(normals, length / trees.norm(normals))), event
