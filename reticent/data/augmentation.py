"""Random changes to one image that leave its meaning: views for `train(augment=..., views=...)`.

Each is a function of a key and one example with an image `x` of shape (height, width[, channels]).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import checks

Augment = Callable[[jax.Array, Any], Any]


def flipped(key: jax.Array, example: Any) -> Any:
    """Left and right swapped, by a fair coin."""
    x = example["x"]
    return {**example, "x": jnp.where(jax.random.bernoulli(key), x[:, ::-1], x)}


def shifted(most: int) -> Augment:
    """Moved by up to `most` pixels each way; what comes in from outside is zero."""
    checks.count(most=most)

    def shift(key: jax.Array, example: Any) -> Any:
        x = example["x"]
        wide = jnp.pad(x, [(most, most), (most, most)] + [(0, 0)] * (x.ndim - 2))
        row, column = jax.random.randint(key, (2,), 0, 2 * most + 1)
        return {**example, "x": jax.lax.dynamic_slice(wide, (row, column) + (0,) * (x.ndim - 2), x.shape)}

    return shift


def in_turn(*changes: Augment) -> Augment:
    """One change after the other, each with a key of its own."""

    def all_of_them(key: jax.Array, example: Any) -> Any:
        for number, change in enumerate(changes):
            example = change(jax.random.fold_in(key, number), example)
        return example

    return all_of_them
