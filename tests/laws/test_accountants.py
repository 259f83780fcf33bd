"""What every accountant owes: one battery, no exemptions."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.accountants import ACCOUNTANTS, account
from reticent.accounting.loss_distribution.distribution import RELATIVE_WIDTH
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.tight_epsilon import bracket_event, guarantee, tight, upper_bound
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    Composed,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    Repeated,
)

_ALONE = Neighbours(Adjacency.ADD_OR_REMOVE)
_NAMES = [*ACCOUNTANTS, "tight"]
_EXAMPLES = settings(max_examples=8)

noises = st.floats(0.5, 30)
rates = st.floats(1e-4, 1)
deltas = st.floats(1e-12, 1e-2)
counts = st.integers(1, 2000)


def gaussian_steps() -> st.SearchStrategy[Event]:
    return st.builds(
        lambda rate, noise: PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), rates, noises
    )


def releases() -> st.SearchStrategy[Event]:
    """Single releases under add-or-remove."""
    return st.one_of(
        gaussian_steps(),
        st.builds(lambda noise: Gaussian(noise_multiplier=noise), noises),
        st.builds(lambda noise: Laplace(noise_multiplier=noise), st.floats(1, 1e3)),
        st.builds(lambda epsilon: events.PureDp(epsilon=epsilon), st.floats(1e-3, 2)),
        st.builds(lambda epsilon: events.ExponentialMechanism(epsilon=epsilon), st.floats(1e-3, 2)),
        st.builds(
            lambda epsilon, delta: events.ApproximateDp(epsilon=epsilon, delta=delta),
            st.floats(1e-3, 2),
            st.floats(0, 1e-18),
        ),
        st.builds(
            lambda steps, noise: events.Allocated(steps=steps, event=Gaussian(noise_multiplier=noise)),
            st.integers(1, 40),
            noises,
        ),
        st.builds(
            lambda rate, noise: PoissonSampled(rate=rate, event=Laplace(noise_multiplier=noise)),
            rates,
            st.floats(1, 1e3),
        ),
    )


def compositions() -> st.SearchStrategy[Event]:
    repeated = st.builds(
        lambda event, times: Repeated(event=event, times=times), releases(), st.integers(1, 300)
    )
    return st.lists(repeated, min_size=1, max_size=3).map(lambda items: Composed(events=tuple(items)))


def cost(name: str, event: Event, delta: float, neighbours: Neighbours = _ALONE) -> float:
    if name == "tight":
        return tight(event, delta, neighbours.adjacency, group=neighbours.group).upper
    return ACCOUNTANTS[name](event, delta, neighbours)


def cost_or_none(name: str, event: Event, delta: float) -> float | None:
    try:
        return cost(name, event, delta)
    except Unproven:
        return None


def slack(name: str, value: float) -> float:
    """How far two computations of the same epsilon may differ: numerical brackets have a width."""
    if name in ("pld", "tight"):
        return 3 * RELATIVE_WIDTH * max(value, 1e-2)
    return 1e-9 * value + 1e-12


@pytest.mark.parametrize("name", _NAMES)
def test_nothing_costs_nothing(name: str):
    step = PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=1.0))
    for nothing in (
        Composed(events=()),
        Repeated(event=step, times=0),
        Composed(events=(Repeated(event=NonPrivate(), times=0), Composed(events=()))),
    ):
        assert cost(name, nothing, 1e-5) == 0.0


@pytest.mark.parametrize("name", ["tight", "pld", "rdp", "basic", "advanced"])
def test_a_batch_that_nobody_joins_costs_nothing(name: str):
    step = PoissonSampled(rate=0.0, event=Gaussian(noise_multiplier=0.1))
    assert cost(name, Repeated(event=step, times=10**6), 1e-5) <= 1e-6


@pytest.mark.parametrize(
    "wrap", [lambda e: e, lambda e: Repeated(event=e, times=3), lambda e: Composed(events=(e,))]
)
def test_an_unprotected_release_costs_infinity(wrap):
    event = Composed(events=(Gaussian(noise_multiplier=10.0), wrap(NonPrivate())))
    for adjacency in Adjacency:
        assert math.isinf(tight(event, 1e-5, adjacency).upper)
        assert math.isinf(tight(event, 1e-5, adjacency).lower)
        assert math.isinf(upper_bound(event, 1e-5, Neighbours(adjacency)))
        assert set(account(event, 1e-5, Neighbours(adjacency)).values()) == {math.inf}
    assert str(guarantee(event, 1e-5)).startswith("No privacy guarantee")


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_an_unprotected_release_is_never_given_a_number(name: str):
    value = cost_or_none(name, NonPrivate(), 1e-5)
    assert value is None or math.isinf(value)


@pytest.mark.parametrize("name", _NAMES)
def test_an_unknown_event_is_refused_or_infinite(name: str):
    class Unheard:
        """An event that no accountant knows."""

    stranger: Any = Unheard()
    for event in (stranger, Repeated(event=stranger, times=2), PoissonSampled(rate=0.1, event=stranger)):
        value = cost_or_none(name, event, 1e-5)
        assert value is None or math.isinf(value)


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(step=gaussian_steps(), times=counts, delta=deltas, factor=st.floats(1.01, 3))
def test_more_noise_never_costs_more(
    name: str, step: PoissonSampled, times: int, delta: float, factor: float
):
    assert isinstance(step.event, Gaussian)
    noisier = PoissonSampled(
        rate=step.rate, event=Gaussian(noise_multiplier=step.event.noise_multiplier * factor)
    )
    before = cost(name, Repeated(event=step, times=times), delta)
    after = cost(name, Repeated(event=noisier, times=times), delta)
    assert after <= before + slack(name, before)


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(step=releases(), times=counts, delta=deltas, share=st.floats(0, 1))
def test_fewer_steps_never_cost_more(name: str, step: Event, times: int, delta: float, share: float):
    before = cost_or_none(name, Repeated(event=step, times=times), delta)
    if before is not None:
        after = cost(name, Repeated(event=step, times=int(times * share)), delta)
        assert after <= before + slack(name, before)


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(step=gaussian_steps(), times=counts, delta=deltas, share=st.floats(1e-3, 1))
def test_a_smaller_rate_never_costs_more(
    name: str, step: PoissonSampled, times: int, delta: float, share: float
):
    rarer = PoissonSampled(rate=step.rate * share, event=step.event)
    before = cost(name, Repeated(event=step, times=times), delta)
    after = cost(name, Repeated(event=rarer, times=times), delta)
    assert after <= before + slack(name, before)


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(event=compositions(), delta=deltas, factor=st.floats(1.01, 1000))
def test_a_larger_delta_never_costs_more(name: str, event: Event, delta: float, factor: float):
    before = cost_or_none(name, event, delta)
    if before is not None:
        assert cost(name, event, min(delta * factor, 0.5)) <= before + slack(name, before)


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(event=compositions(), delta=deltas)
def test_the_order_of_releases_does_not_matter(name: str, event: Composed, delta: float):
    value = cost_or_none(name, event, delta)
    turned = cost_or_none(name, Composed(events=event.events[::-1]), delta)
    if value is None or turned is None:
        assert value is turned
    else:
        assert turned == pytest.approx(value, abs=slack(name, value))


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(step=releases(), times=st.integers(1, 60), first=st.integers(0, 60), delta=deltas)
def test_a_count_means_that_many_copies(name: str, step: Event, times: int, first: int, delta: float):
    whole = cost_or_none(name, Repeated(event=step, times=times), delta)
    first = min(first, times)
    for same in (
        Composed(events=(step,) * times),
        Composed(events=(Repeated(event=step, times=first), Repeated(event=step, times=times - first))),
        Repeated(event=Repeated(event=step, times=times), times=1),
        Composed(events=(Composed(events=(step,) * first), Composed(events=(step,) * (times - first)))),
    ):
        found = cost_or_none(name, same, delta)
        assert found == (whole if whole is None else pytest.approx(whole, rel=1e-12, abs=1e-15))


@pytest.mark.parametrize("name", _NAMES)
@_EXAMPLES
@given(event=compositions(), delta=deltas)
def test_json_leaves_the_cost_as_it_was(name: str, event: Event, delta: float):
    read = events.read(json.dumps(events.to_json(event)))
    assert read == event
    assert cost_or_none(name, read, delta) == cost_or_none(name, event, delta)


@settings(max_examples=30)
@given(event=compositions(), delta=deltas)
def test_no_accountant_goes_below_the_lower_bound_and_tight_is_the_tightest(event: Event, delta: float):
    best = tight(event, delta)
    bracket = bracket_event(event, delta, _ALONE)
    assert 0 <= best.lower <= best.upper
    assert 0 <= bracket.lower <= bracket.upper
    for name in ACCOUNTANTS:
        value = cost_or_none(name, event, delta)
        if value is not None:
            assert value >= max(bracket.lower, best.lower) * (1 - 1e-9), name
            # As tight as every other one, up to the width of the bracket and the list of orders.
            assert best.upper <= value * (1 + 5e-3) + 1e-4, name


@_EXAMPLES
@given(event=compositions(), delta=deltas)
def test_calibration_sees_the_same_upper_bound(event: Event, delta: float):
    best = tight(event, delta)
    assert upper_bound(event, delta, _ALONE) >= best.lower
    if best.accountant == "privacy loss distribution":
        assert upper_bound(event, delta, _ALONE) == pytest.approx(best.upper, abs=slack("pld", best.upper))


@_EXAMPLES
@given(event=gaussian_steps(), times=counts, delta=deltas)
def test_replacing_and_groups_never_cost_less_than_one_record(event: Event, times: int, delta: float):
    run = Repeated(event=event, times=times)
    one = tight(run, delta)
    assert tight(run, delta, Adjacency.REPLACE).upper >= one.lower
    assert tight(run, delta, group=2).upper >= one.lower
    assert tight(run, delta, Adjacency.ZERO_OUT) == one


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 1.5, math.nan, math.inf])
def test_a_delta_outside_the_unit_interval_is_refused(name: str, delta: float):
    with pytest.raises(InvalidArgument):
        cost(name, Repeated(event=Gaussian(noise_multiplier=1.0), times=3), delta)
