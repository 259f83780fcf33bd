"""Scores of canaries: how much more likely what was released is with the canary than without it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.audit.canaries import Absence, Canaries
from reticent.core.trees import ArrayTree
from reticent.training.gradients import LossFunction
from reticent.training.plan import Plan


class ScoringState(NamedTuple):
    """The state of an optimizer that also keeps score."""

    optimizer: Any
    scores: jax.Array  # one a gradient canary


def log_likelihood_ratio(noisy: Any, *, rate: float, noise_multiplier: float, absence: Absence) -> Any:
    """What one step's noisy sums say for each canary: the logarithm of how much likelier they are with it.

    Args:
        noisy: the entry of each canary in the noisy sum, in units of the clipping norm.
        rate: the probability that a record is in the batch.

    Summed over steps it is the best score there is for an attacker who knows all but the coins, as long as no
    other record reaches those entries. Any score is valid; this one shows most.
    """
    variance = noise_multiplier**2
    stay = math.log1p(-rate) if rate < 1 else -math.inf

    def against_nobody(value: Any) -> Any:
        return jnp.logaddexp(stay, math.log(rate) + (value - 0.5) / variance)

    if absence == "opposite":
        return against_nobody(noisy) - against_nobody(-noisy)
    return against_nobody(noisy)


def with_canary_scores(
    optimizer: optax.GradientTransformation, canaries: Canaries, plan: Plan
) -> optax.GradientTransformation:
    """The same optimizer of the model, which sees each noisy gradient pass and keeps the canaries' scores.

    What it sees is what the step releases: scores are post-processing, and cost nothing more.
    """
    placement, in_units = canaries.placement, plan.sampler.batch_size / plan.clipping.sensitivity
    rate = plan.sampler.batch_size / plan.sampler.examples

    def init(params: ArrayTree) -> ScoringState:
        return ScoringState(optimizer.init(placement.model(params)), jnp.zeros(len(canaries.included)))

    def update(updates: ArrayTree, state: ArrayTree, params: ArrayTree = None) -> tuple[Any, ScoringState]:
        noisy = placement.entries(updates) * in_units
        seen = log_likelihood_ratio(
            noisy, rate=rate, noise_multiplier=plan.noise_multiplier, absence=canaries.absence
        )
        moves, inner = optimizer.update(placement.model(updates), state.optimizer, placement.model(params))
        return placement.extend_updates(params, moves), ScoringState(inner, state.scores + seen)

    return optax.GradientTransformation(init, update)


def loss_scores(loss: LossFunction, before: Any, after: Any, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """How much training lowered the loss of each input canary: all that a black box shows."""
    rows = {key: jnp.asarray(array) for key, array in inputs.items()}

    @jax.jit
    def losses(params: ArrayTree, rows: dict[str, jax.Array]) -> jax.Array:
        return jax.lax.map(lambda row: jnp.float32(loss(params, row)), rows, batch_size=256)

    fallen = np.asarray(losses(before, rows), np.float64) - np.asarray(losses(after, rows), np.float64)
    return np.nan_to_num(fallen, nan=0.0, posinf=0.0, neginf=0.0)
