"""Randomised response: each respondent blurs the own answer before anybody sees it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from reticent.mechanisms.events import RandomizedResponse


def randomize(key: jax.Array, answers: jax.Array, event: RandomizedResponse) -> jax.Array:
    """Keeps each answer (a whole number below `event.choices`) with probability `event.truth`.

    Otherwise one of the others is given, each equally likely.

    Guarantee:
        Each blurred answer costs its respondent `event`: ln(truth / lie) of pure epsilon.
    """
    coin_key, other_key = jax.random.split(key)
    answers = jnp.asarray(answers)
    is_true = jax.random.bernoulli(coin_key, event.truth, answers.shape)
    step = jax.random.randint(other_key, answers.shape, 1, event.choices)
    return jnp.where(is_true, answers, (answers + step) % event.choices)


def estimate_shares(blurred: jax.Array, event: RandomizedResponse) -> jax.Array:
    """The unbiased estimate of how many gave each answer, as shares; post-processing, so free.

    Shares of rare answers may come out slightly negative.
    """
    lie = (1 - event.truth) / (event.choices - 1)
    seen = jnp.bincount(jnp.asarray(blurred), length=event.choices) / jnp.size(blurred)
    return (seen - lie) / (event.truth - lie)
