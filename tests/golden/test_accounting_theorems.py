"""Closed forms whose values were computed twice at 40 digits, and figures printed beside the theorems."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.accounting.loss_distribution.distribution import RepeatedPair, lower_epsilon, upper_epsilon
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.loss_distribution.pairs import LaplacePair
from reticent.accounting.theorems import (
    amplification,
    composition,
    divergence,
    gaussian_dp,
    group,
    renyi,
    sampled_renyi,
    zcdp,
)
from reticent.accounting.tight_epsilon import bracket_event, tight
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian, PureDp, RandomizedResponse, Repeated

_P, _Q = [0.6, 0.4], [0.5, 0.5]


@pytest.mark.parametrize(
    ("order", "forward", "backward"),
    [
        (1, 0.0201355136, 0.0204109973),
        (2, 0.0392207132, 0.0408219945),
        (math.inf, 0.1823215568, 0.2231435513),
    ],
)
def test_van_erven_2014_renyi_divergence_of_two_coins(order: float, forward: float, backward: float):
    assert divergence.renyi(_P, _Q, order) == pytest.approx(forward, abs=6e-11)
    assert divergence.renyi(_Q, _P, order) == pytest.approx(backward, abs=6e-11)


def test_van_erven_2014_renyi_divergence_at_order_2_is_ln_1_04_not_ln_0_52():
    assert divergence.renyi(_P, _Q, 2) == pytest.approx(math.log(1.04), rel=1e-14)
    assert divergence.renyi(_P, _Q, 2) / math.log(2) == pytest.approx(0.0565835, abs=6e-8)  # in bits
    # The value in circulation dropped Q^(1 - order) and came out negative, which a divergence never is.
    assert math.log(0.6**2 + 0.4**2) == pytest.approx(-0.6539265, abs=6e-8)


_COMPOSED = {  # 500 releases of epsilon 1/1000: delta -> (first form, sharper form, optimal)
    1e-5: (0.1077986, 0.1075483, 0.0661705),
    1e-6: (0.1180397, 0.1177894, 0.0797889),
    1e-8: (0.1362231, 0.1359728, 0.1024846),
}


def test_dwork_roth_2014_basic_composition_of_500_releases():
    assert composition.basic([(1e-3, 0.0)] * 500) == (pytest.approx(0.5, rel=1e-14), 0.0)


@pytest.mark.parametrize("delta", _COMPOSED)
def test_dwork_rothblum_vadhan_2010_advanced_composition(delta: float):
    assert composition.advanced_first(1e-3, 0.0, 500, delta)[0] == pytest.approx(
        _COMPOSED[delta][0], abs=6e-8
    )


@pytest.mark.parametrize("delta", _COMPOSED)
def test_dwork_rothblum_2016_advanced_composition_with_the_sharper_bias(delta: float):
    assert composition.advanced(1e-3, 0.0, 500, delta)[0] == pytest.approx(_COMPOSED[delta][1], abs=6e-8)


@pytest.mark.parametrize("delta", _COMPOSED)
def test_kairouz_oh_viswanath_2017_optimal_composition(delta: float):
    exact = _COMPOSED[delta][2]
    assert composition.optimal(1e-3, 0.0, 500, delta) == pytest.approx(exact, abs=6e-8)
    bracket = bracket_event(
        Repeated(event=PureDp(epsilon=1e-3), times=500), delta, Neighbours(Adjacency.ADD_OR_REMOVE)
    )
    assert bracket.lower - 6e-8 <= exact <= bracket.upper + 6e-8


@pytest.mark.parametrize(
    ("rate", "epsilon", "amplified"),
    [
        (0.01, 1.0, 0.0170368632),
        (0.1, 1.0, 0.1585650787),
        (0.01, 0.1, 0.0010511565),
        (0.5, 2.0, 1.4337808305),
        (256 / 60000, 1.0, 0.0073045922),
    ],
)
def test_balle_barthe_gaboardi_2018_amplification_by_sampling(rate: float, epsilon: float, amplified: float):
    assert amplification.poisson(epsilon, 1e-6, rate) == (pytest.approx(amplified, abs=6e-11), rate * 1e-6)


def test_smith_2009_simple_amplification_is_twice_the_rate():
    assert amplification.poisson_simple(0.01) == 0.02
    assert amplification.poisson(1.0, 0.0, 0.01)[0] <= amplification.poisson_simple(0.01)


def test_dwork_roth_2014_group_privacy_of_three():
    assert group.approximate_simple(0.5, 1e-6, 3) == (1.5, pytest.approx(8.1548455e-6, abs=6e-14))
    assert group.approximate(0.5, 1e-6, 3) == (1.5, pytest.approx(5.3670031e-6, abs=6e-14))
    assert group.pure(0.5, 3) == 1.5


_ANALYTIC = {
    0.1: (30.74956613, 36.30469043, 45.93736018),
    0.5: (7.031826676, 8.057618481, 9.863533796),
    1.0: (3.730631635, 4.224678889, 5.100308788),
    2.0: (1.993812446, 2.230476271, 2.652926768),
    4.0: (1.08116185, 1.193518587, 1.395582684),
    8.0: (0.6002290722, 0.6529353844, 0.7483942247),
    10.0: (0.4998886197, 0.5410868318, 0.6158463558),
}


@pytest.mark.parametrize("epsilon", _ANALYTIC)
@pytest.mark.parametrize(("column", "delta"), [(0, 1e-5), (1, 1e-6), (2, 1e-8)])
def test_balle_wang_2018_sigma_table(epsilon: float, column: int, delta: float):
    expected = _ANALYTIC[epsilon][column]
    found = gaussian_dp.noise_multiplier(epsilon, delta)
    assert found == pytest.approx(expected, rel=2e-9)
    assert gaussian_dp.delta(1 / found, epsilon) <= delta


def test_dwork_roth_2014_classical_sigma_is_too_little_at_epsilon_10():
    def classical(epsilon: float) -> float:
        return math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon

    assert classical(1.0) == pytest.approx(4.844805, abs=6e-7)
    assert classical(10.0) == pytest.approx(0.484481, abs=6e-7)
    assert classical(10.0) < gaussian_dp.noise_multiplier(10.0, 1e-5)
    assert gaussian_dp.epsilon(1 / classical(10.0), 1e-5) > 10


def test_balle_wang_2018_delta_of_unit_noise():
    assert gaussian_dp.delta(1.0, 0.0) == pytest.approx(0.382924922548, abs=6e-13)
    assert gaussian_dp.delta(1.0, 1.0) == pytest.approx(0.126936737507, abs=6e-13)
    assert gaussian_dp.epsilon(1.0, 1e-5) == pytest.approx(4.377178095681, rel=2e-10)


@pytest.mark.parametrize(
    ("delta", "exact"),
    [(1e-5, 2.59438338053), (1e-8, 3.49125502556), (1e-10, 3.98419199063), (1e-12, 4.42447430528)],
)
def test_balle_wang_2018_full_batch_of_1000_steps(delta: float, exact: float):
    cost = tight(Repeated(event=Gaussian(noise_multiplier=50.0), times=1000), delta)
    assert cost.lower <= exact <= cost.upper
    assert cost.upper == pytest.approx(exact, rel=3e-9)


@pytest.mark.parametrize(
    ("rate", "noise", "order", "divergence_"),
    [
        (0.01, 4, 2, 6.44942509419921e-6),
        (0.01, 4, 20, 6.52631295728039e-5),
        (0.01, 4, 32, 1.05263606590817e-4),
        (0.1, 2, 20, 0.188313613446559),
        (0.001, 0.8, 4, 7.67353069370689e-6),
        (0.2, 1, 2, 0.0664722189055973),
        (0.01, 0.5, 8, 10.736948358949),
        (0.01, 4, 2.5, 8.0644097585e-6),
        (0.01, 1, 1.5, 1.27253743327e-4),
        (0.2, 1, 1.5, 0.04397050945),
        (0.2, 1, 1.1, 0.0295295418151),
    ],
)
def test_mironov_talwar_zhang_2019_sampled_gaussian(
    rate: float, noise: float, order: float, divergence_: float
):
    found = sampled_renyi.poisson_gaussian(rate, noise, np.array([float(order)]))[0]
    assert found == pytest.approx(divergence_, rel=1e-10 if order != int(order) else 1e-12)


@pytest.mark.parametrize(
    ("rho", "delta", "classical", "improved", "exact"),
    [
        (0.5, 1e-5, 5.2985259, 4.72838698494, 4.3771781),
        (0.1, 1e-6, 2.4507880, 2.14193892839, 1.9945269),
        (0.005, 1e-6, 0.5306522, 0.429941468837, 0.3968574),
    ],
)
def test_zcdp_conversions_bun_steinke_2016_canonne_kamath_steinke_2020(
    rho: float, delta: float, classical: float, improved: float, exact: float
):
    assert zcdp.to_epsilon_classical(rho, delta) == pytest.approx(classical, abs=6e-8)
    assert zcdp.to_epsilon(rho, delta) == pytest.approx(improved, rel=1e-9)
    assert gaussian_dp.epsilon(math.sqrt(2 * rho), delta) == pytest.approx(exact, abs=6e-8)


@pytest.mark.parametrize(
    ("rho", "delta", "printed"), [(0.5, 1e-5, 4.7283894), (0.1, 1e-6, 2.1419389), (0.005, 1e-6, 0.4299415)]
)
def test_asoodeh_2021_equation_20_as_printed_for_a_finite_list_of_orders(
    rho: float, delta: float, printed: float
):
    assert zcdp.to_epsilon(rho, delta) == pytest.approx(printed, abs=3e-6)


@pytest.mark.parametrize(
    ("epsilon", "order", "divergence_", "digits"),
    [(1.0, 2, 0.619123629999, 1e-12), (0.5, 10, 0.428690386467, 1e-12), (1.0, 1 + 1e-7, 0.36787944, 2e-7)],
)
def test_mironov_2017_laplace_divergence(epsilon: float, order: float, divergence_: float, digits: float):
    assert renyi.laplace(epsilon, np.array([order]))[0] == pytest.approx(divergence_, abs=digits)


def test_laplace_profile_1_less_e_to_the_minus_a_quarter():
    # delta(0.5) of epsilon 1 is 1 - e^-0.25, so at that delta the bracket has to hold 0.5.
    delta = -math.expm1(-0.25)
    assert delta == pytest.approx(0.2211992169, abs=6e-11)
    releases = [RepeatedPair(LaplacePair(1.0), 1)]
    lower, upper = lower_epsilon(releases, delta, near=0.5), upper_epsilon(releases, delta)
    assert lower <= 0.5 <= upper
    assert upper - lower < 1e-3


def test_mironov_2017_randomised_response():
    assert renyi.randomized_response(0.75, 2, np.array([2.0]))[0] == pytest.approx(0.847297860387, abs=6e-13)
    assert RandomizedResponse(truth=0.75).epsilon == pytest.approx(math.log(3), rel=1e-15)
