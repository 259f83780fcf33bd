"""Random allocation: its bracket against the release itself, on a grid, and against sampled losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

from reticent.accounting.accountants import account
from reticent.accounting.loss_distribution import lognormal_sums
from reticent.accounting.loss_distribution.allocation import AllocatedPair
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.loss_distribution.pairs import ReversedPair
from reticent.accounting.tight_epsilon import tight, upper_bound
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Allocated, Composed, Event, Gaussian, PoissonSampled, Repeated

_ADD = Adjacency.ADD_OR_REMOVE
_BLANK = Adjacency.ZERO_OUT


def allocated(noise: float, steps: int, epochs: int = 1, **how: int) -> Event:
    step = Allocated(steps=steps, event=Gaussian(noise_multiplier=noise), **how)
    return Repeated(event=step, times=epochs)


def density(noise: float, shifts: list[tuple[float, ...]], weights: list[float], points: int) -> np.ndarray:
    """Of a mixture of unit normals at these points over the noise, on a grid of every dimension: masses."""
    grid = np.linspace(-9 - 2 / noise, 9 + 2 / noise, points)
    found = np.zeros((points,) * len(shifts[0]))
    for shift, weight in zip(shifts, weights, strict=True):
        axes = [np.exp(-((grid - s / noise) ** 2) / 2) for s in shift]
        product = axes[0]
        for axis in axes[1:]:
            product = np.multiply.outer(product, axis)
        found += weight * product / product.sum()
    return found.ravel()


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def worst(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def unit(at: tuple[int, ...], steps: int) -> tuple[float, ...]:
    return tuple(float(step in at) for step in range(steps))


@pytest.mark.parametrize("delta", [0.1, 1e-2, 1e-5])
@pytest.mark.parametrize(
    ("noise", "steps", "times", "released", "points"),
    [(1.0, 2, 1, 2, 1201), (0.5, 2, 1, 2, 1201), (0.8, 3, 1, 2, 801), (4.0, 5, 1, 1, 801)],
)
def test_a_round_is_bracketed_and_the_bracket_is_narrow(
    noise: float, steps: int, times: int, released: int, points: int, delta: float
):
    shifts = [unit((at,), steps)[:released] for at in range(steps)]
    p = density(noise, shifts, [1 / steps] * steps, points)
    q = density(noise, [(0.0,) * released], [1.0], points)
    cost = tight(allocated(noise, steps, times=times, released=released), delta)
    slack = 3e-4  # of the grid
    assert worst(p, q, cost.upper) <= delta * (1 + slack)
    assert cost.lower == 0 or worst(p, q, cost.lower) >= delta * (1 - slack)
    assert cost.upper - cost.lower <= 4e-3 * cost.upper + 1e-3


@pytest.mark.parametrize(
    ("steps", "times", "released"), [(3, 2, 3), (3, 2, 2), (2, 2, 2), (3, 3, 3), (4, 3, 4)]
)
def test_several_of_t_are_bracketed(steps: int, times: int, released: int):
    shifts = [unit(some, steps)[:released] for some in itertools.combinations(range(steps), times)]
    points = {2: 801, 3: 161, 4: 41}[released]
    p = density(1.0, shifts, [1 / len(shifts)] * len(shifts), points)
    q = density(1.0, [(0.0,) * released], [1.0], points)
    for delta in (0.1, 1e-4):
        cost = tight(allocated(1.0, steps, times=times, released=released), delta)
        assert worst(p, q, cost.upper) <= delta * (1 + 2e-3)
        assert worst(p, q, cost.lower) >= delta * (1 - 2e-3)


def test_steps_that_blocks_leave_over_are_used():
    """Seven steps in three blocks: of 3, 2 and 2. Between three blocks of 2 and three of 3."""
    some = tight(allocated(1.0, 7, times=3), 1e-5).upper
    short, long = (tight(allocated(1.0, steps, epochs=3), 1e-5).upper for steps in (2, 3))
    product = Composed(events=(allocated(1.0, 2, epochs=2), allocated(1.0, 3)))
    assert long < some < 0.97 * short
    assert some == pytest.approx(tight(product, 1e-5).upper, rel=2e-3)


def call(mu: float, strike: np.ndarray) -> np.ndarray:
    """E (X - strike)+ of a lognormal number of mean 1."""
    positive = np.maximum(strike, 1e-300)
    z = -np.log(positive) / mu
    return np.where(strike > 0, ndtr(z + mu / 2) - positive * ndtr(z - mu / 2), 1 - strike)


def lognormal_numbers(mu: float, points: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.linspace(-8, 9, points)
    weights = np.exp(-nodes * nodes / 2)
    return np.exp(mu * nodes - mu * mu / 2), weights / weights.sum()


def call_of_mean(mu: float, steps: int, strike: float, points: int) -> float:
    """E (S - strike)+ of a mean of so many, by quadrature over all but one of them."""
    x, weights = lognormal_numbers(mu, points)
    sums, chances = np.zeros(1), np.ones(1)
    for _ in range(steps - 1):
        sums, chances = np.add.outer(sums, x).ravel(), np.multiply.outer(chances, weights).ravel()
    return float(call(mu, steps * strike - sums) @ chances) / steps


def larger_delta(call_at: Callable[[float], float], epsilon: float) -> float:
    """Removed, E (S - e^epsilon)+; added, E (1 - e^epsilon S)+, by the parity of calls and puts."""
    above, below = math.exp(epsilon), math.exp(-epsilon)
    return max(call_at(above), (call_at(below) - 1 + below) / below)


@pytest.mark.parametrize("noise", [0.8, 3.0])
def test_three_steps_are_bracketed(noise: float):
    for delta in (1e-2, 1e-5):
        cost = tight(allocated(noise, 3), delta)
        exact = [
            larger_delta(lambda a: call_of_mean(1 / noise, 3, a, 1001), end)
            for end in (cost.upper, cost.lower)
        ]
        assert exact[0] <= delta * (1 + 1e-4)
        assert exact[1] >= delta * (1 - 1e-4)
        assert cost.upper - cost.lower <= 4e-3 * cost.upper


@pytest.mark.parametrize("noise", [1.0, 2.0])
def test_two_epochs_compose(noise: float):
    """Of two rounds of two steps: E (S S' - a)+ = E S c(a / S), where c is what one round has."""
    mu = 1 / noise
    strikes = np.geomspace(1e-6, 1e6, 2001)
    once = np.array([call_of_mean(mu, 2, strike, 1001) for strike in strikes.tolist()])
    x, weights = lognormal_numbers(mu, 401)
    numbers, chances = np.add.outer(x, x).ravel() / 2, np.multiply.outer(weights, weights).ravel()

    def call_at(strike: float) -> float:
        return float((numbers * np.interp(np.log(strike / numbers), np.log(strikes), once)) @ chances)

    for delta in (0.1, 1e-4):
        cost = tight(allocated(noise, 2, epochs=2), delta)
        assert larger_delta(call_at, cost.upper) <= delta * (1 + 1e-3)
        assert larger_delta(call_at, cost.lower) >= delta * (1 - 1e-3)
        assert cost.upper - cost.lower <= 5e-3 * cost.upper


@pytest.mark.parametrize("adjacency", [_ADD, _BLANK])
@pytest.mark.parametrize("others", [(0.0, 0.0, 0.0), (-1.0, -1.0, -1.0), (-1.0, 1.0, -1.0)])
def test_overfull_batches_are_bracketed(others: tuple[float, ...], adjacency: Adjacency):
    """Two steps with room for two, every way of allocating three others; a new record comes first."""
    capacity, noise = 2, 1.5

    def released(values: tuple[float, ...]) -> np.ndarray:
        ways = list(itertools.product((0, 1), repeat=len(values)))
        sums = []
        for way in ways:
            kept = [
                [v for v, at in zip(values, way, strict=True) if at == step][:capacity] for step in (0, 1)
            ]
            sums.append((sum(kept[0]), sum(kept[1])))
        return density(noise, sums, [1 / len(ways)] * len(ways), 401)

    p = released((1.0, *others))
    q = released(others if adjacency is _ADD else (0.0, *others))
    event = allocated(noise, 2, capacity=capacity, examples=3)
    for delta in (0.05, 1e-4):
        cost = tight(event, delta, adjacency)
        assert worst(p, q, cost.upper) <= delta * (1 + 1e-4)
        if not any(others):
            assert worst(p, q, cost.lower) >= delta * (1 - 1e-4)


def test_a_record_that_pushes_another_out_costs_more_than_without():
    """What the last test would not see: with opposite records the pair without truncation is exceeded."""
    roomy, narrow = (allocated(1.5, 2, **how) for how in ({}, {"capacity": 1, "examples": 3}))
    assert tight(narrow, 1e-4).upper > 1.3 * tight(roomy, 1e-4).upper
    nearly = allocated(1.1, 235, 60, capacity=450, examples=60_977)
    assert tight(nearly, 1e-5).upper == pytest.approx(tight(allocated(1.1, 235, 60), 1e-5).upper, rel=1e-3)


@pytest.mark.parametrize(("noise", "steps"), [(0.7, 60), (0.5, 1000), (2.0, 300)])
def test_many_steps_agree_with_sampled_losses(noise: float, steps: int):
    """Delta at both ends, each direction, from 10,000 draws: six standard deviations, 2e-9 by chance."""
    random, mu = np.random.default_rng(5), 1 / noise
    z = random.standard_normal((10_000, steps), np.float32).astype(np.float64)
    without = np.exp(mu * z - mu * mu / 2).mean(axis=1)
    z[:, 0] += mu
    ratio = np.exp(mu * z - mu * mu / 2).mean(axis=1)
    edges = np.linspace(-6, 9, 6001)
    for side in ("removed", "added"):
        above, below = (_profile(mu, steps, side, is_upper, edges) for is_upper in (True, False))
        for epsilon in (0.05, 0.2, 1.0):
            gain = math.exp(epsilon) * without if side == "added" else math.exp(epsilon) / ratio
            sample = np.maximum(1 - gain, 0)
            found, deviation = sample.mean(), sample.std() / math.sqrt(len(sample)) + 1e-6
            high, low = above(epsilon), below(epsilon)
            assert found - 6 * deviation <= high
            assert found + 6 * deviation >= low
            assert low <= high <= low + 0.03 * low + 1e-5


def _profile(mu: float, steps: int, side: str, is_upper: bool, edges: np.ndarray) -> Callable[[float], float]:
    pair = AllocatedPair(mu, steps, side="removed" if side == "removed" else "added", is_upper=is_upper)
    masses = (pair if side == "removed" else ReversedPair(pair)).masses(edges)
    return lambda epsilon: float(np.maximum(masses.p - math.exp(epsilon) * masses.q, 0).sum())


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("steps", [1, 2])
def test_laws_of_sums_lie_on_either_side_in_the_convex_order(mu: float, steps: int):
    """Every stop-loss mean, by quadrature over all but the last number."""
    upper, lower = (lognormal_sums.law_of_sum(mu, steps, is_upper=is_upper) for is_upper in (True, False))
    assert lower.means is not None
    numbers = np.exp(upper.spacing * (upper.first + np.arange(len(upper.masses))))
    for strike in (steps * np.exp(mu * np.linspace(-3, 4, 15))).tolist():
        exact = steps * call_of_mean(mu, steps, strike / steps, 20_001)
        above = float(np.maximum(numbers - strike, 0) @ upper.masses) + upper.infinite
        below = float(np.maximum(lower.means - strike * lower.masses, 0).sum())
        assert below <= exact * (1 + 1e-7) + 1e-9
        assert above >= exact * (1 - 1e-7) - 1e-9
        assert above - below <= 0.02 * exact + 1e-6
    mean = float(numbers @ upper.masses) + upper.infinite
    assert mean == pytest.approx(steps, rel=1e-9)
    assert float(lower.means.sum()) == pytest.approx(steps, rel=1e-9)
    assert float(upper.masses.sum()) + upper.zero == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("steps", [5, 6, 7, 12, 100, 235])
def test_means_and_variances_of_sums_are_those_of_their_terms(steps: int):
    mu = 0.5
    upper, lower = (lognormal_sums.law_of_sum(mu, steps, is_upper=is_upper) for is_upper in (True, False))
    assert lower.means is not None
    numbers = np.exp(upper.spacing * (upper.first + np.arange(len(upper.masses))))
    exact = steps * math.expm1(mu * mu)
    above = float((numbers - steps) ** 2 @ upper.masses)
    below = float((lower.means**2 / np.maximum(lower.masses, 1e-300)).sum()) - steps**2
    assert exact * 0.985 <= below <= exact * (1 + 1e-9) <= above * (1 + 2e-9) <= exact * 1.015


def test_more_steps_cost_less_and_more_of_them_cost_more():
    costs = [tight(allocated(0.8, steps), 1e-5) for steps in (1, 2, 5, 30, 300)]
    assert all(a.lower >= b.upper for a, b in itertools.pairwise(costs))
    some = [tight(allocated(0.8, 30, released=released), 1e-5) for released in (1, 10, 29)]
    assert all(a.upper <= b.lower for a, b in itertools.pairwise([*some, costs[3]]))
    often = [tight(allocated(0.8, 30, times=times), 1e-5).upper for times in (1, 2, 5, 15, 30)]
    assert often == sorted(often)


def test_ends_that_have_closed_forms():
    one = tight(Gaussian(noise_multiplier=1.0), 1e-5).upper
    assert tight(allocated(1.0, 1), 1e-5).upper == pytest.approx(one, rel=2e-3)
    all_of_them = tight(Repeated(event=Gaussian(noise_multiplier=1.0), times=7), 1e-5).upper
    assert tight(allocated(1.0, 7, times=7), 1e-5).upper == pytest.approx(all_of_them, rel=2e-3)
    # Of the first of 100 steps alone, the record is in it by a coin.
    coin = tight(PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0)), 1e-5).upper
    assert tight(allocated(1.0, 100, released=1), 1e-5).upper == pytest.approx(coin, rel=3e-3)
    # Ten of a thousand cost at most what ten rounds of a hundred cost: any ten blocks are among the ways.
    blocks = tight(allocated(1.0, 100, epochs=10), 1e-5).upper
    assert tight(allocated(1.0, 1000, times=10), 1e-5).upper == pytest.approx(blocks, rel=3e-3)


def test_far_settings_have_bounds():
    for event in (
        allocated(0.05, 100),
        allocated(0.1, 60, 50),
        allocated(1e5, 50, 10),
        allocated(1.0, 10, times=3, released=1),
        allocated(1.0, 5000, times=300),
        allocated(1.1, 235, 60, capacity=1, examples=60_000),
    ):
        cost = tight(event, 1e-12)
        assert 0 <= cost.lower <= cost.upper < math.inf


def test_what_has_no_proof_is_refused():
    step = allocated(1.0, 10)
    with pytest.raises(Unproven, match="Allocated when one record may change by 'replace'"):
        tight(step, 1e-5, Adjacency.REPLACE)
    with pytest.raises(Unproven, match="2 records"):
        tight(step, 1e-5, group=2)
    with pytest.raises(Unproven):
        tight(Allocated(steps=10, event=events.Laplace(noise_multiplier=2.0)), 1e-5)
    with pytest.raises(Unproven):
        upper_bound(step, 1e-5, Neighbours(Adjacency.REPLACE))


def test_other_accountants_have_a_proof_or_nothing():
    costs = account(allocated(2.0, 50), 1e-5, Neighbours(_ADD))
    assert {name for name, value in costs.items() if value is not None} == {"zcdp", "pld"}
    assert costs["zcdp"] is not None
    # Concentrated accounting sees a mixture of Gaussians, of which it knows the largest divergence.
    assert costs["zcdp"] == account(Gaussian(noise_multiplier=2.0), 1e-5, Neighbours(_ADD))["zcdp"]
    full = allocated(2.0, 50, capacity=1, examples=100)
    assert math.isinf(account(full, 1e-5, Neighbours(_ADD))["zcdp"] or 0.0)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"steps": 4, "times": 5}, "in 5 of 4 steps"),
        ({"steps": 0}, "steps"),
        ({"steps": 4, "times": 0}, "times"),
        ({"steps": 4, "released": 5}, "4 steps does not release 5"),
        ({"steps": 4, "released": 0}, "released"),
        ({"steps": 4, "capacity": 5}, "go together"),
        ({"steps": 4, "capacity": 0, "examples": 3}, "capacity"),
    ],
)
def test_a_round_that_cannot_be_is_refused(how: dict[str, int], said: str):
    with pytest.raises(InvalidArgument, match=said):
        Allocated(event=Gaussian(noise_multiplier=1.0), **how)


def test_steps_beyond_measure_are_refused():
    with pytest.raises(InvalidArgument, match="10\\^15 steps"):
        tight(allocated(1.0, 10**400), 1e-5)
    for times in (1, 2):
        assert tight(allocated(5.0, 10**15, times=times), 1e-5).upper < 1e-2


def test_rounds_go_to_json_and_back():
    whole = Allocated(steps=4, released=4, event=Gaussian(noise_multiplier=1.0))
    assert whole == Allocated(steps=4, event=Gaussian(noise_multiplier=1.0))
    part = Allocated(
        steps=9, times=2, released=4, capacity=7, examples=40, event=Gaussian(noise_multiplier=1.0)
    )
    for event in (whole, part, Composed(events=(part, whole))):
        assert events.from_json(events.to_json(event)) == event
