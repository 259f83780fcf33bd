"""Rounding by chance: an exact table, the right law, and nothing told about the fraction under noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import exp, log, mp, mpf
from scipy.special import chdtrc

from reticent.core.alias import FEWEST, OUTCOME_BITS, OUTCOME_FIRST_BITS, rounding_masses, rounding_table
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.whole_normals import DrawPart
from reticent.core.whole_rounding import FARTHEST, round_normally

FRACTIONS = (0, 1, 77, 128, 255)
COUNT, FALSE_ALARM = 1 << 16, 1e-6


def deviation() -> mpf:
    return mpf(8) / 5


def law(centre: mpf, spread: mpf, reach: int) -> dict[int, mpf]:
    """The discrete normal law around any number."""
    weights = {k: exp(-((k - centre) ** 2) / (2 * spread**2)) for k in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


@pytest.fixture(autouse=True)
def _precise() -> None:
    mp.dps = 50


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_masses_are_the_law_within_two_to_the_minus_73(fraction: int) -> None:
    masses, wanted = rounding_masses(fraction), law(mpf(fraction) / 256, deviation(), 60)
    assert sum(masses) == 1 << 96
    assert min(masses) >= 0
    found = {FEWEST + at: mpf(mass) / mpf(2) ** 96 for at, mass in enumerate(masses)}
    distance = sum(abs(found.get(k, mpf(0)) - wanted[k]) for k in wanted) / 2
    assert log(distance, 2) < -73


def test_the_table_is_exactly_the_masses() -> None:
    first, second, third = (column.astype(object) for column in rounding_table())
    outcomes = 1 << OUTCOME_BITS
    for fraction in FRACTIONS:
        found = [0] * outcomes
        for own in range(outcomes):
            cell = fraction * outcomes + own
            threshold = (
                ((first[cell] & ((1 << OUTCOME_FIRST_BITS) - 1)) << 64) | (second[cell] << 32) | third[cell]
            )
            alias = first[cell] >> OUTCOME_FIRST_BITS
            found[own] += threshold
            found[alias] += (1 << (96 - OUTCOME_BITS)) - threshold
        assert found == list(rounding_masses(fraction))


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_with_whole_noise_it_is_post_processing_of_a_real_normal_number(fraction: int) -> None:
    """The two steps of the proof in docs/arithmetic.md, with noise of deviation 40 in the place of 102,400.

    What is rounded plus whole noise has the discrete normal law around the fraction itself; and a real
    normal number, rounded by the same rule, has that law too. Both within twice e(t) = 2 sum exp(-2 pi^2 t^2
    m^2).
    """
    centre, noise, reach = mpf(fraction) / 256, mpf(40), 480
    rounded, whole = law(centre, deviation(), 40), law(mpf(0), noise, reach)
    wanted = law(centre, mp.sqrt(noise**2 + deviation() ** 2), reach)
    t = noise * deviation() / mp.sqrt(noise**2 + deviation() ** 2)
    bound = 4 * exp(-2 * mp.pi**2 * t**2)
    for k in range(-100, 101, 7):
        found = sum(rounded[j] * whole[k - j] for j in rounded)
        assert abs(found / wanted[k] - 1) < bound
    assert log(4 * exp(-2 * mp.pi**2 * deviation() ** 2), 2) < -70


def key(step: int) -> jax.Array:
    return step_key(Keys.seeded(3).take(Stream.NOISE, steps=range(10)), step)


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_drawn_numbers_follow_the_masses(fraction: int) -> None:
    drawn = np.asarray(round_normally(key(0), jnp.full(COUNT, fraction, jnp.int32)))
    assert np.abs(drawn - fraction / 256).max() < FARTHEST
    expected = np.array([float(mpf(mass) / mpf(2) ** 96) for mass in rounding_masses(fraction)]) * COUNT
    counts = np.bincount(drawn - FEWEST, minlength=len(expected))
    usual = expected > 20
    square = np.sum((counts - expected)[usual] ** 2 / expected[usual])
    assert chdtrc(usual.sum() - 1, square) > FALSE_ALARM


def test_a_part_is_that_of_the_longer_draw_and_stages_differ() -> None:
    fractions = jnp.arange(300, dtype=jnp.int32) % 256
    whole = np.asarray(round_normally(key(1), fractions))
    part = np.asarray(round_normally(key(1), fractions[100:170], part=DrawPart(100, 300)))
    assert np.array_equal(part, whole[100:170])
    assert not np.array_equal(whole, np.asarray(round_normally(key(1), fractions, stage=1)))
    assert not np.array_equal(whole, np.asarray(round_normally(key(2), fractions)))
