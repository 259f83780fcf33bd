"""Every dominating pair as a measure on the privacy loss: masses, edges, atoms, against many digits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import erfc, exp, log, mp, mpf, sqrt
from scipy.special import ndtr

from reticent.accounting.loss_distribution.pairs import (
    UNIT,
    AtomPair,
    FixedSizePair,
    GaussianPair,
    LaplacePair,
    MixturePair,
    Pair,
    ReversedPair,
    SampledPair,
)
from reticent.accounting.theorems.amplification import poisson

_RESPONSE = AtomPair((-math.log(3), 0.0, math.log(3)), (0.2, 0.2, 0.6), (0.6, 0.2, 0.2))
_LEAKY = AtomPair(
    (-math.inf, -math.log(2.5), math.log(2.5), math.inf), (0.0, 0.28, 0.7, 0.02), (0.02, 0.7, 0.28, 0.0)
)
_PAIRS: dict[str, Pair] = {
    "gaussian": GaussianPair(0.7),
    "small gaussian": GaussianPair(1e-3),
    "large gaussian": GaussianPair(6.0),
    "laplace": LaplacePair(0.8),
    "large laplace": LaplacePair(20.0),
    "response": _RESPONSE,
    "leaky response": _LEAKY,
    "sampled gaussian": SampledPair(GaussianPair(1.0), 0.02),
    "often sampled gaussian": SampledPair(GaussianPair(1.0), 0.95),
    "sampled laplace": SampledPair(LaplacePair(1.0), 0.1),
    "sampled response": SampledPair(_RESPONSE, 0.3),
    "sampled leaky response": SampledPair(_LEAKY, 0.3),
    "often sampled leaky response": SampledPair(_LEAKY, 1 - 1e-9),
    "reversed sampled leaky response": ReversedPair(SampledPair(_LEAKY, 0.3)),
    "fixed leaky response": FixedSizePair(_LEAKY, 0.3),
    "reversed sampled gaussian": ReversedPair(SampledPair(GaussianPair(1.0), 0.02)),
    "reversed sampled laplace": ReversedPair(SampledPair(LaplacePair(1.0), 0.1)),
    "fixed gaussian": FixedSizePair(GaussianPair(1.5), 0.05),
    "fixed laplace": FixedSizePair(LaplacePair(1.5), 0.05),
    "group": MixturePair((0.81, 0.18, 0.01), (0.0, 0.5, 1.0), (1.0,), (0.0,)),
    "replaced": MixturePair((0.9, 0.1), (0.0, 0.8), (0.9, 0.1), (0.0, -0.8)),
}


def _edges(pair: Pair, count: int = 301) -> np.ndarray:
    low, high = pair.span()
    reach = max(-low, high, 1e-6)
    return np.linspace(max(low, -30) - 0.01 * reach, min(high, 30) + 0.01 * reach, count)


@pytest.mark.parametrize("name", _PAIRS)
def test_masses_sum_to_one_and_are_not_negative(name: str):
    for count in (1, 2, 301):
        masses = _PAIRS[name].masses(_edges(_PAIRS[name], count))
        for mass, error in ((masses.p, masses.p_error), (masses.q, masses.q_error)):
            assert len(mass) == len(error) == count + 1
            assert np.all(mass >= 0)
            assert np.all(error >= 0)
            assert abs(math.fsum(mass) - 1) <= math.fsum(error) + 4 * UNIT * len(mass)


@pytest.mark.parametrize("name", _PAIRS)
def test_the_likelihood_ratio_of_every_cell_is_between_its_edges(name: str):
    pair = _PAIRS[name]
    edges = _edges(pair)
    p, q, p_error, q_error = pair.masses(edges)
    # p <= e^b q and p >= e^a q for a cell (a, b], up to the rounding that the pair admits.
    # Tails near the smallest float, 1e-290 and below, have no digits to compare.
    rough, least = 1e-12, 1e-290
    assert np.all(p[:-1] - p_error[:-1] <= np.exp(edges) * (q[:-1] + q_error[:-1]) * (1 + rough) + least)
    assert np.all(p[1:] + p_error[1:] >= np.exp(edges) * (q[1:] - q_error[1:]) * (1 - rough) - least)


@pytest.mark.parametrize("name", _PAIRS)
def test_atoms_are_where_the_mass_is_and_nowhere_else(name: str):
    pair = _PAIRS[name]
    for atom in pair.atoms():
        around = np.array([atom - 1e-9, atom + 1e-9])
        assert pair.masses(around).p[1] + pair.masses(around).q[1] > 1e-3
    # A cell a thousand times narrower holds much less mass, unless an atom is in it.
    edges = _edges(pair, 2001)
    mass = pair.masses(edges).p[1:-1]
    for cell in np.argsort(mass)[-20:]:
        inner = np.linspace(edges[cell], edges[cell + 1], 1001)
        parts = pair.masses(inner).p[1:-1]
        if parts.max() > 0.3 * mass[cell]:
            low, high = inner[np.argmax(parts)], inner[np.argmax(parts) + 1]
            ends = (-pair.span()[1], pair.span()[1]) if isinstance(pair, FixedSizePair) else ()
            known = (*pair.atoms(), *ends)
            assert any(low - 1e-9 <= atom <= high + 1e-9 for atom in known), (low, high)


@pytest.mark.parametrize("name", _PAIRS)
def test_coarse_cells_are_sums_of_fine_ones(name: str):
    pair = _PAIRS[name]
    fine = _edges(pair, 241)
    coarse = fine[::8]
    mass, whole = pair.masses(fine), pair.masses(coarse)
    for parts, sums in ((mass.p, whole.p), (mass.q, whole.q)):
        added = np.add.reduceat(parts[1:-1], np.arange(0, 240, 8))
        np.testing.assert_allclose(added, sums[1:-1], rtol=1e-9, atol=1e-15)
    for parts, sums in ((mass.p, whole.p), (mass.q, whole.q)):
        np.testing.assert_allclose(parts[[0, -1]], sums[[0, -1]], rtol=1e-12)


@pytest.mark.parametrize("name", _PAIRS)
def test_reversing_twice_changes_nothing(name: str):
    pair = _PAIRS[name]
    edges = _edges(pair) + 1e-7  # off the atoms: a cell is open on one side
    for ours, twice in zip(pair.masses(edges), ReversedPair(ReversedPair(pair)).masses(edges), strict=True):
        np.testing.assert_array_equal(ours, twice)
    assert ReversedPair(ReversedPair(pair)).span() == pair.span()


# --- against many digits


def _normal(z: Any) -> Any:
    return erfc(-z / sqrt(mpf(2))) / 2


def _check(found: np.ndarray, error: np.ndarray, exact: list[Any]) -> None:
    for index, (value, bound, truth) in enumerate(zip(found, error, exact, strict=True)):
        assert abs(mpf(float(value)) - truth) <= mpf(float(bound)) + truth * mpf(10) ** -15, index


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 5.0])
def test_gaussian_masses_are_within_their_stated_error(mu: float):
    edges = np.linspace(-20 * mu, 20 * mu, 41) + 0.1 * mu
    masses = GaussianPair(mu).masses(edges)
    with mp.workdps(250):
        m = mpf(mu)
        z = [mpf(float(edge)) / m + m / 2 for edge in edges]
        for found, error, shift in ((masses.q, masses.q_error, mpf(0)), (masses.p, masses.p_error, m)):
            below = [mpf(0), *(_normal(x - shift) for x in z), mpf(1)]
            _check(found, error, [b - a for a, b in itertools.pairwise(below)])


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 3.0, 30.0])
def test_laplace_masses_are_within_their_stated_error(epsilon: float):
    edges = np.linspace(-1.2, 1.2, 37) * epsilon
    masses = LaplacePair(epsilon).masses(edges)
    with mp.workdps(50):
        e = mpf(epsilon)

        def cdf(x: Any) -> Any:
            return exp(x) / 2 if x < 0 else 1 - exp(-x) / 2

        def below(edge: Any, centre: Any) -> Any:
            """The loss |x| - |x - e| (P at e, Q at 0, scale 1) is at most `edge`."""
            if edge < -e:
                return mpf(0)
            if edge >= e:
                return mpf(1)
            return cdf((edge + e) / 2 - centre)

        for found, error, centre in ((masses.p, masses.p_error, e), (masses.q, masses.q_error, mpf(0))):
            sums = [mpf(0), *(below(mpf(float(edge)), centre) for edge in edges), mpf(1)]
            _check(found, error, [b - a for a, b in itertools.pairwise(sums)])


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.5, 0.5), (3.0, 1e-4), (4.0, 1 - 1e-7)])
def test_sampled_gaussian_masses_are_within_their_stated_error(mu: float, rate: float):
    top = math.log1p(rate * math.expm1(4 * mu))
    edges = np.concatenate(
        [np.linspace(math.log1p(-rate) * 0.999, 0, 20)[:-1], np.linspace(1e-4, 1, 20) * top]
    )
    masses = SampledPair(GaussianPair(mu), rate).masses(edges)
    with mp.workdps(50):
        m, r = mpf(mu), mpf(rate)
        z = [log((exp(mpf(float(edge))) - 1 + r) / r) / m + m / 2 for edge in edges]
        q = [mpf(0), *(_normal(x) for x in z), mpf(1)]
        p = [
            (1 - r) * a + r * b
            for a, b in zip(q, [mpf(0), *(_normal(x - m) for x in z), mpf(1)], strict=True)
        ]
        # Edges are floats: a rounding of e^edge moves a crossing by some u, and with it a little mass.
        moved = 64 * UNIT
        for found, error, sums in ((masses.q, masses.q_error, q), (masses.p, masses.p_error, p)):
            _check(found, error + moved, [b - a for a, b in itertools.pairwise(sums)])


def test_planted_wrong_rate_is_seen_in_the_masses():
    edges = np.linspace(-0.01, 0.3, 50)
    right = SampledPair(GaussianPair(1.0), 0.02).masses(edges)
    wrong = SampledPair(GaussianPair(1.0), 0.0199).masses(edges)
    assert np.abs(right.p - wrong.p).max() > 1e6 * right.p_error.max()


# --- pairs against one another


@settings(max_examples=40)
@given(mu=st.floats(0.01, 5), rate=st.floats(1e-6, 0.999))
def test_a_mixture_of_two_is_the_sampled_pair(mu: float, rate: float):
    sampled = SampledPair(GaussianPair(mu), rate)
    mixture = MixturePair((1 - rate, rate), (0.0, mu), (1.0,), (0.0,))
    low, high = sampled.span()
    edges = np.linspace(max(low, -3) * 0.9, min(high, 10) * 0.9, 101)
    for ours, theirs in zip(sampled.masses(edges)[:2], mixture.masses(edges)[:2], strict=True):
        np.testing.assert_allclose(np.cumsum(ours), np.cumsum(theirs), atol=1e-9)
        np.testing.assert_allclose(np.cumsum(ours[::-1]), np.cumsum(theirs[::-1]), atol=1e-9)


def test_a_mixture_of_one_is_the_gaussian():
    edges = np.linspace(-5, 5, 101)
    gaussian, mixture = GaussianPair(0.8), MixturePair((1.0,), (0.8,), (1.0,), (0.0,))
    for ours, theirs in zip(gaussian.masses(edges)[:2], mixture.masses(edges)[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-15)


def test_a_replaced_record_looks_the_same_from_both_sides():
    pair = _PAIRS["replaced"]
    edges = np.linspace(-1, 1, 41) + 1e-3
    for ours, theirs in zip(pair.masses(edges)[:2], ReversedPair(pair).masses(edges)[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-14)


def _profile(pair: Pair, epsilons: np.ndarray) -> np.ndarray:
    """delta at ascending epsilons, from the masses right of each."""
    p, q, _, _ = pair.masses(epsilons)
    p, q = np.cumsum(p[::-1])[::-1][1:], np.cumsum(q[::-1])[::-1][1:]
    return p - np.exp(epsilons) * q


@pytest.mark.parametrize("inner", [GaussianPair(1.5), LaplacePair(1.5), _RESPONSE])
@pytest.mark.parametrize("rate", [0.003, 0.2, 0.9])
def test_fixed_size_profile_is_the_amplified_one(inner: Pair, rate: float):
    """Balle, Barthe and Gaboardi (2018): delta'(ln(1 + r (e^eps - 1))) = r delta(eps), for eps >= 0."""
    epsilons = np.linspace(0, 1.4, 50)
    amplified = np.array([poisson(float(epsilon), 0.0, rate)[0] for epsilon in epsilons])
    expected = rate * _profile(inner, epsilons)
    np.testing.assert_allclose(_profile(FixedSizePair(inner, rate), amplified), expected, atol=1e-13)


@pytest.mark.parametrize("name", ["fixed gaussian", "fixed laplace"])
def test_fixed_size_profile_is_symmetric(name: str):
    """delta(-eps) = 1 - e^-eps + e^-eps delta(eps): the pair looks the same from both sides."""
    epsilons = np.linspace(1e-3, 2, 40)
    plus = _profile(_PAIRS[name], epsilons)
    minus = _profile(_PAIRS[name], -epsilons[::-1])[::-1]
    np.testing.assert_allclose(minus, -np.expm1(-epsilons) + np.exp(-epsilons) * plus, atol=1e-12)


@pytest.mark.parametrize("rate", [0.01, 0.4])
def test_fixed_size_dominates_both_of_its_halves(rate: float):
    sampled = SampledPair(GaussianPair(1.5), rate)
    epsilons = np.linspace(-3, 3, 121) + 1e-4
    whole = _profile(FixedSizePair(GaussianPair(1.5), rate), epsilons)
    for half in (sampled, ReversedPair(sampled)):
        assert np.all(_profile(half, epsilons) <= whole + 1e-12)


# --- the floating-point model


def test_ndtr_is_as_accurate_as_the_masses_assume():
    """Relative error of a normal tail: at most (16 + 4 z^2) 2^-53, for z from -38 to 0."""
    rng = np.random.default_rng(3)
    z = -np.concatenate([np.linspace(0, 38, 381), rng.uniform(0, 38, 600), 10 ** rng.uniform(-12, 1.5, 200)])
    found = ndtr(z)
    with mp.workdps(60):
        for point, value in zip(z.tolist(), found.tolist(), strict=True):
            exact = _normal(mpf(point))
            bound = (16 + 4 * point**2) * UNIT
            # Below the smallest normal number, left of -37.5, it says zero: cells that weigh nothing.
            assert abs(mpf(value) - exact) <= exact * mpf(bound) + mpf(2) ** -1022, point
