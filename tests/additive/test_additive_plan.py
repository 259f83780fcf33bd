"""What a fit costs, by two derivations, and what decides it."""

from __future__ import annotations

import math

import pytest

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import upper_bound
from reticent.additive import AdditivePlan
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Gaussian


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE])
def test_the_price_is_that_of_one_gaussian(epsilon: float, adjacency: Adjacency):
    plan = AdditivePlan.for_budget(epsilon=epsilon, delta=1e-6, examples=10_000, adjacency=adjacency)
    by_accountant = upper_bound(plan.event, 1e-6, Neighbours(adjacency))
    by_theorem = gaussian_dp.epsilon(adjacency.reach / plan.noise_multiplier, 1e-6)
    assert 0.998 * epsilon < by_accountant <= epsilon
    assert by_accountant == pytest.approx(by_theorem, rel=1e-3)


def test_what_is_released_beside_it_is_paid_from_the_same_budget():
    beside = Gaussian(noise_multiplier=8.0)
    plan = AdditivePlan.for_budget(epsilon=1.0, delta=1e-6, examples=10_000, beside=beside)
    alone = AdditivePlan.for_budget(epsilon=1.0, delta=1e-6, examples=10_000)
    assert plan.noise_multiplier > 1.1 * alone.noise_multiplier
    both = Composed(events=(beside, plan.event))
    assert 0.998 < upper_bound(both, 1e-6, Neighbours(Adjacency.ADD_OR_REMOVE)) <= 1.0


def test_more_rows_or_less_noise_take_more_passes():
    counts = [
        AdditivePlan.for_budget(epsilon=epsilon, delta=1e-6, examples=examples).passes
        for epsilon, examples in ((1.0, 50), (1.0, 5_000), (4.0, 5_000), (1.0, 10**8))
    ]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (8, 400)


def test_more_numbers_are_released_only_where_delta_pays_for_their_samplers():
    few = AdditivePlan.for_budget(epsilon=1.0, delta=1e-6, examples=10_000)
    many = AdditivePlan.for_budget(epsilon=1.0, delta=1e-6, examples=10_000, sampler_share=2.0**-14)
    assert (few.numbers, many.numbers) == (1 << 16, 1 << 20)
    assert many.numbers * 2.0**-64 * (1 + math.e) < 2.0**-14 * 1e-6
    wasteful = AdditivePlan.for_budget(epsilon=20.0, delta=1e-6, examples=10_000, sampler_share=2.0**-14)
    assert wasteful.numbers == 1 << 16


def test_gaussian_noise_needs_a_delta():
    with pytest.raises(InvalidArgument, match="no guarantee with delta 0"):
        AdditivePlan.for_budget(epsilon=1.0, delta=0.0, examples=100)
