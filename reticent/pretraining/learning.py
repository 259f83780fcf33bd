"""Ordinary training of a network on public images: no clipping, no noise, no privacy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.core.observer import OnProgress
from reticent.core.trees import ArrayTree
from reticent.data.augmentation import chain, random_flip, random_shift
from reticent.models.losses import classification_loss
from reticent.models.model import Model
from reticent.pretraining.overlap import row_hashes
from reticent.pretraining.progress import read_progress, write_progress

BATCH = 128
_RATE = 0.2
_MOMENTUM = 0.9
_DECAY = 5e-4
_SHIFT = 3  # pixels
_STEPS_TOLD = 10
_SECONDS_KEPT = 60.0  # of work that a crash may cost


class PublicTraining(NamedTuple):
    """Parameters, and the share of public rows that were held out which they get right."""

    params: Any
    accuracy: float | None


def learn_without_privacy(
    model: Model,
    images: np.ndarray,
    labels: np.ndarray,
    *,
    epochs: int,
    seed: int = 0,
    kept: Path | None = None,
    on_progress: OnProgress | None = None,
) -> PublicTraining:
    """Stochastic descent with momentum on public images, a twentieth of which judges the result.

    Flips and shifts change each image at random. The rate rises over the first tenth of the steps, and falls
    to zero. NOT private: the parameters may tell of every image.

    Args:
        kept: a file for the state of unfinished training, with which it goes on when it is called again with
            the same data.
    """
    order = np.random.default_rng(seed).permutation(len(images))
    held_out, train_on = np.split(order, [len(images) // 20])
    steps = max(epochs * (len(train_on) // BATCH), 1)
    schedule = optax.cosine_onecycle_schedule(steps, _RATE, pct_start=0.1)
    optimizer = optax.chain(
        optax.add_decayed_weights(_DECAY), optax.sgd(schedule, momentum=_MOMENTUM, nesterov=True)
    )
    loss = classification_loss(model)
    change = chain(random_flip, random_shift(_SHIFT))

    def mean_loss(params: ArrayTree, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        keys = jax.random.split(key, len(x))
        rows = jax.vmap(change)(keys, {"x": x, "y": y})
        return jnp.mean(jax.vmap(loss, in_axes=(None, 0))(params, rows))

    # One step per call: inside a compiled loop XLA gives a convolution one core, and a slow one.
    @jax.jit
    def take(
        params: ArrayTree, state: ArrayTree, key: jax.Array, x: jax.Array, y: jax.Array
    ) -> tuple[Any, Any]:
        updates, state = optimizer.update(jax.grad(mean_loss)(params, key, x, y), state, params)
        return optax.apply_updates(params, updates), state

    params = model.init(jax.random.key(seed))
    state = optimizer.init(params)
    what = f"{epochs} epochs of {len(images)} images, seed {seed}, {row_hashes(images[:100]).tobytes().hex()}"
    done, (params, state) = read_progress(kept, what, (params, state))
    key = jax.random.key(seed + 1)
    written = time.monotonic()
    for step, rows in _batches(train_on, steps, seed, done):
        params, state = take(params, state, jax.random.fold_in(key, step), images[rows], labels[rows])
        if on_progress is not None and step % _STEPS_TOLD == _STEPS_TOLD - 1:
            jax.block_until_ready(params)
            on_progress((step + 1) / steps)
        if kept is not None and time.monotonic() - written > _SECONDS_KEPT:
            write_progress(kept, what, step + 1, (params, state))
            written = time.monotonic()
    return PublicTraining(params, _accuracy(model, params, images[held_out], labels[held_out]))


def _batches(rows: np.ndarray, steps: int, seed: int, done: int) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of each step that is not done: every epoch in an order of its own."""
    count = min(BATCH, len(rows))
    an_epoch = len(rows) // count
    order = rows
    for step in range(done, steps):
        epoch, at = divmod(step, an_epoch)
        if at == 0 or step == done:
            order = np.random.default_rng([seed, epoch]).permutation(rows)
        yield step, order[at * count : (at + 1) * count]


def _accuracy(model: Model, params: ArrayTree, images: np.ndarray, labels: np.ndarray) -> float | None:
    if not len(images):
        return None
    apply = jax.jit(jax.vmap(model.apply, in_axes=(None, 0)))
    found = [
        np.asarray(apply(params, images[at : at + 500])).argmax(axis=1) for at in range(0, len(images), 500)
    ]
    return float(np.mean(np.concatenate(found) == labels))
