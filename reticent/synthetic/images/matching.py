"""A generator trained to have a given mean embedding: post-processing of one noisy release."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.core.observer import OnProgress
from reticent.core.trees import ArrayTree
from reticent.synthetic.images import networks

_HIDDEN = (200, 200)
_STEPS, _BATCH, _RATE = 2000, 500, 5e-3
_SHY = 0.1  # how far apart the first records are, of what they would be
_TOLD = 50  # progress reports


def match(
    target: np.ndarray,
    waves: np.ndarray,
    scales: np.ndarray,
    key: jax.Array,
    on_progress: OnProgress,
) -> Any:
    """Parameters of a generator whose records have nearly these mean features in each class.

    Args:
        target: (classes, 2 * waves), cosines then sines: the noisy means of each class.
        waves: (coordinates, waves), the random frequencies.
        scales: (coordinates,), what the generator's outputs are multiplied by before the features.

    Reference:
        Harder, Adamczewski and Park (2021), arXiv:2002.11603, with every class
        counted alike.
    """
    classes, width = len(target), waves.shape[1]
    params = networks.new(key, networks.generator_starts(classes, _HIDDEN, len(scales)))
    last = f"dense{len(_HIDDEN)}"
    params[last]["w"] *= _SHY  # near the centre: where no record is, waves cancel out and nothing is learned
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, _STEPS))
    goal, waves_, scales_ = (jnp.asarray(part, jnp.float32) for part in (target, waves, scales))
    draws = jax.random.fold_in(key, 1)

    def distance(params: ArrayTree, key: jax.Array) -> jax.Array:
        noise = jax.random.normal(key, (_BATCH // classes * classes, networks.NOISE))
        labels = jnp.arange(len(noise)) % classes
        u = scales_ * networks.generate(params, noise, labels, classes)
        angles = u @ waves_
        features = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1) / jnp.sqrt(1.0 * width)
        means = jax.nn.one_hot(labels, classes).T @ features * (classes / len(noise))
        return jnp.sum(jnp.square(means - goal))

    @jax.jit
    def steps(params: ArrayTree, state: ArrayTree, start: jax.Array) -> tuple[Any, Any]:
        def one(carry: tuple[Any, Any], step: jax.Array) -> tuple[tuple[Any, Any], None]:
            params, state = carry
            gradient = jax.grad(distance)(params, jax.random.fold_in(draws, step))
            updates, state = optimizer.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(one, (params, state), start + jnp.arange(_STEPS // _TOLD))[0]

    state = optimizer.init(params)
    for number in range(_TOLD):
        params, state = jax.block_until_ready(steps(params, state, jnp.int32(number * (_STEPS // _TOLD))))
        on_progress((number + 1) / _TOLD)
    return params
