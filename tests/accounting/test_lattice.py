"""Rounding to a lattice: up dominates, down is dominated, at every epsilon and for any choice of lattice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.loss_distribution.lattice import Lattice, cut_offs, round_down, round_up, sketch
from reticent.accounting.loss_distribution.pairs import (
    AtomPair,
    FixedSizePair,
    GaussianPair,
    LaplacePair,
    MixturePair,
    Pair,
    ReversedPair,
    SampledPair,
)

_LN_3 = math.log(3)
_PAIRS: dict[str, Pair] = {
    "gaussian": GaussianPair(0.5),
    "tiny gaussian": GaussianPair(2e-3),
    "sampled gaussian": SampledPair(GaussianPair(1.0), 0.02),
    "reversed sampled gaussian": ReversedPair(SampledPair(GaussianPair(1.0), 0.02)),
    "often sampled gaussian": SampledPair(GaussianPair(1.0), 0.7),
    "laplace": LaplacePair(0.6),
    "sampled laplace": SampledPair(LaplacePair(0.6), 0.1),
    "reversed sampled laplace": ReversedPair(SampledPair(LaplacePair(0.6), 0.1)),
    "response": AtomPair((-_LN_3, 0.0, _LN_3), (0.2, 0.2, 0.6), (0.6, 0.2, 0.2)),
    "leaky": AtomPair((-math.inf, -_LN_3, _LN_3, math.inf), (0.0, 0.24, 0.72, 0.04), (0.04, 0.72, 0.24, 0.0)),
    "fixed gaussian": FixedSizePair(GaussianPair(1.0), 0.05),
    "replaced": MixturePair((0.9, 0.1), (0.0, 0.8), (0.9, 0.1), (0.0, -0.8)),
}
_EPSILONS = np.concatenate([-np.geomspace(1e-5, 4, 60)[::-1], [0.0], np.geomspace(1e-5, 4, 60)])


def exact_profile(pair: Pair, epsilons: np.ndarray) -> np.ndarray:
    p, q, _, _ = pair.masses(epsilons)
    return np.cumsum(p[::-1])[::-1][1:] - np.exp(epsilons) * np.cumsum(q[::-1])[::-1][1:]


def lattice_profile(lattice: Lattice, epsilons: np.ndarray) -> np.ndarray:
    gains = np.maximum(-np.expm1(epsilons[:, None] - lattice.losses), 0.0)
    return lattice.infinite + gains @ lattice.masses


def _ends(pair: Pair, left: float, right: float) -> tuple[float, float]:
    return cut_offs(sketch(pair), left=left, right=right)


@pytest.mark.parametrize("name", _PAIRS)
@settings(max_examples=25)
@given(
    cells=st.floats(1.5, 400),
    shift=st.floats(-1, 1),
    left=st.sampled_from([1e-3, 1e-8, 0.0]),
    right=st.sampled_from([1e-3, 1e-10, 0.0]),
    tilt=st.floats(0.01, 100),
)
def test_rounding_keeps_the_truth_on_the_right_side(
    name: str, cells: float, shift: float, left: float, right: float, tilt: float
):
    pair = _PAIRS[name]
    low, high = _ends(pair, left, right)
    spacing = max(high - low, 1e-3) / cells
    offset = shift * spacing
    exact = exact_profile(pair, _EPSILONS)
    above = lattice_profile(round_up(pair, spacing, offset, low, high), _EPSILONS)
    below = lattice_profile(round_down(pair, spacing, offset, low, high, tilt), _EPSILONS)
    assert np.all(above >= exact - 1e-15)
    # The lower one drops mass, so it need not be near the truth on the left; it must not be above it.
    assert np.all(below <= exact + 1e-15)


@pytest.mark.parametrize("name", _PAIRS)
def test_fine_lattices_are_close_to_the_truth(name: str):
    pair = _PAIRS[name]
    low, high = _ends(pair, 1e-9, 1e-12)
    spacing = (high - low) / 2000
    offset = math.fmod(pair.atoms()[0], spacing) if pair.atoms() else 0.0
    epsilons = _EPSILONS[(_EPSILONS > 0) & (high > _EPSILONS)]
    exact = exact_profile(pair, epsilons)
    above = lattice_profile(round_up(pair, spacing, offset, low, high), epsilons)
    below = lattice_profile(round_down(pair, spacing, offset, low, high, 1.0), epsilons)
    assert np.all(above - exact <= 1e-3 * exact[0] + 1e-11)
    assert np.all(exact - below <= 5e-3 * exact[0] + 1e-11)


@pytest.mark.parametrize("name", _PAIRS)
def test_rounding_up_keeps_all_mass_and_an_infinite_loss_stays_infinite(name: str):
    pair = _PAIRS[name]
    low, high = _ends(pair, 1e-6, 1e-6)
    up = round_up(pair, (high - low) / 50, 0.0, low, high)
    assert math.fsum(up.masses) + up.infinite == pytest.approx(1.0, abs=1e-12)
    assert math.fsum(up.masses) + up.infinite >= 1 - 1e-15
    if name == "leaky":
        assert up.infinite >= 0.04


def test_no_outcome_counts_twice_when_cuts_pass_one_another():
    # Fitting cuts to the left edge of the support once put them out of order: 1.5e-7 of mass too much.
    pair = GaussianPair(2e-3)
    low, high = _ends(pair, 1e-8, 0.0)
    down = round_down(pair, (high - low) / 48, 0.0, low, high, 1.0)
    assert math.fsum(down.masses) + down.infinite <= 1


@pytest.mark.parametrize("name", _PAIRS)
@settings(max_examples=25)
@given(
    cells=st.floats(1.5, 400),
    shift=st.floats(-1, 1),
    left=st.sampled_from([1e-3, 1e-8]),
    tilt=st.floats(0.01, 99),
)
def test_rounding_down_never_adds_mass(name: str, cells: float, shift: float, left: float, tilt: float):
    pair = _PAIRS[name]
    low, high = _ends(pair, left, 1e-12)
    spacing = max(high - low, 1e-3) / cells
    down = round_down(pair, spacing, shift * spacing, low, high, tilt)
    assert math.fsum(down.masses) + down.infinite <= 1 + 1e-15


def test_both_ends_of_a_discrete_pair_can_be_hit_exactly():
    pair = _PAIRS["response"]
    up = round_up(pair, _LN_3 / 4, 0.0, -_LN_3, _LN_3)
    down = round_down(pair, _LN_3 / 4, 0.0, -_LN_3, _LN_3, 1.0)
    for lattice in (up, down):
        heavy = lattice.losses[lattice.masses > 1e-9]
        np.testing.assert_allclose(heavy, [-_LN_3, 0.0, _LN_3], atol=1e-9)


def test_planted_rounding_to_the_nearest_point_is_not_an_upper_bound():
    pair, spacing = GaussianPair(0.5), 0.2
    edges = spacing * (np.arange(-20, 22) - 0.5)
    p, _, _, _ = pair.masses(edges)
    nearest = Lattice(spacing, 0.0, -20, p[1:-1], float(p[-1]))
    assert np.any(lattice_profile(nearest, _EPSILONS) < exact_profile(pair, _EPSILONS) - 1e-6)


def test_planted_dropped_infinite_mass_is_not_an_upper_bound():
    pair = _PAIRS["leaky"]
    up = round_up(pair, 0.1, 0.0, -_LN_3, _LN_3)
    planted = up._replace(infinite=0.0)
    assert np.all(lattice_profile(up, _EPSILONS) >= exact_profile(pair, _EPSILONS) - 1e-15)
    assert np.any(lattice_profile(planted, _EPSILONS) < exact_profile(pair, _EPSILONS) - 1e-3)


def test_a_sketch_is_a_copy_of_the_pair():
    for pair in _PAIRS.values():
        copy = sketch(pair)
        assert 0.95 < math.fsum(copy.masses) <= 1 + 1e-12  # what is infinite is not in it
        low, high = cut_offs(copy, left=1e-4, right=1e-4)
        p = pair.masses(np.array([low, high])).p if low < high else np.zeros(3)
        assert p[0] <= 1e-4 * (1 + 1e-9)
