"""Votes with whole-number noise: the grid is public, and what is proved for real noise holds for it.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms.whole import deviation_of
from reticent.pate import (
    Confident,
    CostRelease,
    GaussianMax,
    LaplaceMax,
    Votes,
    divergence,
    grid,
    publishing,
    sanitise,
    unreleased_cost,
)
from reticent.pate.costs import smooth_sensitivity
from reticent.pate.grid import LaplaceGrid, NormalGrid, in_steps

RARE = 1e-6  # a false alarm of each statistical test
VOTES = Votes(counts=np.tile([60, 30, 10], (20_000, 1)), teachers=100)


def source(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed))


# What is drawn


def test_noisy_counts_lie_on_a_public_grid() -> None:
    noise = GaussianMax(sigma=12.5)
    noisy, parts = noise.noisy(source(), VOTES), noise.grid.parts
    assert np.array_equal(np.rint(noisy * parts) / parts, noisy)
    assert stats.kstest((noisy - VOTES.counts).ravel() / 12.5, "norm").pvalue > RARE
    assert stats.kstest((noisy - VOTES.counts).ravel() / 6.25, "norm").pvalue < RARE  # planted: halved


@pytest.mark.parametrize("sigma", [1e-3, 0.5, 40.0, 1e4, 1e9])
def test_noise_is_hardly_more_than_asked_for(sigma: float) -> None:
    found = NormalGrid.of(sigma)
    assert sigma <= found.deviation <= sigma * (1 + 2.0**-17)
    assert found.deviation <= sigma * (1 + 2.0**-31) or sigma > 1e5
    assert deviation_of(found.levels) * found.step == pytest.approx(found.deviation)


@pytest.mark.parametrize("scale", [1e-3, 0.5, 20.0, 1e12])
def test_laplace_noise_is_what_was_asked_for(scale: float) -> None:
    found = LaplaceGrid.of(scale)
    assert found.scale * found.step == pytest.approx(scale, rel=1e-14)
    assert found.scale * found.step >= scale
    assert found.step / scale <= 2.0**-36 or found.step == 1


def test_beliefs_are_rounded_before_they_meet_a_count() -> None:
    """The largest of counts less beliefs moves by exactly as much as the counts do."""
    confident = Confident(threshold=20.0, sigma_check=5.0, sigma=1.0)
    beliefs = np.tile([1 / 3, 1 / 3, 1 / 3], (VOTES.queries, 1))
    passed = confident.passes(source(), VOTES, beliefs)
    exact = float(ndtr((60 - 100 / 3 - 20) / 5))
    assert stats.binomtest(int(passed.sum()), VOTES.queries, exact).pvalue > RARE
    halved = float(ndtr((60 - 100 / 3 - 20) / 2.5))
    assert stats.binomtest(int(passed.sum()), VOTES.queries, halved).pvalue < RARE  # planted
    parts = confident.check_grid.parts
    one, other = (in_steps(np.array([counts]), parts, 100) for counts in ([60, 40], [59, 41]))
    assert np.array_equal(one - other, [[parts, -parts]])


def test_too_many_teachers_for_the_grid_are_refused_whatever_they_vote() -> None:
    many = Votes(counts=np.array([[0, 1 << 24]]), teachers=1 << 24)
    with pytest.raises(InvalidArgument, match="64 bits"):
        GaussianMax(sigma=1e-12).answer(source(), many)
    with pytest.raises(InvalidArgument, match="64 bits"):
        LaplaceMax(gamma=1e6).answer(source(), many)


# What is proved for real noise


def wrong_normal(gap: int, deviation: float) -> float:
    """P(D >= gap), in steps, for the difference of two discrete normals; a tie is wrong."""
    reach = np.arange(-int(40 * deviation), int(40 * deviation) + 1)
    law = np.exp(-(reach**2) / (4 * deviation**2))
    return float(law[reach >= gap].sum() / law.sum())


def wrong_laplace(gap: int, scale: float) -> float:
    """The same for two discrete Laplace numbers, by convolution."""
    reach = np.arange(-int(45 * scale), int(45 * scale) + 1)
    law = np.exp(-np.abs(reach) / scale)
    twice = np.convolve(law, law) / law.sum() ** 2
    return float(twice[np.arange(len(twice)) - len(law) + 1 >= gap].sum())


@pytest.mark.parametrize("steps", [8, 50])
@pytest.mark.parametrize("votes", [0, 1, 2, 5, 20])
def test_a_wrong_answer_is_no_likelier_than_the_formulas_say(steps: int, votes: int) -> None:
    """Noise of deviation 5 votes, or scale 5 votes, on a coarse grid of so many steps."""
    step = 5 / steps
    gap = round(votes / step)
    counts = np.array([[gap * step, 0.0]])
    for wrong, bound in (
        (wrong_normal(gap, steps), divergence.log_wrong_gaussian),
        (wrong_laplace(gap, steps), divergence.log_wrong_laplace),
    ):
        even = 0.5 * (1 - 1e-12)
        assert wrong <= np.exp(bound(counts, 5.0, step=step)[0]) or wrong > even
        if gap:
            assert wrong > np.exp(bound(counts, 5.0)[0])  # without the step the formula is too small


@pytest.mark.parametrize("ahead", [-12, -3, -1, 0, 1, 2, 9])
def test_the_unlikely_end_of_a_check_is_no_likelier_than_the_formula_says(ahead: int) -> None:
    """Noise of deviation 4 steps on a grid of steps of one, and thresholds on it and between."""
    reach = np.arange(-200, 201)
    law = np.exp(-(reach**2) / 32)
    for threshold in (0.0, 0.3, 0.5, 0.99):
        passing = law[ahead + reach >= threshold].sum() / law.sum()
        log_pass = divergence.log_pass_probability(np.array([[float(ahead)]]), threshold, 4.0, step=1.0)[0]
        bound = min(math.exp(log_pass), -math.expm1(log_pass))
        assert min(passing, 1 - passing) <= bound * (1 + 1e-9)


ORDERS = np.array([2.0, 5.0, 9.0])
SURE = Votes(counts=np.array([[90, 6, 4], [80, 15, 5], [70, 20, 10]]), teachers=100)


@pytest.mark.parametrize(
    "noise",
    [GaussianMax(sigma=9.0), LaplaceMax(gamma=0.1), Confident(threshold=60.0, sigma_check=9.0, sigma=9.0)],
)
def test_costs_are_those_of_the_noise_that_is_drawn(
    monkeypatch: pytest.MonkeyPatch, noise: GaussianMax | LaplaceMax | Confident
) -> None:
    """On a grid so coarse that its step can be seen: gaps a step smaller, at the deviation that is drawn."""
    real = unreleased_cost(SURE, noise, is_answered=np.ones(3), orders=ORDERS).curve
    monkeypatch.setattr(grid, "_FINE", 8)
    monkeypatch.setattr(grid, "_FINE_LAPLACE", 8)
    drawn, check = np.zeros((3, 3)), np.zeros((3, 3))
    if isinstance(noise, LaplaceMax):
        step = noise.grid.step
        drawn = divergence.pure_dp(divergence.log_wrong_laplace(SURE.counts, 10.0, step=step), 0.2, ORDERS)
    else:
        vote = noise.vote.grid if isinstance(noise, Confident) else noise.grid
        wrong = divergence.log_wrong_gaussian(SURE.counts, vote.deviation, step=vote.step)
        drawn = divergence.gaussian_max(wrong, vote.deviation, ORDERS)
    if isinstance(noise, Confident):
        at = noise.check_grid
        passing = divergence.log_pass_probability(SURE.counts, 60.0, at.deviation, step=at.step)
        check = divergence.gaussian_check(passing, at.deviation, ORDERS)
    coarse = unreleased_cost(SURE, noise, is_answered=np.ones(3), orders=ORDERS).curve
    assert coarse == pytest.approx((drawn + check).sum(axis=0), rel=1e-12)
    assert np.all(np.abs(coarse / real - 1) > 1e-4)  # it can be seen


# Smooth sensitivity


@pytest.mark.parametrize(
    "noise", [GaussianMax(sigma=20.0), Confident(threshold=60.0, sigma_check=30.0, sigma=20.0)]
)
def test_a_sanitised_cost_hides_what_is_smooth_after_rounding(
    monkeypatch: pytest.MonkeyPatch, noise: GaussianMax | Confident
) -> None:
    """The sensitivity at a slower beta, the floor on top, and a public bound that nothing passes."""
    told = {}
    exact = publishing.add_smooth_noise

    def spied(source, value, smooth, *, sigma, most):
        told.update(value=value, smooth=smooth, sigma=sigma, most=most)
        return exact(source, value, smooth, sigma=sigma, most=most)

    monkeypatch.setattr(publishing, "add_smooth_noise", spied)
    release, answered = CostRelease(order=5.0, beta=0.05, sigma=5.0), np.ones(3)
    sanitise(SURE, noise, release, delta=1e-5, keys=Keys.seeded(0), is_answered=answered)
    slower = replace(release, beta=0.05 * (1 - 2.0**-20))
    smooth = smooth_sensitivity(SURE, noise, slower, is_answered=answered)
    most = 3 * (5 / 400 + (5 / 1800 if isinstance(noise, Confident) else 0))
    assert told["most"] == pytest.approx(most, rel=1e-12)
    assert smooth <= most
    assert told["smooth"] - smooth == pytest.approx(most * 2.0**-20, rel=1e-6)
    assert smooth > smooth_sensitivity(SURE, noise, release, is_answered=answered)
    cost = unreleased_cost(SURE, noise, is_answered=answered, orders=np.array([5.0])).curve[0]
    assert told["value"] == pytest.approx(cost + told["smooth"] * 5 * release.margin, rel=1e-12)
    assert told["sigma"] == 5.0


def test_the_grid_of_a_published_cost_does_not_show_its_noise() -> None:
    most, sigma = 3.0, 5.0
    step = publishing.grid_of(most, sigma)
    assert math.frexp(step)[0] == 0.5
    chance = source()
    for smooth in (0.0, 1e-12, 1e-3, 1.0, 2.9, 50.0):
        floored = publishing.add_floor(smooth, most)
        assert 2.0**-20 * most <= floored <= most * (1 + 2.0**-20)
        noisy = publishing.add_smooth_noise(chance, 0.7, floored, sigma=sigma, most=most)
        assert (noisy / step).is_integer()


@pytest.mark.parametrize("smooth", [0.0, 0.25])
def test_the_noise_of_a_published_cost_is_in_proportion(smooth: float) -> None:
    floored = publishing.add_floor(smooth, 1.0)
    chance = source(3)
    drawn = [
        publishing.add_smooth_noise(chance, 0.7, floored, sigma=4.0, most=1.0) - 0.7 for _ in range(3_000)
    ]
    assert stats.kstest(np.array(drawn) / (4 * floored), "norm").pvalue > RARE
    assert stats.kstest(np.array(drawn) / (2 * floored), "norm").pvalue < RARE  # planted: halved
    assert np.std(drawn) < 1.2 * 4 * (smooth + 2.0**-20)


def test_a_published_cost_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        publishing.add_smooth_noise(source(), math.nan, 0.1, sigma=1.0, most=1.0)
