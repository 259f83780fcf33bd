"""What is printed is true of samplers, not only of laws: delta pays 1 + e^epsilon times for the distance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import (
    NEARLY_EXACT,
    OFF,
    RESERVED,
    USUAL,
    delta_left_for,
    delta_owed,
    is_paid,
)
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.convex.terms import ConvexTerms
from reticent.core.alias import HALF
from reticent.core.errors import CannotMeet
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDp,
    Repeated,
)
from reticent.mechanisms.whole import deviation_of, digits_of, laplace_grid, normal_grid

ONE = Neighbours(Adjacency.ADD_OR_REMOVE)


def impossible_for_laplace(noise: float) -> float:
    """The mass that a count one higher has where noise on the lower one ends."""
    step, scale = laplace_grid(1, max_norm=1.0, scale=noise, are_whole=True)
    inside = (1 << len(digits_of(scale))) - 1 - round(1 / step)
    ratio = math.exp(-1 / scale)
    return ratio ** (inside + 1) / (1 + ratio) if inside >= 0 else 1 - ratio**-inside / (1 + ratio)


def impossible_for_gaussian(noise: float) -> float:
    levels, step = normal_grid(1, max_norm=1.0, deviation=noise, are_whole=True)
    end = sum(HALF << (8 * level) for level in range(levels))
    return float(ndtr(-(end - 1 / step) / deviation_of(levels)))


def impossible_for_choices(epsilon: float) -> float:
    """Weights below 2^-160 are 0: a choice that lies behind by more is never made."""
    return 1 / (1 + math.exp(min(max(160 * math.log(2) - epsilon, 0.0), 700)))


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9, 1e-12])
@pytest.mark.parametrize("size", [1.0, 8.0, 20.0, 32.0, 48.0, 64.0, 100.0, 128.0, 1000.0])
def test_no_finite_claim_is_made_where_the_end_of_a_sampler_breaks_it(size: float, delta: float):
    noise = gaussian_dp.noise_multiplier(size, delta)
    cases: list[tuple[Event, float]] = [
        (Laplace(noise_multiplier=1 / size), impossible_for_laplace(1 / size)),
        (Gaussian(noise_multiplier=noise), impossible_for_gaussian(noise)),
        (ExponentialMechanism(epsilon=size), impossible_for_choices(size)),
    ]
    for event, impossible in cases:
        said = guarantee(event, delta)
        assert math.isinf(said.epsilon) or impossible <= delta / 2, event
        assert math.isfinite(said.epsilon) or size > 12, event


@settings(max_examples=30)
@given(
    noise=st.floats(0.2, 20),
    log_delta=st.floats(math.log(1e-14), math.log(1e-2)),
    distance=st.sampled_from([OFF, USUAL, 1e-11]),
)
def test_what_is_printed_is_paid_for_or_said(noise: float, log_delta: float, distance: float):
    event, delta = Gaussian(noise_multiplier=noise), math.exp(log_delta)
    said = guarantee(event, delta, distance=distance)
    if math.isinf(said.epsilon):
        return
    needed = delta_owed(distance, said.epsilon)
    if NEARLY_EXACT in said.assumptions:
        assert needed > delta / 4
        return
    assert needed <= delta / 2
    assert tight(event, delta - needed, Adjacency.ADD_OR_REMOVE).upper <= said.epsilon * (1 + 1e-9)
    assert said.epsilon_lower <= tight(event, delta, Adjacency.ADD_OR_REMOVE).upper * (1 + 2.0**-13)


def test_a_moderate_epsilon_does_not_change_visibly():
    event = Repeated(event=PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.1)), times=1000)
    said = guarantee(event, 1e-5)
    assert said.epsilon == pytest.approx(tight(event, 1e-5).upper, rel=1e-6)
    assert said.assumptions == ()


def test_many_releases_that_cost_little_each_are_claimed_and_what_they_rest_on_is_said():
    said = guarantee(Repeated(event=Gaussian(noise_multiplier=5.0), times=900), 1e-5)
    assert 35 < said.epsilon < 60
    assert said.assumptions == (NEARLY_EXACT,)
    assert "2^-60 (1 + e^epsilon)" in str(said)
    assert math.isinf(guarantee(Gaussian(noise_multiplier=5.0 / 30), 1e-5).epsilon)


def test_a_claim_that_was_proved_elsewhere_has_no_sampler():
    said = guarantee(PureDp(epsilon=64.0), 1e-5)
    assert said.epsilon == pytest.approx(64.0, rel=1e-6)
    assert said.assumptions == (NEARLY_EXACT,)


@settings(max_examples=15)
@given(epsilon=st.floats(0.1, 19), log_delta=st.floats(math.log(1e-7), math.log(1e-3)))
def test_what_was_calibrated_is_printed_within_its_target(epsilon: float, log_delta: float):
    delta = math.exp(log_delta)
    noise = calibrate.noise_for(
        lambda value: Gaussian(noise_multiplier=value), ONE, epsilon=epsilon, delta=delta
    )
    said = guarantee(Gaussian(noise_multiplier=noise), delta)
    assert said.epsilon <= epsilon or not is_paid(epsilon * (1 + 1e-3), delta)


def test_noise_at_the_ends_of_its_sampler_is_refused():
    with pytest.raises(CannotMeet, match=r"ends of its sampler show.*at most 28"):
        calibrate.noise_for(lambda value: Laplace(noise_multiplier=value), ONE, epsilon=64.0, delta=1e-5)


def asked(epsilon: float, delta: float) -> ConvexTerms:
    return ConvexTerms(
        epsilon=epsilon, delta=delta, adjacency=Adjacency.REPLACE, keys=Keys.seeded(0), pay=lambda event: None
    )


def test_a_convex_release_sets_aside_what_its_numbers_owe_at_its_epsilon():
    for epsilon in (0.1, 1.0, 8.0, 12.0):
        left = asked(epsilon, 1e-5).delta_for(10**5)
        assert left <= 1e-5 - delta_owed(10**5 * OFF, epsilon)
        assert NEARLY_EXACT not in asked(epsilon, 1e-5).assumptions(9, is_pure=False)
    assert NEARLY_EXACT in asked(24.0, 1e-5).assumptions(9, is_pure=False)
    assert asked(24.0, 1e-5).delta_for(10) == 1e-5 * (1 - RESERVED)
    for epsilon in (40.0, 1e9):
        with pytest.raises(CannotMeet, match="ends of its sampler"):
            asked(epsilon, 1e-5).delta_for(10)


@given(epsilon=st.floats(0, 800), delta=st.floats(1e-300, 0.9))
def test_the_accountant_gets_half_of_delta_at_least_and_never_all_of_it(epsilon: float, delta: float):
    assert delta / 2 <= delta_left_for(epsilon, delta) < delta
    assert delta_left_for(math.nan, delta) < delta
