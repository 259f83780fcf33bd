"""Gaussian noise for trees of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.core.normals import Part, standard_normals
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.sensitivity import BoundedSum


def add_gaussian_noise(
    key: jax.Array, total: BoundedSum, event: Gaussian, *, parts: Sequence[Part] | None = None
) -> Any:
    """Adds independent noise of `event.noise_multiplier * total.max_norm` to every number of the sum.

    Leaves narrower than float32 are widened first: noise rounded to eight bits is not Gaussian.

    Args:
        parts: for a part of a sum, where each of its leaves stands among all numbers of the whole. Each
            gets the noise that it would have there.

    Guarantee:
        The result costs `event`, whatever the adjacency: how far neighbours move the sum is the
        accountant's to know. A bound in the L1 norm is one in the L2 norm too.
    """
    standard_deviation = event.noise_multiplier * total.max_norm
    leaves, structure = jax.tree.flatten(total.value)
    wide = [widened(leaf) for leaf in leaves]
    if parts is not None:
        own = [
            leaf + standard_deviation * standard_normals(key, leaf.size, part=part).reshape(leaf.shape)
            for leaf, part in zip(wide, parts, strict=True)
        ]
        return jax.tree.unflatten(structure, own)
    # One draw for all leaves: each number has a place of its own in it.
    ends = np.cumsum([leaf.size for leaf in wide], dtype=int).tolist()
    drawn = standard_normals(key, ends[-1] if ends else 0)
    noisy = [
        leaf + standard_deviation * drawn[end - leaf.size : end].reshape(leaf.shape)
        for leaf, end in zip(wide, ends, strict=True)
    ]
    return jax.tree.unflatten(structure, noisy)


def widened(leaf: Any) -> jax.Array:
    """A floating leaf in at least float32.

    Raises:
        InvalidArgument: the leaf holds integers; noise on them would be rounded away.
    """
    leaf = jnp.asarray(leaf)
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        raise InvalidArgument(
            f"Noise cannot be added to a leaf of {leaf.dtype} with shape {leaf.shape}.",
            remedy="Release floating-point sums, or leave that leaf out of the tree.",
        )
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
