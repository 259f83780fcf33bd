"""Recipes for shadow models, and ways to disturb a record: functions that may be vectorised.

A recipe trains one model on the rows where its mask is True. All its randomness comes from its key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.core import checks
from reticent.core.trees import ArrayTree
from reticent.models.losses import classification_loss
from reticent.models.model import Model

ShadowRecipe = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], Any]  # (key, x, y, mask) -> params
PlainRecipe = Callable[[jax.Array, np.ndarray, np.ndarray, np.ndarray], Any]  # the same in NumPy
DisturbTraced = Callable[[jax.Array, jax.Array], jax.Array]  # of a key and one record


def plain_recipe(
    model: Model,
    optimizer: optax.GradientTransformation,
    *,
    epochs: int,
    batch_size: int,
    set_size: int,
) -> ShadowRecipe:
    """Ordinary training without privacy: cross-entropy, a new order each epoch.

    Args:
        set_size: the most records that a mask selects: half of the data, rounded up, and those of `always`.
    """
    checks.count(epochs=epochs, batch_size=batch_size, set_size=set_size)
    loss = classification_loss(model)
    batches = -(-set_size // batch_size)

    def recipe(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
        start_key, order_key = jax.random.split(key)
        params = model.init(start_key)

        def batch_loss(params: ArrayTree, rows: jax.Array, weights: jax.Array) -> jax.Array:
            losses = jax.vmap(lambda row: loss(params, {"x": x[row], "y": y[row]}))(rows)
            return jnp.sum(losses * weights) / jnp.maximum(jnp.sum(weights), 1)

        def step(state: ArrayTree, batch: ArrayTree) -> tuple[Any, None]:
            params, moments = state
            gradient = jax.grad(batch_loss)(params, *batch)
            updates, moments = optimizer.update(gradient, moments, params)
            return (optax.apply_updates(params, updates), moments), None

        def epoch(state: ArrayTree, key: jax.Array) -> tuple[Any, None]:
            rows = shuffled_members(key, mask, set_size)
            rows = jnp.pad(rows, (0, batches * batch_size - set_size), constant_values=-1)
            weights = jnp.where(rows >= 0, mask[rows], False).astype(jnp.float32)
            shape = (batches, batch_size)
            return jax.lax.scan(step, state, (rows.reshape(shape), weights.reshape(shape)))

        state = (params, optimizer.init(params))
        (params, _), _ = jax.lax.scan(epoch, state, jax.random.split(order_key, epochs))
        return params

    return recipe


def shuffled_members(key: jax.Array, mask: jax.Array, set_size: int) -> jax.Array:
    """The rows where the mask is True in a random order: (set_size,), outsiders last if there is room."""
    place = jax.random.uniform(key, mask.shape) + jnp.where(mask, 0.0, 2.0)
    return jnp.argsort(place)[:set_size]


# Disturbances


def flip_bits(rate: float) -> DisturbTraced:
    """Flips every zero or one with this probability."""
    checks.inside_unit(rate=rate)

    def disturb(key: jax.Array, record: jax.Array) -> jax.Array:
        flips = jax.random.bernoulli(key, rate, record.shape)
        return jnp.where(flips, 1 - record, record)

    return disturb


def add_noise(deviation: float) -> DisturbTraced:
    """Adds normal noise to every number; bytes are turned into numbers from 0 to 1 first."""
    checks.positive(deviation=deviation)

    def disturb(key: jax.Array, record: jax.Array) -> jax.Array:
        numbers = record.astype(jnp.float32) / (255 if record.dtype == jnp.uint8 else 1)
        return numbers + deviation * jax.random.normal(key, record.shape)

    return disturb
