"""The records that an attack on a run is played with, and how its model is asked about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.attacks.scores import FEWEST
from reticent.attacks.shadows.recipes import add_noise
from reticent.core.errors import DataError
from reticent.core.trees import ArrayTree
from reticent.data.encoding import has_target
from reticent.runs.arrays import Arrays
from reticent.runs.reopen import Again

MOST = 2500  # records on each side: more would not change what a reader sees
DISTURBED = 0.1  # the deviation of the noise on inputs, for the label-only attack
COPIES = 8  # of each record, with that noise

_ROWS_AT_ONCE = 2048


class Pool(NamedTuple):
    """Records to attack, members first, and those that every model is trained on."""

    records: Arrays
    always: Arrays
    is_member: np.ndarray
    members: np.ndarray
    outsiders: np.ndarray


def require_classes(again: Again, what: str) -> None:
    if not again.problem.is_classification:
        raise DataError(
            f"{what} needs classes, and this run predicts a number.",
            remedy="Attack a run with a class as its target.",
        )


def pool_of(again: Again) -> Pool:
    """Chooses as many members as outsiders; the other members are in every shadow model's training set.

    Raises:
        DataError: there are too few rows on a side.
    """
    owners = (None, None) if again.users is None else again.users
    inside, outside = (
        _one_row_each(np.flatnonzero(has_target(part["y"])), users)
        for part, users in zip((again.train_on, again.held_out), owners, strict=True)
    )
    count = min(len(inside), len(outside), MOST)
    if count < FEWEST:
        counted = "rows" if again.users is None else "users"
        raise DataError(
            f"{len(inside)} {counted} to train on and {len(outside)} held out are too few to attack with.",
            remedy=f"Attack a run with at least {FEWEST} of each.",
        )
    chance = np.random.default_rng(0)
    members, outsiders = (np.sort(chance.permutation(rows)[:count]) for rows in (inside, outside))
    others = np.setdiff1d(np.arange(len(again.train_on["y"])), members)
    records = {
        key: np.concatenate([again.train_on[key][members], again.held_out[key][outsiders]])
        for key in ("x", "y")
    }
    always = {key: again.train_on[key][others] for key in ("x", "y")}
    return Pool(records, always, np.repeat([True, False], count), members, outsiders)


def _one_row_each(rows: np.ndarray, users: np.ndarray | None) -> np.ndarray:
    """The first row of each user: rows of one user are alike, and would count as independent evidence."""
    if users is None:
        return rows
    return rows[np.sort(np.unique(users[rows], return_index=True)[1])]


def ask_about_pool(again: Again, pool: Pool) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    """Makes a function from parameters to logits, and to how often the label stays right under noise.

    Every model is asked about the same noisy copies.
    """
    x, y = jnp.asarray(pool.records["x"]), jnp.asarray(pool.records["y"])
    disturb, root = add_noise(DISTURBED), jax.random.key(1, impl="threefry2x32")
    rows = min(_ROWS_AT_ONCE, len(y))

    @jax.jit
    def ask(params: ArrayTree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        def answers(inputs: jax.Array) -> jax.Array:
            return jax.lax.map(lambda one: again.learner.scores(params, one), inputs, batch_size=rows)

        def count_right(right: jax.Array, copy: jax.Array) -> tuple[jax.Array, None]:
            keys = jax.random.split(jax.random.fold_in(root, copy), len(y))
            return right + (jnp.argmax(answers(jax.vmap(disturb)(keys, x)), axis=-1) == y), None

        right, _ = jax.lax.scan(count_right, jnp.zeros(len(y), jnp.float32), jnp.arange(COPIES))
        return answers(x).astype(jnp.float32), right / COPIES

    def ask_with_numpy(params: ArrayTree) -> tuple[np.ndarray, np.ndarray]:
        logits, robustness = ask(jax.tree.map(jnp.asarray, params), x, y)  # never constants of a program
        return np.asarray(logits), np.asarray(robustness)

    return ask_with_numpy
