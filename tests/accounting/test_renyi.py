"""Renyi curves against many digits, and their conversions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import exp, fsum, log, mp, mpf, npdf, quad

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.theorems import gaussian_dp, renyi, sampled_renyi
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency

_SOME = np.array([1.01, 1.5, 2.0, 7.25, 64.0, 4096.0])
_ALONE = Neighbours(Adjacency.ADD_OR_REMOVE)


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(120):
        yield


@pytest.mark.parametrize("epsilon", [1e-8, 1e-5, 1e-3, 0.1, 0.4999, 0.5001, 1.0, 5.0, 36.5])
def test_laplace_curve_to_all_digits(epsilon: float):
    e, found = mpf(epsilon), renyi.laplace(epsilon, _SOME)
    for order, value in zip(map(mpf, _SOME.tolist()), found, strict=True):
        exact = log(
            order / (2 * order - 1) * exp((order - 1) * e) + (order - 1) / (2 * order - 1) * exp(-order * e)
        ) / (order - 1)
        assert abs(value / exact - 1) < 1e-12, order


def _response(truth: mpf, choices: int, order: mpf) -> mpf:
    lie = (1 - truth) / (choices - 1)
    return log(
        truth**order * lie ** (1 - order) + lie**order * truth ** (1 - order) + (choices - 2) * lie
    ) / (order - 1)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-5, 0.1, 1.0, 30.0, 33.0, 36.5, 36.9, 80.0])
def test_pure_curve_to_all_digits_also_where_a_lie_is_rarer_than_a_rounding(epsilon: float):
    # 1 / (1 + e^-36.5) in float64 is 1 - 2^-53: a curve made from it says 36.04.
    for order, value in zip(_SOME.tolist(), renyi.pure(epsilon, _SOME), strict=True):
        exact = _response(1 / (1 + exp(-mpf(epsilon))), 2, mpf(order))
        assert abs(value / exact - 1) < 1e-12, order


@pytest.mark.parametrize(("truth", "choices"), [(0.5 + 1e-9, 2), (0.75, 2), (0.2, 6), (1 - 1e-12, 3)])
def test_randomised_response_curve_to_all_digits(truth: float, choices: int):
    for order, value in zip(_SOME.tolist(), renyi.randomized_response(truth, choices, _SOME), strict=True):
        assert abs(value / _response(mpf(truth), choices, mpf(order)) - 1) < 1e-12, order


@pytest.mark.parametrize(
    ("rate", "noise", "order"), [(1e-9, 1.0, 1.01), (1e-9, 1.0, 5.75), (0.3, 0.2, 1.01), (0.9, 2.0, 11.75)]
)
def test_sampled_gaussian_at_fractional_orders_to_all_digits(rate: float, noise: float, order: float):
    # With rates this small a plain sum of rounded powers would leave nothing but its rounding.
    q, s, a = mpf(rate), mpf(noise), mpf(order)
    ends = [-20 * s, *(mpf(x) / 2 for x in range(-1, int(2 * order) + 3)), a + 20 * s]
    with mp.workdps(35):
        moment = quad(
            lambda z: npdf(z, 0, s) * (1 - q + q * exp((2 * z - 1) / (2 * s * s))) ** a, sorted(ends)
        )
        exact = log(moment) / (a - 1)
    found = sampled_renyi.poisson_gaussian(rate, noise, np.array([order]))[0]
    assert abs(found / exact - 1) < 1e-10


@pytest.mark.parametrize(("rate", "noise"), [(1e-9, 1.0), (1e-4, 0.3), (0.01, 4.0), (0.5, 10.0)])
@pytest.mark.parametrize("order", [2, 3, 32, 256])
def test_sampled_gaussian_at_whole_orders_to_all_digits(rate: float, noise: float, order: int):
    q, s = mpf(rate), mpf(noise)
    with mp.workdps(60):
        total = fsum(
            mpf(math.comb(order, k)) * (1 - q) ** (order - k) * q**k * exp((k * k - k) / (2 * s * s))
            for k in range(order + 1)
        )
        exact = log(total) / (order - 1)
    assert abs(sampled_renyi.binomial_sum(rate, noise, order) / exact - 1) < 1e-10


def test_with_next_to_no_noise_fractional_orders_are_bounded_by_whole_ones():
    orders = np.array([1.5, 2.0, 2.5, 3.0])
    found = sampled_renyi.poisson_gaussian(0.01, 1e-3, orders)
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert np.all(np.isfinite(found))


@given(rate=st.floats(1e-8, 1.0, exclude_max=True), noise=st.floats(0.15, 50))
@settings(max_examples=40)
def test_curves_grow_with_the_order_and_stay_below_the_unsampled_one(rate: float, noise: float):
    curve = sampled_renyi.poisson_gaussian(rate, noise, renyi.ORDERS)
    assert np.all(np.diff(curve) >= -1e-12 * curve[1:])
    assert np.all(curve <= renyi.gaussian(1 / noise, renyi.ORDERS) * (1 + 1e-12))


def test_batches_of_fixed_size_claim_nothing_at_fractional_orders():
    found = sampled_renyi.without_replacement(0.01, 2.0, np.array([1.5, 2.0, 600.0]))
    assert np.isinf(found[[0, 2]]).all()
    assert np.isfinite(found[1])


def test_exponential_mechanism_costs_a_quarter_of_pure_dp_at_most():
    for epsilon in (1e-3, 0.5, 3.0, 30.0):
        assert np.all(renyi.exponential(epsilon, _SOME) <= renyi.pure(epsilon, _SOME))
        assert np.all(renyi.exponential(epsilon, _SOME) <= _SOME * epsilon**2 / 8 * (1 + 1e-15))


@given(mu=st.floats(0.01, 5), delta=st.floats(1e-12, 0.1))
def test_conversions_are_above_the_exact_gaussian_and_the_improved_one_is_tighter(mu: float, delta: float):
    curve = renyi.gaussian(mu, renyi.ORDERS)
    improved = renyi.to_epsilon(curve, delta)
    assert gaussian_dp.epsilon(mu, delta) <= improved <= renyi.to_epsilon_classical(curve, delta)
    assert renyi.to_delta(curve, improved) <= delta * (1 + 1e-9)


def test_to_delta_is_never_below_the_exact_gaussian():
    for mu, epsilon in [(0.5, 0.1), (1.0, 2.0), (3.0, 20.0)]:
        found = renyi.to_delta(renyi.gaussian(mu, renyi.ORDERS), epsilon)
        assert gaussian_dp.delta(mu, epsilon) <= found <= 1


def test_a_curve_that_claims_nothing_costs_infinity():
    assert math.isinf(renyi.to_epsilon(np.full(renyi.ORDERS.shape, math.inf), 1e-5))
    assert renyi.to_delta(np.full(renyi.ORDERS.shape, math.inf), 1.0) == 1.0
    assert math.isinf(renyi.epsilon(events.NonPrivate(), 1e-5, _ALONE))
    assert math.isinf(
        renyi.epsilon(events.RandomizedResponse(truth=1.0), 1e-5, Neighbours(Adjacency.REPLACE))
    )


def test_a_delta_spent_by_claims_is_not_there_for_the_curve():
    claim = events.ApproximateDp(epsilon=0.1, delta=1e-6)
    assert math.isinf(renyi.epsilon(events.Repeated(event=claim, times=10), 1e-5, _ALONE))
    assert renyi.epsilon(events.Repeated(event=claim, times=9), 1e-5, _ALONE) < 0.9 * 1.01


def test_truncation_has_no_curve():
    event = events.TruncatedPoissonSampled(
        rate=0.1, capacity=9, examples=9, event=events.Gaussian(noise_multiplier=1.0)
    )
    with pytest.raises(Unproven):
        renyi.epsilon(event, 1e-5, _ALONE)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, 2.0])
def test_a_delta_outside_the_unit_interval_is_refused(delta: float):
    with pytest.raises(InvalidArgument):
        renyi.to_epsilon(_SOME, delta, _SOME)
    with pytest.raises(InvalidArgument):
        renyi.to_epsilon_classical(_SOME, delta, _SOME)
