"""Claims with a delta, sampled, against every outcome: total disclosure is an atom, and a coin moves it.

Of an (epsilon, delta)-DP release, delta is disclosed outright: an atom of infinite loss, and one of minus
infinity seen from the other side. A coin of probability q moves that one to ln(1 - q), a loss like any other.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.loss_distribution.pairs import GaussianPair, Masses
from reticent.accounting.tight_epsilon import bracket_event, tight, upper_bound
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ApproximateDp,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    PureDp,
    Repeated,
    TruncatedPoissonSampled,
)

_KINDS = {"poisson": 30, "composed": 12, "fixed size": 20}  # and how many settings of each

Outcomes = list[tuple[float, float]]  # what each outcome has under P and under Q


def _response(epsilon: float, delta: float) -> Outcomes:
    """The worst (epsilon, delta)-DP release (Kairouz, Oh and Viswanath 2017)."""
    high, low = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return [(0.0, delta), (low, high), (high, low), (delta, 0.0)]


def _poisson(inner: Outcomes, rate: float) -> Outcomes:
    return [((1 - rate) * q + rate * p, q) for p, q in inner]


def _fixed_size(inner: Outcomes, rate: float) -> Outcomes:
    """What gains from the sampled pair, its mirror image, and the rest, which tells nothing."""
    gains = [(p, q) for p, q in _poisson(inner, rate) if p > q]
    rest = 1 - sum(p + q for p, q in gains)
    return [*gains, *((q, p) for p, q in gains), (rest, rest)]


def _powers(outcomes: Outcomes, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Every count of outcomes in `times` releases, with the probability of all orders of it."""
    p, q = [], []
    for drawn in itertools.combinations_with_replacement(range(len(outcomes)), times):
        counts = [drawn.count(i) for i in range(len(outcomes))]
        orders = math.factorial(times) / math.prod(map(math.factorial, counts))
        p.append(orders * math.prod(outcomes[i][0] for i in drawn))
        q.append(orders * math.prod(outcomes[i][1] for i in drawn))
    return np.array(p), np.array(q)


def _epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """The smallest epsilon >= 0 whose delta is at most this, in closed form.

    delta(epsilon) is the largest P mass - e^epsilon Q mass of any set of outcomes, and the best sets hold
    the largest losses (Neyman and Pearson): epsilon is the largest at which one of them reaches delta.
    """
    if p[q == 0].sum() > delta:
        return math.inf
    order = np.argsort(-p / np.maximum(q, 1e-300))
    p_above, q_above = np.cumsum(p[order]), np.cumsum(q[order])
    reaches = (p_above > delta) & (q_above > 0)
    roots = np.log(p_above[reaches] - delta) - np.log(q_above[reaches])
    return max(float(roots.max(initial=0.0)), 0.0)


class _Case:
    """A random event, the exact laws of both neighbours, and what is disclosed outright."""

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        self.adjacency = Adjacency.REPLACE if kind == "fixed size" else Adjacency.ADD_OR_REMOVE
        parts = [self._part(kind, rng) for _ in range(2 if kind == "composed" else 1)]
        self.event: Event = Composed(events=tuple(event for event, _, _ in parts))
        self.p, self.q = np.ones(1), np.ones(1)
        for _, outcomes, times in parts:
            p, q = _powers(outcomes, times)
            self.p, self.q = np.multiply.outer(self.p, p).ravel(), np.multiply.outer(self.q, q).ravel()
        self.disclosed = 1 - math.prod((1 - outcomes[-1][0]) ** times for _, outcomes, times in parts)
        if kind == "fixed size":
            self.disclosed = float(self.p[self.q == 0].sum())

    def _part(self, kind: str, rng: np.random.Generator) -> tuple[Event, Outcomes, int]:
        epsilon, own = float(10 ** rng.uniform(-2, 1.3)), float(10 ** rng.uniform(-6, -0.2))
        rate = float(rng.choice([rng.uniform(0, 1), 10 ** rng.uniform(-4, 0), 1 - 10 ** rng.uniform(-4, 0)]))
        rate = min(max(rate, 1e-6), 1 - 1e-6)
        times = int(rng.integers(1, 4 if kind == "composed" else 6))
        claim = ApproximateDp(epsilon=epsilon, delta=own, adjacency=self.adjacency)
        inner = _response(epsilon, own)
        if kind == "fixed size":
            size = int(rng.integers(2, 10_000))
            batch = int(rng.integers(1, size))
            event = FixedSizeSampled(batch_size=batch, examples=size, event=claim)
            return Repeated(event=event, times=times), _fixed_size(inner, batch / size), times
        sampled: Event = PoissonSampled(rate=rate, event=claim)
        if rng.uniform() < 0.3:  # with room for everybody
            sampled = TruncatedPoissonSampled(rate=rate, capacity=101, examples=100, event=claim)
        if kind == "composed" and rng.uniform() < 0.3:
            return Repeated(event=claim, times=times), inner, times
        return Repeated(event=sampled, times=times), _poisson(inner, rate), times

    def delta(self, rng: np.random.Generator) -> float:
        """Just above what is disclosed outright, or well above it."""
        return float(min(self.disclosed * (1 + 10 ** rng.uniform(-3, 1.5)), rng.uniform(0.5, 0.999)))

    def exact(self, delta: float) -> float:
        return max(_epsilon(self.p, self.q, delta), _epsilon(self.q, self.p, delta))


@pytest.mark.parametrize("kind", _KINDS)
def test_sampled_disclosure_by_enumeration_in_both_directions(kind: str):
    rng = np.random.default_rng([18, list(_KINDS).index(kind)])
    gaps = []
    for number in range(_KINDS[kind]):
        case = _Case(kind, rng)
        delta = case.delta(rng)
        exact = case.exact(delta)
        cost = tight(case.event, delta, case.adjacency)
        upper = upper_bound(case.event, delta, Neighbours(case.adjacency))
        context = (number, case.event, delta, exact, cost)
        assert exact <= min(cost.upper, upper) * (1 + 1e-9) + 1e-9, context
        assert cost.lower <= exact * (1 + 1e-9) + 1e-9, context
        if math.isfinite(exact):
            gaps.append((cost.upper - exact) / max(exact, 0.1))
    assert np.median(gaps) <= 1e-3
    assert np.mean(np.array(gaps) <= 0.02) >= 0.9


@pytest.mark.parametrize("epsilon", [650.0, 701.0, 705.0, 709.5, 712.0, 740.0, 800.0, 1500.0])
@pytest.mark.parametrize("times", [1, 3])
def test_losses_that_e_to_them_overflows_are_not_rounded_down(epsilon: float, times: int):
    """delta = p (1 - e^(eps - T loss)), where p is the chance that every loss is the largest."""
    delta, rate = 1e-5, 0.5
    plain = times * epsilon + math.log1p(-delta)
    sampled = times * (epsilon + math.log(rate)) + math.log1p(-delta / rate**times)
    claim = PureDp(epsilon=epsilon)
    for event, exact in ((claim, plain), (PoissonSampled(rate=rate, event=claim), sampled)):
        found = bracket_event(Repeated(event=event, times=times), delta, Neighbours(Adjacency.ADD_OR_REMOVE))
        assert found.lower <= exact <= found.upper <= exact * (1 + 1e-2)


def test_a_tiny_claim_beside_noise_is_priced_with_few_points(monkeypatch: pytest.MonkeyPatch):
    """Atoms that are hit exactly would take 100,000 points here, for digits that nobody asked for."""
    claim, noise = ApproximateDp(epsilon=5e-6, delta=5e-6), Gaussian(noise_multiplier=8.0)
    points, masses = [], GaussianPair.masses

    def count(pair: GaussianPair, edges: np.ndarray) -> Masses:
        points.append(len(edges))
        return masses(pair, edges)

    monkeypatch.setattr(GaussianPair, "masses", count)
    found = tight(Composed(events=(noise, claim)), 2e-5)
    alone = tight(noise, 2e-5 - 5e-6).upper
    assert found.lower <= alone + 5e-6
    assert alone * (1 - 1e-3) <= found.upper <= alone * (1 + 1e-3)
    assert max(points) < 2**13
