"""Randomised response: how often the truth is told, and what it refuses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.mechanisms.events import RandomizedResponse
from reticent.mechanisms.response import estimate_shares, randomize

DRAWS = 20_000
RARE = 1e-6  # a false alarm of each statistical test


def key(seed: int = 0) -> jax.Array:
    return Keys.seeded(seed).take(Stream.NOISE)


@pytest.mark.parametrize("choices", [2, 5])
def test_randomised_response_keeps_the_truth_as_often_as_it_says(choices: int) -> None:
    event = RandomizedResponse(truth=0.6, choices=choices)
    blurred = np.asarray(randomize(key(), jnp.full(DRAWS, choices - 1), event))
    seen = np.bincount(blurred, minlength=choices)

    def chance(truth: float) -> float:
        exact = np.append(np.full(choices - 1, (1 - truth) / (choices - 1)), truth)
        return stats.chisquare(seen, exact * DRAWS).pvalue

    assert chance(0.6) > RARE
    assert chance(0.65) < RARE  # planted: more truth than was paid for
    estimated = np.asarray(estimate_shares(jnp.asarray(blurred), event))
    assert estimated[-1] == pytest.approx(1.0, abs=0.05)
    assert estimated.sum() == pytest.approx(1.0, abs=1e-4)


def test_every_answer_is_turned_into_every_other() -> None:
    event = RandomizedResponse(truth=1 / 3, choices=3)
    told = np.asarray(randomize(key(), np.repeat(np.arange(3), 10_000), event)).reshape(3, -1)
    for row in told:
        assert stats.chisquare(np.bincount(row, minlength=3)).pvalue > RARE


@pytest.mark.parametrize("answers", [[0, 3], [-1], [0.5]])
def test_what_is_no_choice_is_refused(answers: list) -> None:
    """An answer outside the choices would be told as it is whenever the truth is."""
    with pytest.raises(InvalidArgument, match="from 0 to 2"):
        randomize(key(), np.array(answers), RandomizedResponse(truth=0.5, choices=3))


def test_answers_are_not_blurred_inside_a_compiled_function() -> None:
    with pytest.raises(InvalidArgument, match="on the host"):
        jax.jit(lambda x: randomize(key(), x, RandomizedResponse(truth=0.5)))(jnp.zeros(3, jnp.int32))
