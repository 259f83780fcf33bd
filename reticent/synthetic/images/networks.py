"""Two small class-conditional networks: a generator, and a discriminator.

Plain functions of a parameter tree and ONE example, so that a discriminator cannot mix two records.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.models.initialisers import draw, glorot
from reticent.models.layers import dense, dense_starts
from reticent.models.model import Params

NOISE = 32  # numbers that a generated record is made from

_LOUD = 3.0  # the class stands out among the other inputs
_SLOPE = 0.2  # of a discriminator's units where they are negative


def generator_starts(classes: int, hidden: Sequence[int], outputs: int) -> Any:
    return _starts((NOISE + classes, *hidden, outputs))


def discriminator_starts(classes: int, hidden: Sequence[int], inputs: int) -> Any:
    return _starts((inputs + classes, *hidden, classes))


def new(key: jax.Array, starts: Any) -> Params:
    return draw(key, starts)


def generate(params: Params, noise: jax.Array, label: jax.Array, classes: int) -> jax.Array:
    """The coordinates of a record, from noise (..., NOISE) and its class (...)."""
    x = jnp.concatenate([noise, _LOUD * jax.nn.one_hot(label, classes)], axis=-1)
    *hidden, last = _layers(params)
    for layer in hidden:
        x = jax.nn.relu(dense(layer, x))
    return dense(last, x)


def generate_many(params: Params, noise: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """The same for many records, in NumPy: sampling compiles nothing and takes any number of rows."""
    x = np.concatenate([noise, _LOUD * np.eye(classes)[labels]], axis=1).astype(np.float32)
    *hidden, last = _layers(params)
    for layer in hidden:
        x = np.maximum(x @ np.asarray(layer["w"]) + np.asarray(layer["b"]), 0)
    return x @ np.asarray(last["w"]) + np.asarray(last["b"])


def discriminate(params: Params, x: jax.Array, label: jax.Array, classes: int) -> jax.Array:
    """How real a record looks as one of this class: a logit. Each class has its own last layer."""
    chosen = jax.nn.one_hot(label, classes)
    x = jnp.concatenate([x, _LOUD * chosen], axis=-1)
    *hidden, last = _layers(params)
    for layer in hidden:
        x = jax.nn.leaky_relu(dense(layer, x), _SLOPE)
    return jnp.sum(dense(last, x) * chosen, axis=-1)


def _starts(sizes: Sequence[int]) -> Any:
    *inner, last = [dense_starts(*shape) for shape in pairwise(sizes[:-1])] + [
        dense_starts(sizes[-2], sizes[-1], glorot)
    ]
    return {f"dense{place}": layer for place, layer in enumerate((*inner, last))}


def _layers(params: Params) -> list[Any]:
    return [params[f"dense{place}"] for place in range(len(params))]
