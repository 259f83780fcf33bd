"""Composition, amplification, groups, divergences, concentrated DP, moments: inverses, limits, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import exp, fsum, mp, mpf

from reticent.accounting.theorems import (
    amplification,
    composition,
    divergence,
    gaussian_dp,
    group,
    moments,
    zcdp,
)
from reticent.core.errors import InvalidArgument

_EPSILON = st.floats(1e-6, 20)
_DELTA = st.floats(1e-15, 0.5)
_RATE = st.floats(1e-9, 1)


# --- composition


@given(target=st.floats(1e-3, 30), times=st.integers(1, 10**6), delta=_DELTA)
def test_the_largest_epsilon_composes_to_the_target_and_not_above(target: float, times: int, delta: float):
    each = composition.largest_epsilon(target, times, delta)
    assert composition.advanced(each, 0.0, times, delta)[0] <= target
    assert composition.advanced(each * (1 + 1e-9), 0.0, times, delta)[0] >= target * (1 - 1e-8)


@given(target=st.floats(1e-3, 0.999), times=st.integers(1, 10**6), delta=st.floats(1e-15, 0.3))
def test_the_lectures_corollary_is_within_the_first_form(target: float, times: int, delta: float):
    each = composition.largest_epsilon_simple(target, times, delta)
    assert composition.advanced(each, 0.0, times, delta)[0] <= target
    assert each <= composition.largest_epsilon(target, times, delta)


@given(epsilon=st.floats(1e-4, 3), times=st.integers(1, 300), delta=st.floats(1e-12, 0.1))
def test_optimal_is_below_advanced_is_below_the_first_form(epsilon: float, times: int, delta: float):
    optimal = composition.optimal(epsilon, 0.0, times, delta)
    sharper, first = (
        composition.advanced(epsilon, 0.0, times, delta)[0],
        composition.advanced_first(epsilon, 0.0, times, delta)[0],
    )
    assert optimal <= min(sharper, times * epsilon) * (1 + 1e-12)
    assert sharper <= first * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "own", "times"), [(0.5, 0.0, 10), (0.01, 1e-9, 2000), (3.0, 1e-7, 40)])
def test_optimal_against_the_binomial_sum_at_40_digits(epsilon: float, own: float, times: int):
    found = composition.optimal(epsilon, own, times, 1e-4)
    with mp.workdps(40):
        e, keep = mpf(epsilon), (1 - mpf(own)) ** times
        gains = fsum(
            math.comb(times, k) * exp((times - k) * e) * max(1 - exp(mpf(found) - (times - 2 * k) * e), 0)
            for k in range(times + 1)
        )
        delta = 1 - keep + keep * gains / (1 + exp(e)) ** times
    assert delta == pytest.approx(1e-4, rel=1e-9)


def test_heterogeneous_composition_of_equals_is_the_homogeneous_one():
    steps = [(0.1, 1e-9)] * 50
    assert composition.advanced_heterogeneous(steps, 1e-6) == pytest.approx(
        composition.advanced(0.1, 1e-9, 50, 1e-6), rel=1e-12
    )
    assert composition.advanced_heterogeneous([], 1e-6) == (0.0, 1e-6)


def test_nothing_composed_costs_nothing():
    assert composition.basic([]) == (0.0, 0.0)
    assert composition.optimal(1.0, 0.0, 0, 1e-5) == 0.0
    assert composition.optimal(0.0, 0.0, 100, 1e-5) == 0.0
    assert math.isinf(composition.optimal(0.0, 1e-3, 100, 1e-5))
    assert math.isinf(composition.optimal(1.0, 1.0, 1, 1e-5))


@pytest.mark.parametrize("bad", [math.nan, -0.1, math.inf])
def test_composition_refuses_what_is_no_epsilon(bad: float):
    for call in (
        lambda: composition.basic([(bad, 0.0)]),
        lambda: composition.advanced(bad, 0.0, 2, 1e-5),
        lambda: composition.advanced_first(bad, 0.0, 2, 1e-5),
        lambda: composition.optimal(bad, 0.0, 2, 1e-5),
        lambda: composition.largest_epsilon(bad, 2, 1e-5),
    ):
        with pytest.raises(InvalidArgument):
            call()


@pytest.mark.parametrize("times", [2.0, 2.5, -1, True, math.nan])
def test_composition_refuses_what_is_no_count(times: float):
    for call in (composition.advanced, composition.advanced_first, composition.optimal):
        with pytest.raises(InvalidArgument):
            call(0.1, 0.0, times, 1e-5)  # pyright: ignore[reportArgumentType]


# --- amplification


@given(epsilon=st.floats(1e-9, 2000), rate=_RATE)
def test_the_inner_epsilon_amplifies_to_the_asked_one(epsilon: float, rate: float):
    inner = amplification.inner_epsilon(epsilon, rate)
    assert math.isfinite(inner)
    assert inner >= epsilon * (1 - 1e-12)
    assert amplification.poisson(inner, 0.0, rate)[0] == pytest.approx(epsilon, rel=1e-12, abs=1e-12)


@given(epsilon=st.floats(0, 2000), rate=st.floats(0, 1, allow_subnormal=True))
def test_amplification_is_never_negative_and_never_costs_more(epsilon: float, rate: float):
    found, _ = amplification.poisson(epsilon, 0.0, rate)
    assert 0 <= found <= epsilon * (1 + 1e-15)


def test_amplification_of_a_large_epsilon_at_a_tiny_rate_is_not_negative():
    assert 0 < amplification.poisson(701.0, 0.0, 1e-310)[0] < 1e-5
    assert amplification.poisson(701.0, 0.0, 0.0)[0] == 0.0


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_amplification_refuses_what_is_no_rate(rate: float):
    with pytest.raises(InvalidArgument):
        amplification.poisson(1.0, 0.0, rate)
    with pytest.raises(InvalidArgument):
        amplification.inner_epsilon(1.0, rate)


# --- groups


@given(epsilon=st.floats(1e-250, 3), delta=st.floats(0, 1e-3), size=st.integers(1, 50))
def test_the_geometric_sum_is_within_the_simple_form(epsilon: float, delta: float, size: int):
    tight, simple = group.approximate(epsilon, delta, size), group.approximate_simple(epsilon, delta, size)
    assert tight[0] == simple[0] == group.pure(epsilon, size)
    assert tight[1] <= simple[1] * (1 + 1e-12)
    assert tight[1] >= delta * (1 - 1e-15)


def test_group_privacy_is_what_stepping_from_record_to_record_gives():
    total = 0.0
    for _ in range(7):
        total = 1e-6 + math.exp(0.4) * total
    assert group.approximate(0.4, 1e-6, 7)[1] == pytest.approx(total, rel=1e-13)


@pytest.mark.parametrize("size", [0, -1, 1.5, math.nan])
def test_groups_are_counted(size: float):
    for call in (lambda: group.pure(1.0, size), lambda: group.approximate(1.0, 0.0, size)):  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidArgument):
            call()


# --- divergences


_WEIGHTS = st.lists(st.floats(1e-6, 1), min_size=2, max_size=8)


@given(p=_WEIGHTS, data=st.data())
def test_renyi_divergence_is_never_negative_grows_with_the_order_and_ends_at_the_largest_ratio(p, data):
    q = data.draw(st.lists(st.floats(1e-6, 1), min_size=len(p), max_size=len(p)))
    p, q = np.array(p) / sum(p), np.array(q) / sum(q)
    orders = [0.0, 0.3, 1.0, 1.0 + 1e-9, 1.5, 2.0, 10.0, 200.0, math.inf]
    values = [divergence.renyi(p, q, order) for order in orders]
    assert all(value >= 0 for value in values)
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(values))
    assert values[-1] == pytest.approx(np.log(p / q).max(), abs=1e-12)
    assert divergence.hockey_stick(p, q, values[-1]) <= 1e-12


@given(p=_WEIGHTS, data=st.data())
def test_the_hockey_stick_is_the_expected_gain_of_the_privacy_loss(p, data):
    q = data.draw(st.lists(st.floats(1e-6, 1), min_size=len(p), max_size=len(p)))
    epsilon = data.draw(st.floats(-2, 2))
    p, q = np.array(p) / sum(p), np.array(q) / sum(q)
    loss = divergence.privacy_loss(p, q)
    gain = loss.probabilities @ np.maximum(-np.expm1(epsilon - loss.values), 0.0)
    assert divergence.hockey_stick(p, q, epsilon) == pytest.approx(gain, abs=1e-12)


def test_what_only_p_can_give_is_an_infinite_loss():
    assert math.isinf(divergence.renyi([0.5, 0.5], [1.0, 0.0], 2))
    assert divergence.renyi([1.0, 0.0], [0.5, 0.5], 1) == pytest.approx(math.log(2))
    assert math.isinf(divergence.privacy_loss([0.5, 0.5], [1.0, 0.0]).values[1])
    assert math.isinf(divergence.renyi([1.0, 0.0], [0.0, 1.0], 0.5))


@pytest.mark.parametrize("p", [[0.5, 0.4], [1.5, -0.5], [math.nan, 1.0], [[0.5, 0.5]]])
def test_what_is_no_distribution_is_refused(p):
    with pytest.raises(InvalidArgument):
        divergence.renyi(p, [0.5, 0.5], 2)
    with pytest.raises(InvalidArgument):
        divergence.hockey_stick([0.5, 0.5], p, 0.0)


def test_distributions_over_different_outcomes_and_bad_orders_are_refused():
    with pytest.raises(InvalidArgument):
        divergence.renyi([0.5, 0.5], [0.2, 0.3, 0.5], 2)
    for order in (-1.0, math.nan):
        with pytest.raises(InvalidArgument):
            divergence.renyi([0.5, 0.5], [0.5, 0.5], order)


# --- concentrated DP and moments


@given(rho=st.floats(1e-9, 100), delta=_DELTA)
def test_the_improved_conversion_is_between_the_exact_and_the_classical_one(rho: float, delta: float):
    improved = zcdp.to_epsilon(rho, delta)
    assert gaussian_dp.epsilon(math.sqrt(2 * rho), delta) <= improved * (1 + 1e-9) + 1e-12
    assert improved <= zcdp.to_epsilon_classical(rho, delta) * (1 + 1e-12)


def test_rho_of_nothing_is_nothing_and_a_bad_one_is_refused():
    assert zcdp.to_epsilon(0.0, 1e-5) == 0.0
    for call in (zcdp.to_epsilon, zcdp.to_epsilon_classical):
        for rho, delta in [(-1.0, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 1.0), (1.0, math.nan)]:
            with pytest.raises(InvalidArgument):
                call(rho, delta)


def test_moments_of_the_full_batch_are_those_of_the_gaussian():
    assert moments.log_moment(1.0, 2.0, 5) == pytest.approx(5 * 6 / 8)
    assert moments.log_moment(0.0, 2.0, 5) == 0.0
    nearly = moments.log_moment(1 - 1e-12, 2.0, 5)
    assert nearly == pytest.approx(5 * 6 / 8, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [
        (1.1, 1.0, 1, 1e-5),
        (-0.1, 1.0, 1, 1e-5),
        (0.1, 0.0, 1, 1e-5),
        (0.1, -1.0, 1, 1e-5),
        (0.1, math.nan, 1, 1e-5),
        (0.1, 1.0, 1.5, 1e-5),
        (0.1, 1.0, -1, 1e-5),
        (0.1, 1.0, 1, 0.0),
        (0.1, 1.0, 1, 1.0),
    ],
)
def test_moments_refuse_bad_settings(rate: float, noise: float, steps: float, delta: float):
    with pytest.raises(InvalidArgument):
        moments.epsilon(rate, noise, steps, delta)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument):
        moments.strong_composition(rate, noise, steps, delta)  # pyright: ignore[reportArgumentType]
