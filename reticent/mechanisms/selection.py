"""Choosing one of several: the exponential mechanism and noisy maxima.

`max_change` is how much one record can add to or take from any score. Neighbours under replacement
move it twice as far, and the mechanisms account for that themselves.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ExponentialMechanism, Gaussian, PureDp


def exponential_mechanism(
    key: jax.Array,
    scores: jax.Array,
    event: ExponentialMechanism,
    *,
    max_change: float,
    is_monotone: bool = False,
) -> jax.Array:
    """The index of a score, with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    Sampled as the largest score plus Gumbel noise, which is the same distribution.

    Args:
        is_monotone: a record more never lowers a score (counts, for example). Then the factor 2 is not
            needed, under add-or-remove only.
    """
    scale = _scale(event.epsilon, event.adjacency, max_change, is_monotone=is_monotone)
    noisy = jnp.asarray(scores, jnp.float32) + scale * jax.random.gumbel(key, jnp.shape(scores))
    return jnp.argmax(noisy, axis=-1)


def noisy_max_laplace(
    key: jax.Array,
    scores: jax.Array,
    event: PureDp,
    *,
    max_change: float,
    is_monotone: bool = False,
) -> jax.Array:
    """The index of the largest score after Laplace noise of scale 2 sensitivity / epsilon on each.

    Guarantee:
        `event.epsilon`-DP, for the index alone (Dwork and Roth 2014, Claim 3.9, with the factor 2 for
        scores that may move both ways).
    """
    scale = _scale(event.epsilon, event.adjacency, max_change, is_monotone=is_monotone)
    noisy = jnp.asarray(scores, jnp.float32) + scale * jax.random.laplace(key, jnp.shape(scores))
    return jnp.argmax(noisy, axis=-1)


def noisy_max_gaussian(key: jax.Array, scores: jax.Array, event: Gaussian, *, max_norm: float) -> jax.Array:
    """The index of the largest score after Gaussian noise of `noise_multiplier * max_norm` on each.

    `max_norm` bounds one record's contribution to the whole vector of scores, in L2.

    Guarantee:
        Costs `event`: choosing the index is post-processing of the noisy scores.
    """
    checks.positive(max_norm=max_norm)
    noise = event.noise_multiplier * max_norm * jax.random.normal(key, jnp.shape(scores))
    return jnp.argmax(jnp.asarray(scores, jnp.float32) + noise, axis=-1)


def _scale(epsilon: float, adjacency: Adjacency, max_change: float, *, is_monotone: bool) -> float:
    checks.positive(max_change=max_change, epsilon=epsilon)
    if is_monotone and adjacency is Adjacency.REPLACE:
        raise InvalidArgument(
            "Replacing a record can raise one score and lower another, so no score is monotone under it.",
            remedy="Leave out is_monotone, or use adjacency 'add-or-remove'.",
        )
    return (1 if is_monotone else 2) * adjacency.reach * max_change / epsilon
