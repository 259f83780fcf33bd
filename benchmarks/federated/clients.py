"""Images, their clients, and the updates of a round."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import reticent as rt
from reticent.core.keys import Stream
from reticent.data import catalog
from reticent.models import accuracy, classification_loss, mlp
from reticent.training.contributions import user_table
from reticent.training.local_training import LocalTraining, client_update

FIRST_SEED, CLASSES = 1000, 10


class Options(NamedTuple):
    """What a call asks for.

    Args:
        is_full: whole images, all rows, the published model; else a fifth of the rows, halved images.
    """

    datasets: tuple[str, ...]
    is_full: bool
    rounds: int | None
    seeds: int


class Images(NamedTuple):
    x: np.ndarray  # (rows, height, width) float32 in [0, 1]
    y: np.ndarray  # (rows,) int32

    def rows(self) -> dict[str, np.ndarray]:
        return {"x": self.x, "y": self.y}

    @property
    def pixels(self) -> int:
        return int(np.prod(self.x.shape[1:]))


def images_of(dataset: str, *, rows: int | None = None, is_halved: bool = False) -> tuple[Images, Images]:
    """The training and the test images; of the first, so many."""
    splits = catalog.load(dataset)

    def taken(part: Any, count: int | None) -> Images:
        x = np.asarray(part["x"][:count], np.float32) / 255
        if is_halved:  # means of four pixels: the same for everybody, and of one image alone
            height, width = x.shape[1:]
            x = x.reshape(len(x), height // 2, 2, width // 2, 2).mean((2, 4))
        return Images(x, np.asarray(part["y"][:count], np.int32))

    return taken(splits.train, rows), taken(splits.test, None)


class Task(NamedTuple):
    """A model of images, its loss and its accuracy."""

    model: Any
    loss: Any
    right: Any

    @classmethod
    def of(cls, pixels: int, *hidden: int) -> Task:
        model = mlp((pixels, *hidden, CLASSES))
        return cls(model, classification_loss(model), accuracy(model))

    def start(self, seed: int) -> Any:
        return self.model.init(rt.Keys.seeded(FIRST_SEED + seed).take(Stream.INITIALISATION))

    def share_right(self, params: Any, images: Images) -> float:
        values = jax.jit(jax.vmap(self.right, (None, 0)))(params, images.rows())
        return float(np.mean(np.asarray(values, np.float64)))


def said(values: list[float], percent: bool = False) -> str:
    """A mean, and its deviation over seeds where there are several."""
    scale, digits = (100, 1) if percent else (1, 3)
    middle = f"{scale * mean(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ± {scale * stdev(values):.{digits}f}"


class Round(NamedTuple):
    """The compiled part of a round: the update of every client, one row each."""

    updates: Callable[[Any, jax.Array], np.ndarray]
    clients: int


def rounds_of(
    task: Task, rows: dict[str, np.ndarray], owners: np.ndarray, local: LocalTraining, most: int
) -> Round:
    members, is_real = user_table(owners, most)
    held = {name: jnp.asarray(column) for name, column in rows.items()}

    def one(params: Any, rows: jax.Array, is_real: jax.Array, seed: jax.Array) -> jax.Array:
        own = jax.tree.map(lambda leaf: leaf[rows], held)
        return ravel_pytree(client_update(task.loss, local, params, own, is_real, seed)[0])[0]

    @jax.jit
    def all_of_them(params: Any, key: jax.Array) -> jax.Array:
        seeds = jax.random.bits(key, (len(members), 2), jnp.uint32)
        return jax.lax.map(
            lambda each: one(params, *each),
            (jnp.asarray(members), jnp.asarray(is_real), seeds),
            batch_size=25,
        )

    return Round(lambda params, key: np.asarray(all_of_them(params, key), np.float64), len(members))


def is_private(epsilon: float) -> bool:
    return math.isfinite(epsilon)
