from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument, Unproven
from reticent.core.keys import Keys
from reticent.mechanisms.events import Repeated
from reticent.pate import (
    Confident,
    CostRelease,
    ExponentialMax,
    GaussianMax,
    LaplaceMax,
    Votes,
    divergence,
    sanitise,
    sensitivity,
    unreleased_cost,
)
from reticent.pate.costs import smooth_sensitivity

CHANCE = np.random.default_rng(0)
COUNTS = CHANCE.multinomial(100, [0.9, 0.06, 0.04], 60)
VOTES = Votes(counts=COUNTS, teachers=100)


def exact_divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))


def shares(counts: tuple[int, int], sigma: float) -> np.ndarray:
    """Of GNMax's answers between two classes, exactly."""
    from scipy.special import ndtr

    gap = (counts[0] - counts[1]) / (sigma * math.sqrt(2))
    return np.array([ndtr(gap), ndtr(-gap)])


@pytest.mark.parametrize("counts", [(40, 0), (36, 4), (30, 10), (21, 19), (20, 20)])
@pytest.mark.parametrize("sigma", [3.0, 6.0, 15.0])
def test_the_bound_covers_the_exact_divergence_from_these_votes(counts: tuple[int, int], sigma: float):
    orders = np.array([1.5, 2.0, 4.0, 8.0, 16.0])
    log_wrong = divergence.log_wrong_gaussian(np.array([counts]), sigma)
    bound = divergence.gaussian_max(log_wrong, sigma, orders)[0]
    for there in neighbours_of(counts, sigma):
        for order, value in zip(orders, bound, strict=True):
            assert exact_divergence(shares(counts, sigma), there, order) <= value * (1 + 1e-9)


def test_the_other_direction_is_not_covered_by_it():
    """Which is why a cost with votes in view is no differential privacy, and why we say so."""
    counts, sigma, order = (36, 4), 6.0, 4.0
    log_wrong = divergence.log_wrong_gaussian(np.array([counts]), sigma)
    bound = divergence.gaussian_max(log_wrong, sigma, np.array([order]))[0, 0]
    here = shares(counts, sigma)
    assert max(exact_divergence(there, here, order) for there in neighbours_of(counts, sigma)) > bound
    # Without votes in view both directions are.
    for there in neighbours_of(counts, sigma):
        assert (
            max(exact_divergence(there, here, order), exact_divergence(here, there, order)) < order / sigma**2
        )


def neighbours_of(counts: tuple[int, int], sigma: float) -> list[np.ndarray]:
    moved = [(counts[0] - 1, counts[1] + 1), (counts[0] + 1, counts[1] - 1)]
    return [shares(other, sigma) for other in moved if min(other) >= 0]


def test_the_published_cost_is_never_below_the_one_with_votes_in_view():
    for noise in (GaussianMax(sigma=20.0), LaplaceMax(gamma=0.05)):
        private = unreleased_cost(VOTES, noise).epsilon(1e-5)
        public = tight(Repeated(event=noise.event, times=VOTES.queries), 1e-5).upper
        assert 0 < private < public


def test_what_was_not_answered_costs_its_check_alone():
    noise = Confident(threshold=80.0, sigma_check=30.0, sigma=10.0)
    none = unreleased_cost(VOTES, noise, is_answered=np.zeros(60, bool))
    some = unreleased_cost(VOTES, noise, is_answered=np.arange(60) < 30)
    every = unreleased_cost(VOTES, noise, is_answered=np.ones(60, bool))
    assert 0 < none.epsilon(1e-5) < some.epsilon(1e-5) < every.epsilon(1e-5)
    assert np.allclose(
        some.curve
        - none.curve
        + unreleased_cost(Votes(counts=COUNTS[30:], teachers=100), GaussianMax(sigma=10.0)).curve,
        every.curve - none.curve,
    )


def test_the_private_number_is_marked():
    cost = unreleased_cost(VOTES, GaussianMax(sigma=20.0))
    assert "UNRELEASED" in cost.in_words(1e-5)
    assert "private" in repr(cost)
    assert "curve" not in repr(cost)


def test_what_has_no_theorem_is_refused():
    with pytest.raises(Unproven):
        unreleased_cost(VOTES, ExponentialMax(gamma=0.1))
    release = CostRelease(order=10, beta=0.03, sigma=6.0)
    with pytest.raises(Unproven):
        sanitise(
            VOTES, LaplaceMax(gamma=0.1), release, delta=1e-5, keys=Keys.seeded(0), is_answered=np.ones(60)
        )
    with pytest.raises(Unproven, match="conditions"):
        smooth_sensitivity(VOTES, GaussianMax(sigma=20.0), CostRelease(order=25.0, beta=0.01, sigma=6.0))
    with pytest.raises(InvalidArgument):
        CostRelease(order=14, beta=0.04, sigma=6.0)
    with pytest.raises(InvalidArgument):
        CostRelease(order=14, beta=0.03, sigma=0.0)


def test_local_sensitivity_covers_every_neighbour_by_brute_force():
    """All votes within two moves of these, and all their neighbours: no cost moves by more than LS(d)."""
    teachers, sigma, order = 12, 3.0, 4.0
    start = (8, 3, 1)

    def cost(counts: tuple[int, ...]) -> float:
        log_wrong = divergence.log_wrong_gaussian(np.array([counts]), sigma)
        return float(divergence.gaussian_max(log_wrong, sigma, np.array([order]))[0, 0])

    def moves(counts: tuple[int, ...]) -> set[tuple[int, ...]]:
        found = set()
        for source in range(3):
            for target in range(3):
                if source != target and counts[source] > 0:
                    moved = list(counts)
                    moved[source] -= 1
                    moved[target] += 1
                    found.add(tuple(moved))
        return found

    local = sensitivity.gaussian_max(np.array([start]), teachers, sigma=sigma, order=order)[0]
    reached = np.maximum.accumulate(local)
    ring = {start}
    for distance in range(4):
        worst = max(abs(cost(one) - cost(other)) for one in ring for other in moves(one))
        assert worst <= reached[distance] * (1 + 1e-9)
        ring = ring | {other for one in ring for other in moves(one)}


def test_sanitised_numbers_cover_the_truth_as_often_as_they_say():
    noise = GaussianMax(sigma=20.0)
    answered = np.ones(60, bool)
    release = CostRelease(order=8.0, beta=0.04, sigma=5.0, confidence=0.9)
    truth = unreleased_cost(VOTES, noise, is_answered=answered, orders=np.array([8.0]))
    at_order = truth.epsilon(1e-5) + release.divergence
    found = [
        sanitise(VOTES, noise, release, delta=1e-5, keys=Keys.seeded(seed), is_answered=answered).epsilon
        for seed in range(150)
    ]
    share = np.mean(np.array(found) >= at_order)
    assert 0.8 <= share <= 0.98
    assert "sanitised" in str(
        sanitise(VOTES, noise, release, delta=1e-5, keys=Keys.seeded(0), is_answered=answered)
    )


def test_smooth_sensitivity_is_smooth():
    """Neighbours' values differ by at most the factor e^beta: the property that hides them."""
    release = CostRelease(order=6.0, beta=0.05, sigma=5.0)
    noise = GaussianMax(sigma=8.0)
    here = smooth_sensitivity(VOTES, noise, release)
    for seed in range(20):
        chance = np.random.default_rng(seed)
        counts = COUNTS.copy()
        for row in counts:  # the same teacher votes otherwise on every question
            source = chance.choice(np.flatnonzero(row))
            row[source] -= 1
            row[chance.integers(3)] += 1
        there = smooth_sensitivity(Votes(counts=counts, teachers=100), noise, release)
        assert math.exp(-0.05) * (1 - 1e-9) <= there / here <= math.exp(0.05) * (1 + 1e-9)


def test_queries_may_be_at_different_distances():
    """With two teachers changed, one question may be at its worst and the other as it was."""
    local = np.array([[5.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    assert sensitivity.smooth(local, 0.01) == pytest.approx(10 * math.exp(-0.02))
