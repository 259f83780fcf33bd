"""A budget spent adaptively: nothing passes it, nothing is lost, and what was let through is within it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.filters import RenyiFilter, Share, best_order, make_filters, shares_for
from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.theorems import renyi
from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import BudgetExceeded, InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ApproximateDp,
    Composed,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    Repeated,
    TruncatedPoissonSampled,
)

_STEP = PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0))


@settings(max_examples=25)
@given(
    epsilon=st.floats(0.5, 10),
    noises=st.lists(st.floats(1, 30), min_size=1, max_size=40),
    log_delta=st.floats(math.log(1e-9), math.log(1e-3)),
)
def test_whatever_is_let_through_is_within_the_budget(epsilon: float, noises: list[float], log_delta: float):
    delta = math.exp(log_delta)
    guard = RenyiFilter(epsilon=epsilon, delta=delta)
    released: list[Event] = []
    for noise in noises:
        event = Gaussian(noise_multiplier=noise)
        if guard.fits(event):
            guard.spend(event)
            released.append(event)
        else:
            with pytest.raises(BudgetExceeded):
                guard.spend(event)
    assert guard.spent <= guard.limit
    assert tight(Composed(events=tuple(released)), delta).lower <= epsilon


def test_at_the_right_order_a_filter_lets_through_what_renyi_accounting_would():
    def count(order: float) -> int:
        guard = RenyiFilter(epsilon=2.0, delta=1e-5, order=order)
        return int(guard.limit / guard.cost(_STEP))

    most = max(count(order) for order in renyi.ORDERS)
    for times, is_within in [(most, True), (most + 2, False)]:
        cost = renyi.epsilon(Repeated(event=_STEP, times=times), 1e-5, Neighbours(Adjacency.ADD_OR_REMOVE))
        assert (cost <= 2.0) is is_within


def test_a_refused_release_is_not_charged():
    guard = RenyiFilter(epsilon=1.0, delta=1e-5)
    guard.spend(Gaussian(noise_multiplier=20.0))
    before = guard.spent
    with pytest.raises(BudgetExceeded, match="is left"):
        guard.spend(Gaussian(noise_multiplier=0.1))
    assert guard.spent == before > 0


def test_what_has_no_curve_never_fits():
    guard = RenyiFilter(epsilon=5.0, delta=1e-5)
    assert not guard.fits(NonPrivate())
    assert math.isinf(guard.cost(NonPrivate()))


# What no divergence covers is paid from the part of delta that was set aside


def truncated(capacity: int) -> Event:
    return TruncatedPoissonSampled(
        rate=0.01, capacity=capacity, examples=10_000, event=Gaussian(noise_multiplier=1.0)
    )


def test_room_for_every_draw_costs_what_untruncated_batches_cost():
    guard = RenyiFilter(epsilon=3.0, delta=1e-6)
    steps = Repeated(event=truncated(250), times=500)
    assert guard.cost(steps) == pytest.approx(500 * guard.cost(_STEP), rel=1e-9)
    assert 0 < guard.delta_cost(steps) < 1e-6 * guard.reserve
    guard.spend(steps)
    assert guard.spent_delta == guard.delta_cost(steps)


def test_the_slack_counts_with_one_plus_e_to_the_epsilon():
    overfull = dominating.directions(truncated(180), Neighbours(Adjacency.ADD_OR_REMOVE)).slack
    for epsilon in (0.5, 3.0):
        cost = RenyiFilter(epsilon=epsilon, delta=1e-5).delta_cost(Repeated(event=truncated(180), times=7))
        assert cost == pytest.approx(7 * (1 + math.exp(epsilon)) * overfull, rel=1e-6)


def test_batches_that_are_overfull_too_often_are_refused_and_not_charged():
    guard = RenyiFilter(epsilon=3.0, delta=1e-6)
    with pytest.raises(BudgetExceeded, match="set aside"):
        guard.spend(truncated(101))
    assert not guard.fits(truncated(101))
    assert (guard.spent, guard.spent_delta) == (0.0, 0.0)


def test_claimed_deltas_add_up_to_the_reserve_and_no_further():
    guard = RenyiFilter(epsilon=5.0, delta=1e-5, reserve=0.01)
    release = ApproximateDp(epsilon=1e-3, delta=0.99e-8)
    for _ in range(10):
        guard.spend(release)
    with pytest.raises(BudgetExceeded, match="set aside"):
        guard.spend(release)


def test_what_is_set_aside_is_taken_from_the_divergences():
    rooms = [
        RenyiFilter(epsilon=5.0, delta=1e-5, order=8.0, reserve=share).limit for share in (1e-6, 0.1, 0.9)
    ]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[0] > rooms[2]


@settings(max_examples=15)
@given(capacity=st.integers(150, 260), epsilon=st.floats(0.5, 6), times=st.integers(1, 3000))
def test_truncated_runs_that_a_filter_lets_through_are_within_the_budget(
    capacity: int, epsilon: float, times: int
):
    run = Repeated(event=truncated(capacity), times=times)
    if RenyiFilter(epsilon=epsilon, delta=1e-5).fits(run):
        assert tight(run, 1e-5).lower <= epsilon


def test_replacing_costs_four_times_the_divergence():
    one = RenyiFilter(epsilon=5.0, delta=1e-5).cost(Gaussian(noise_multiplier=3.0))
    two = RenyiFilter(epsilon=5.0, delta=1e-5, adjacency=Adjacency.REPLACE).cost(
        Gaussian(noise_multiplier=3.0)
    )
    assert two == pytest.approx(4 * one, rel=1e-12)


def test_order_of_releases_does_not_matter():
    releases = [Gaussian(noise_multiplier=5.0), Laplace(noise_multiplier=9.0), _STEP]
    spent = []
    for order in (releases, releases[::-1]):
        guard = RenyiFilter(epsilon=5.0, delta=1e-5)
        for event in order:
            guard.spend(event)
        spent.append(guard.spent)
    assert spent[0] == pytest.approx(spent[1], rel=1e-14)


def test_the_best_order_is_best_for_gaussians():
    order = best_order(2.0, 1e-5)

    def room(at: float) -> float:
        return RenyiFilter(epsilon=2.0, delta=1e-5, order=at).limit / at

    assert room(order) >= max(room(order * 1.3), room(1 + (order - 1) / 1.3))


@pytest.mark.parametrize("order", [1.0, 0.5, 0.0, -2.0, math.nan, math.inf])
def test_an_order_that_is_none_is_refused(order: float):
    with pytest.raises(InvalidArgument):
        RenyiFilter(epsilon=1.0, delta=1e-5, order=order)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1)]
)
def test_a_budget_that_is_none_is_refused(epsilon: float, delta: float):
    with pytest.raises(InvalidArgument):
        RenyiFilter(epsilon=epsilon, delta=delta)


# Several orders at once


def test_several_orders_share_delta_between_them():
    guards = make_filters(shares_for(2.0, 1e-6), epsilon=2.0, delta=1e-6)
    assert math.fsum(guard.delta for guard in guards) <= 1e-6
    assert guards[0].order == best_order(2.0, 1e-6) > guards[1].order > guards[2].order > 1


def test_a_lower_order_lets_through_what_explodes_at_the_best_one():
    step = PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.1))
    counts = [
        int(guard.limit / guard.cost(step))
        for guard in make_filters(shares_for(2.0, 1e-6), epsilon=2.0, delta=1e-6)
    ]
    assert counts[0] < 10
    assert max(counts) > 500


@pytest.mark.parametrize(
    "shares", [(), (Share(8.0, 0.6), Share(4.0, 0.5)), (Share(1.0, 0.5),), (Share(8.0, 0.0),)]
)
def test_shares_that_are_none_are_refused(shares: tuple[Share, ...]):
    with pytest.raises(InvalidArgument):
        make_filters(shares, epsilon=1.0, delta=1e-5)
