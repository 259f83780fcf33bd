"""Randomised response: each respondent blurs their own answer before anybody sees it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from reticent.core.errors import InvalidArgument
from reticent.mechanisms.events import RandomizedResponse
from reticent.mechanisms.host import source_of
from reticent.mechanisms.whole import draw_below, flip


def randomize(key: Key[Array, ""], answers: Any, event: RandomizedResponse) -> Int[Array, "*answers"]:
    """Keeps each answer (a whole number below `event.choices`) with probability `event.truth`.

    Otherwise one of the others is given, each equally likely.

    Guarantee:
        Each blurred answer costs its respondent `event`: ln(truth / lie) of pure epsilon, up to 2^-64. The
        coin is 80 random bits against a threshold, the other answer 96 bits times how many there are.

    Raises:
        InvalidArgument: an answer is not one of the choices, or JAX is compiling this.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)  # Keys.from_os() in a real run
        >>> randomize(key, [0, 1, 1], RandomizedResponse(truth=1.0)).tolist()
        [0, 1, 1]
    """
    source = source_of(key, answers)
    answers = np.asarray(answers)
    if answers.dtype.kind not in "iu" or np.any((answers < 0) | (answers >= event.choices)):
        raise InvalidArgument(
            f"Some answers are not whole numbers from 0 to {event.choices - 1}.",
            remedy="Number the choices from 0, or declare more choices.",
        )
    is_true = flip(source, event.truth, answers.shape)
    step = 1 + draw_below(source, event.choices - 1, answers.shape)
    answered = (answers.astype(np.int64) + np.where(is_true, 0, step)) % event.choices
    return jnp.asarray(answered.astype(np.int32))


def estimate_shares(blurred: Int[Array, " answers"], event: RandomizedResponse) -> Float[Array, " choices"]:
    """The unbiased estimate of how many gave each answer, as shares; post-processing, so free.

    Shares of rare answers may come out slightly negative.

    Example:
        >>> estimate_shares(jnp.array([0, 1, 1, 1]), RandomizedResponse(truth=0.75)).tolist()
        [0.0, 1.0]
    """
    lie = (1 - event.truth) / (event.choices - 1)
    seen = jnp.bincount(jnp.asarray(blurred), length=event.choices) / jnp.size(blurred)
    return (seen - lie) / (event.truth - lie)
