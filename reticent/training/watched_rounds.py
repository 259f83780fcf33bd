"""Rounds of federated learning as those see them who might be curious: for attacks on one's own plans.

The clients that are watched are in every round: the most that anybody sees of them. Noise is that of the
plan, drawn for a measurement and thrown away, so it need not be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.training.contributions import user_table
from reticent.training.local_training import LocalTraining, client_update
from reticent.training.loss_keys import AnyLoss
from reticent.training.plan import Plan

_AT_ONCE = 16  # clients


class WatchedRound(NamedTuple):
    """A round: the model that was sent, and what came of it, clipped and flat.

    Args:
        alone: of each watched client: what a trusted server sees.
        noised_alone: with all the noise of the plan on each of them.
        mean: of all clients of the round: what a server sees that adds up securely, without noise.
        noised_mean: what everybody sees.
    """

    params: Any
    alone: Float[np.ndarray, "watched numbers"]
    noised_alone: Float[np.ndarray, "watched numbers"]
    mean: Float[np.ndarray, " numbers"]
    noised_mean: Float[np.ndarray, " numbers"]

    @property
    def views(self) -> dict[str, np.ndarray]:
        """Each with a row for every watched client."""
        rows = len(self.alone)
        return {
            "one client": self.alone,
            "one client with noise": self.noised_alone,
            "a sum": np.broadcast_to(self.mean, (rows, len(self.mean))),
            "a sum with noise": np.broadcast_to(self.noised_mean, (rows, len(self.mean))),
        }


def watch_rounds(
    loss: AnyLoss,
    params: ArrayTree,
    rows: dict[str, np.ndarray],
    users: np.ndarray,
    plan: Plan,
    local: LocalTraining,
    *,
    watched: int,
    rounds: int,
    seed: int,
) -> list[WatchedRound]:
    """Simulates rounds in which the first `watched` clients, in the order of their names, are always asked.

    Args:
        seed: of the other clients, of local training and of noise. For measurements alone.
    """
    own = user_table(users, plan.rows_per_user or 1)
    if not 0 < watched <= len(own[0]):
        raise InvalidArgument(
            f"Of {len(own[0])} clients, {watched} cannot be watched.", remedy="Watch fewer, one at least."
        )
    random = np.random.default_rng(seed)
    update = updates_of(loss, local, rows)
    count = max(min(round(plan.sampler.batch_size), len(own[0])), watched)
    flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, params))
    found = []
    for _ in range(rounds):
        others = random.permutation(np.arange(watched, len(own[0])))[: count - watched]
        chosen = np.concatenate([np.arange(watched), others])
        model = unravel(flat)
        sent = clip_each(update(model, own[0][chosen], own[1][chosen], random), plan.clipping.sensitivity)
        deviation = plan.noise_multiplier * plan.clipping.sensitivity
        noise = deviation * random.standard_normal((watched + 1, sent.shape[1]))
        mean = sent.mean(axis=0)
        noised = mean + noise[-1] / len(chosen)
        found.append(WatchedRound(model, sent[:watched], sent[:watched] + noise[:-1], mean, noised))
        flat = flat + jnp.asarray(noised, flat.dtype)
    return found


def updates_of(loss: AnyLoss, local: LocalTraining, rows: dict[str, np.ndarray]) -> Callable[..., np.ndarray]:
    """A function of a model, places of rows and which of them count, one client each: flat updates."""
    held = {name: jnp.asarray(column) for name, column in rows.items()}

    @jax.jit
    def compiled(model: Any, members: jax.Array, is_real: jax.Array, seeds: jax.Array) -> jax.Array:
        def one(each: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            own = jax.tree.map(lambda leaf: leaf[each[0]], held)
            return ravel_pytree(client_update(loss, local, model, own, each[1], each[2])[0])[0]

        return jax.lax.map(one, (members, is_real, seeds), batch_size=_AT_ONCE)

    def updates(
        model: Any, members: np.ndarray, is_real: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        seeds = random.integers(2**32, size=(len(members), 2), dtype=np.uint32)
        found = compiled(model, jnp.asarray(members), jnp.asarray(is_real), jnp.asarray(seeds))
        return np.asarray(found, np.float64)

    return updates


def clip_each(updates: np.ndarray, max_norm: float) -> np.ndarray:
    """Each at most so long; what is not finite is zero."""
    finite = np.where(np.isfinite(updates).all(axis=1, keepdims=True), updates, 0)
    lengths = np.linalg.norm(finite, axis=1, keepdims=True)
    return finite * np.minimum(1, max_norm / np.maximum(lengths, 1e-300))
