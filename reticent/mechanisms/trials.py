"""How many runs to try: drawn before the first one, and told to nobody."""

from __future__ import annotations

import math

import jax
import numpy as np

from reticent.mechanisms.events import BestOfTrials

_NEGLIGIBLE = 1e-20  # a probability below which no further run is thought of


def draw_trials(key: jax.Array, event: BestOfTrials) -> int:
    """A number of runs, from the distribution that the event's accounting is about.

    By inverting the distribution function at a number with 64 random bits, in float64.
    """
    high, low = (int(word) for word in np.asarray(jax.random.bits(key, (2,), np.uint32)))
    wanted = ((high << 32) + low + 0.5) / 2.0**64
    count, probability = 1, _of_one(event)
    below = probability
    while below < wanted and probability > _NEGLIGIBLE:
        probability *= (1 - event.gamma) * (count + event.shape) / (count + 1)
        count += 1
        below += probability
    return count


def _of_one(event: BestOfTrials) -> float:
    """The probability of a single run: shape (1 - gamma) / (gamma^-shape - 1), and its limit at shape 0."""
    log = -math.log(event.gamma)
    return (1 - event.gamma) * (event.shape / math.expm1(event.shape * log) if event.shape else 1 / log)
