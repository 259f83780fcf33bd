"""Choices among scores: their probabilities, what rounding the scores costs, and what is refused.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.mechanisms import selection
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ExponentialMechanism, Gaussian, PureDp
from reticent.mechanisms.selection import exponential_mechanism, noisy_max_gaussian, noisy_max_laplace

DRAWS = 20_000
RARE = 1e-6  # a false alarm of each statistical test


def key(seed: int = 0) -> jax.Array:
    return Keys.seeded(seed).take(Stream.NOISE)


def rows(scores: list[float]) -> np.ndarray:
    return np.tile(scores, (DRAWS, 1))


def chance(chosen: jax.Array, exact: np.ndarray) -> float:
    seen = np.bincount(np.asarray(chosen), minlength=len(exact))
    return stats.chisquare(seen, exact / exact.sum() * DRAWS).pvalue


@pytest.mark.parametrize(
    ("adjacency", "is_monotone", "divisor"),
    [
        (Adjacency.ADD_OR_REMOVE, False, 2),
        (Adjacency.ADD_OR_REMOVE, True, 1),
        (Adjacency.REPLACE, False, 4),
    ],
)
def test_exponential_mechanism_has_the_published_probabilities(adjacency, is_monotone, divisor) -> None:
    scores = [0.0, 1.0, 2.0, 1.5]
    event = ExponentialMechanism(epsilon=2.0, adjacency=adjacency)
    found = exponential_mechanism(key(), rows(scores), event, max_change=0.5, is_monotone=is_monotone)
    assert chance(found, np.exp(2.0 * np.asarray(scores) / (divisor * 0.5))) > RARE
    assert chance(found, np.exp(4.0 * np.asarray(scores) / (divisor * 0.5))) < RARE  # planted: halved


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1.0, 1.0),
    st.floats(1e-3, 1e3),
    st.floats(1e-4, 1e2),
    st.sampled_from(list(Adjacency)),
)
def test_a_record_moves_a_rounded_score_by_epsilon_over_2_at_most(
    score: float, share: float, max_change: float, epsilon: float, adjacency: Adjacency
) -> None:
    told = {}

    def spied(source, steps, unit):
        told["steps"], told["unit"] = [int(step) for step in steps], unit
        return np.int64(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "choose_whole", spied)
        reach = Fraction(max_change) * adjacency.reach
        moved = float(Fraction(score) + Fraction(share) * reach)
        if abs(Fraction(moved) - Fraction(score)) > reach:  # float addition went too far
            return
        exponential_mechanism(
            key(),
            [score, moved],
            ExponentialMechanism(epsilon=epsilon, adjacency=adjacency),
            max_change=max_change,
        )
    first, second = told["steps"]
    assert abs(first - second) * told["unit"] * 2 <= Fraction(epsilon)


def test_noisy_max_of_two_equals_its_closed_form() -> None:
    scores = rows([0.0, 1.0])
    found = noisy_max_laplace(key(), scores, PureDp(epsilon=1.0), max_change=1.0)

    def laplace(b: float) -> np.ndarray:
        """P(Lap(b) + 1 > Lap(b)') for a gap of 1: 1 - e^(-1/b) (2 + 1/b) / 4."""
        wins = 1 - np.exp(-1 / b) * (2 + 1 / b) / 4
        return np.array([1 - wins, wins])

    assert chance(found, laplace(2.0)) > RARE
    assert chance(found, laplace(1.0)) < RARE  # planted: without the factor 2
    found = noisy_max_laplace(key(), scores, PureDp(epsilon=1.0), max_change=1.0, is_monotone=True)
    assert chance(found, laplace(1.0)) > RARE
    replace = PureDp(epsilon=1.0, adjacency=Adjacency.REPLACE)
    assert chance(noisy_max_laplace(key(), scores, replace, max_change=1.0), laplace(4.0)) > RARE
    normal = noisy_max_gaussian(key(), scores, Gaussian(noise_multiplier=2.0), max_norm=1.0)

    def gaussian(sigma: float) -> np.ndarray:
        wins = float(ndtr(1 / (sigma * np.sqrt(2))))
        return np.array([1 - wins, wins])

    assert chance(normal, gaussian(2.0)) > RARE
    assert chance(normal, gaussian(1.0)) < RARE  # planted: half the noise


def test_scores_are_compared_on_a_grid() -> None:
    """Scores that differ by less than half a step are the same score: the first of them is chosen."""
    event = PureDp(epsilon=1e9)
    assert int(noisy_max_laplace(key(), [0.25, 0.25 + 2.0**-40], event, max_change=1.0)) == 0
    assert int(noisy_max_laplace(key(), [0.25, 0.25 + 2.0**-20], event, max_change=1e-3)) == 1


def test_no_score_is_monotone_when_records_are_replaced() -> None:
    event = ExponentialMechanism(epsilon=1.0, adjacency=Adjacency.REPLACE)
    with pytest.raises(InvalidArgument, match="monotone"):
        exponential_mechanism(key(), jnp.zeros(2), event, max_change=1.0, is_monotone=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_refused(bad: float) -> None:
    scores = jnp.array([0.0, bad])
    with pytest.raises(InvalidArgument):
        exponential_mechanism(key(), scores, ExponentialMechanism(epsilon=1.0), max_change=1.0)
    with pytest.raises(InvalidArgument):
        noisy_max_laplace(key(), scores, PureDp(epsilon=1.0), max_change=1.0)
    with pytest.raises(InvalidArgument):
        noisy_max_gaussian(key(), scores, Gaussian(noise_multiplier=1.0), max_norm=1.0)


def test_choices_are_not_made_inside_a_compiled_function() -> None:
    def chosen(scores: jax.Array) -> jax.Array:
        return exponential_mechanism(key(), scores, ExponentialMechanism(epsilon=1.0), max_change=1.0)

    with pytest.raises(InvalidArgument, match="on the host"):
        jax.jit(chosen)(jnp.zeros(3))
