"""The numerical machinery on Gaussians, where the truth is known in closed form.

The releases go through rounding, tilting and the Fourier transform one by one, not through the theorem that
T Gaussians are one.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import erfc, exp, mp, mpf, sqrt

from reticent.accounting.loss_distribution.distribution import (
    RELATIVE_WIDTH,
    RepeatedPair,
    lower_epsilon,
    upper_epsilon,
)
from reticent.accounting.loss_distribution.pairs import GaussianPair
from reticent.accounting.theorems import gaussian_dp
from reticent.core.errors import InvalidArgument


def _delta(mu: Any, epsilon: Any) -> Any:
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return (erfc(-a / sqrt(mpf(2))) - exp(epsilon) * erfc(-b / sqrt(mpf(2)))) / 2


@pytest.mark.parametrize("mu", [1e-4, 1e-2, 0.3, 1.0, 5.0, 30.0])
def test_the_closed_form_against_many_digits(mu: float):
    for delta in (1e-3, 1e-5, 1e-8, 1e-12, 1e-16, 1e-20):
        found = gaussian_dp.epsilon(mu, delta)
        with mp.workdps(400):  # at mu = 30 the two terms agree in hundreds of digits
            if found == 0:
                assert _delta(mpf(mu), mpf(0)) <= delta
                continue
            assert _delta(mpf(mu), mpf(found)) <= delta
            assert _delta(mpf(mu), mpf(found) * (1 - mpf(10) ** -9)) >= delta


@settings(max_examples=60)
@given(mu=st.floats(1e-5, 60), epsilon=st.floats(0, 50))
def test_delta_against_many_digits(mu: float, epsilon: float):
    found = gaussian_dp.delta(mu, epsilon)
    with mp.workdps(60):
        exact = _delta(mpf(mu), mpf(epsilon))
    # Near 1 the difference is of numbers near 1; far out both terms keep their digits.
    assert abs(found - exact) <= 1e-9 * exact + 1e-300


@settings(max_examples=60)
@given(epsilon=st.floats(1e-3, 50), delta=st.floats(1e-20, 0.1))
def test_noise_and_epsilon_are_inverse(epsilon: float, delta: float):
    noise = gaussian_dp.noise_multiplier(epsilon, delta)
    assert gaussian_dp.delta(1 / noise, epsilon) <= delta
    assert gaussian_dp.epsilon(1 / noise, delta) == pytest.approx(epsilon, rel=1e-8)


def _check(mu: float, times: int, delta: float) -> None:
    """`mu` is that of the whole composition."""
    releases = [RepeatedPair(GaussianPair(mu / math.sqrt(times)), times)]
    exact = gaussian_dp.epsilon(mu, delta)
    for relative_width in (RELATIVE_WIDTH, RELATIVE_WIDTH / 10):  # the finer one where the first is too wide
        upper = upper_epsilon(releases, delta, relative_width=relative_width)
        lower = lower_epsilon(releases, delta, near=upper, relative_width=relative_width)
        assert lower <= exact * (1 + 1e-9), (lower, exact)
        assert exact * (1 - 1e-9) <= upper, (upper, exact)
        if upper - lower <= max(1e-3, 1e-3 * exact):
            return
    raise AssertionError(f"[{lower}, {upper}] around {exact} is too wide")


@pytest.mark.parametrize("times", [1, 2, 10**7])
@pytest.mark.parametrize("delta", [1e-3, 1e-20])
@pytest.mark.parametrize("mu", [0.05, 4.0])
def test_the_bracket_holds_the_exact_epsilon_in_the_corners(mu: float, times: int, delta: float):
    _check(mu, times, delta)


@settings(max_examples=150)
@given(
    log_mu=st.floats(math.log(0.02), math.log(8)),
    log_times=st.floats(0, math.log(1e7)),
    log_delta=st.floats(math.log(1e-20), math.log(1e-3)),
)
def test_the_bracket_holds_the_exact_epsilon_anywhere(log_mu: float, log_times: float, log_delta: float):
    _check(math.exp(log_mu), round(math.exp(log_times)), math.exp(log_delta))


@settings(max_examples=40)
@given(
    shares=st.lists(st.floats(0.05, 1), min_size=2, max_size=4),
    times=st.lists(st.integers(1, 10_000), min_size=4, max_size=4),
    mu=st.floats(0.05, 6),
    log_delta=st.floats(math.log(1e-20), math.log(1e-3)),
)
def test_the_bracket_holds_for_different_gaussians_together(shares, times, mu: float, log_delta: float):
    delta, total = math.exp(log_delta), math.fsum(shares)
    releases = [
        RepeatedPair(GaussianPair(mu * math.sqrt(share / total / count)), count)
        for share, count in zip(shares, times, strict=False)
    ]
    exact = gaussian_dp.epsilon(mu, delta)
    upper = upper_epsilon(releases, delta)
    lower = lower_epsilon(releases, delta, near=upper)
    assert lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= upper


def test_planted_one_step_less_or_half_the_noise_leaves_the_bracket():
    exact = gaussian_dp.epsilon(1.0, 1e-5)
    for planted, times in [(1 / math.sqrt(100), 99), (1 / math.sqrt(100), 101), (2 / math.sqrt(100), 100)]:
        releases = [RepeatedPair(GaussianPair(planted), times)]
        upper = upper_epsilon(releases, 1e-5)
        assert not lower_epsilon(releases, 1e-5, near=upper) <= exact <= upper


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_sensitivity_that_is_none_is_refused(mu: float):
    with pytest.raises(InvalidArgument):
        gaussian_dp.epsilon(mu, 1e-5)
    with pytest.raises(InvalidArgument):
        gaussian_dp.delta(mu, 1.0)


def test_the_central_limit_is_labelled_an_estimate():
    assert "estimate, not a bound" in (gaussian_dp.central_limit_mu.__doc__ or "")
