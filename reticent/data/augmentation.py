"""Random changes to one image that keep its meaning: views for `train(augment=..., views=...)`.

Each is a function of a key and one example with an image `x` of shape (height, width[, channels]).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import checks

Augment = Callable[[jax.Array, Any], Any]  # of a key and one example


def random_flip(key: jax.Array, example: Any) -> Any:
    """Swaps left and right with probability one half.

    Example:
        >>> example = {"x": jnp.array([[1, 2, 3]])}
        >>> random_flip(jax.random.key(1), example)["x"].tolist() in ([[1, 2, 3]], [[3, 2, 1]])
        True
    """
    x = example["x"]
    return {**example, "x": jnp.where(jax.random.bernoulli(key), x[:, ::-1], x)}


def random_shift(most: int) -> Augment:
    """Shifts by up to `most` pixels in each direction; what comes in from outside is zero.

    Example:
        >>> example = {"x": jnp.ones((4, 4)), "y": 1}
        >>> random_shift(1)(jax.random.key(0), example)["x"].shape
        (4, 4)
    """
    checks.count(most=most)

    def shift(key: jax.Array, example: Any) -> Any:
        x = example["x"]
        wide = jnp.pad(x, [(most, most), (most, most)] + [(0, 0)] * (x.ndim - 2))
        row, column = jax.random.randint(key, (2,), 0, 2 * most + 1)
        return {**example, "x": jax.lax.dynamic_slice(wide, (row, column) + (0,) * (x.ndim - 2), x.shape)}

    return shift


def chain(*changes: Augment) -> Augment:
    """Applies one change after the other, each with a key of its own.

    Example:
        >>> change = chain(random_flip, random_shift(1))
        >>> change(jax.random.key(0), {"x": jnp.ones((4, 4))})["x"].shape
        (4, 4)
    """

    def all_of_them(key: jax.Array, example: Any) -> Any:
        for number, change in enumerate(changes):
            example = change(jax.random.fold_in(key, number), example)
        return example

    return all_of_them
