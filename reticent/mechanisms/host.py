"""From JAX to the host and back: whole-number noise takes 64 bits, which compiled functions do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator_of
from reticent.core.trees import ArrayTree

_WORDS = 4  # of 32 bits


def source_of(key: jax.Array, *values: Any) -> np.random.Generator:
    """A generator from a key that is used for nothing else.

    Raises:
        InvalidArgument: the key or a value is being traced, so that there is nothing to draw for yet; or the
            key holds fewer than 128 bits.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((key, *values))):
        raise InvalidArgument(
            "Noise in whole numbers is drawn on the host, and this is inside a function that JAX compiles.",
            remedy="Return the sum from the compiled function, and add the noise outside.",
        )
    words = np.size(jax.random.key_data(key))
    if words != _WORDS:
        raise InvalidArgument(
            f"Noise takes one key of 128 bits, and this one has {32 * words}.",
            remedy="Take it from Keys.from_os(), or use jax.random.key(seed, impl='rbg') in experiments.",
        )
    return generator_of(key)


def flatten_numbers(tree: ArrayTree) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """All numbers of a tree in float64, and how to make a tree of float32 of as many others.

    Raises:
        InvalidArgument: a leaf holds integers; convert them to floats first.
    """
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]
    for leaf in arrays:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InvalidArgument(
                f"Noise cannot be added to a leaf of {leaf.dtype} with shape {leaf.shape}.",
                remedy="Release floating-point sums, or leave that leaf out of the tree.",
            )
    wide = [np.asarray(leaf).astype(np.float64) for leaf in arrays]
    ends = np.cumsum([leaf.size for leaf in wide], dtype=int).tolist()

    def tree_of(numbers: np.ndarray) -> Any:
        with np.errstate(over="ignore"):  # float32 has an end, and so may a huge sum
            narrow = numbers.astype(np.float32)
        parts = [
            jnp.asarray(narrow[end - leaf.size : end].reshape(leaf.shape))
            for leaf, end in zip(wide, ends, strict=True)
        ]
        return jax.tree.unflatten(structure, parts)

    return np.concatenate([leaf.ravel() for leaf in wide] or [np.zeros(0)]), tree_of
