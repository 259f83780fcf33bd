"""The rows of the table: what each theorem says about one event, and that none leaves part of it out."""

from __future__ import annotations

import math
import time

import pytest

from reticent.accounting.accountants import ACCOUNTANTS, account
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.tight_epsilon import tight, upper_bound
from reticent.core.errors import InvalidArgument
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Gaussian, PoissonSampled, Repeated

_ALONE = Neighbours(Adjacency.ADD_OR_REMOVE)
_STEP = PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0))


@pytest.mark.parametrize(
    "event",
    [
        events.ApproximateDp(epsilon=1.0, delta=0.1),
        Repeated(event=events.ApproximateDp(epsilon=0.1, delta=2e-6), times=6),
        Composed(events=(events.ApproximateDp(epsilon=0.1, delta=2e-5), Gaussian(noise_multiplier=9.0))),
        PoissonSampled(rate=0.5, event=events.ApproximateDp(epsilon=1.0, delta=3e-5)),
    ],
)
def test_a_claim_that_uses_up_delta_costs_infinity_on_every_row(event: Event):
    values = account(event, 1e-5, _ALONE)
    assert {value for value in values.values() if value is not None} == {math.inf}
    assert values["basic"] == values["advanced"] == values["pld"] == math.inf


def test_what_a_claim_leaves_of_delta_is_what_the_others_may_use():
    claim = events.ApproximateDp(epsilon=0.5, delta=9e-6)
    event = Composed(events=(claim, Gaussian(noise_multiplier=2.0)))
    alone = ACCOUNTANTS["basic"](Gaussian(noise_multiplier=2.0), 1e-6 / 2, _ALONE)
    assert ACCOUNTANTS["basic"](event, 1e-5, _ALONE) == pytest.approx(0.5 + alone, rel=1e-9)
    lower = tight(event, 1e-5).lower
    for name, value in account(event, 1e-5, _ALONE).items():
        assert value is None or value >= lower, name


def test_an_answer_without_a_lie_costs_infinity_on_every_row():
    values = account(events.RandomizedResponse(truth=1.0), 1e-5, Neighbours(Adjacency.REPLACE))
    assert {value for value in values.values() if value is not None} == {math.inf}


def test_a_billion_steps_take_no_longer_than_one():
    start = time.process_time()
    for name in ("basic", "advanced", "zcdp", "moments", "rdp"):
        assert ACCOUNTANTS[name](Repeated(event=_STEP, times=10**9), 1e-5, _ALONE) > 100
    assert time.process_time() - start < 2


@pytest.mark.parametrize("name", [*ACCOUNTANTS, "tight"])
def test_counts_beyond_measure_are_refused(name: str):
    event: Event = _STEP
    for _ in range(30):
        event = Repeated(event=event, times=10**15)
    accountant = ACCOUNTANTS.get(name, lambda event, delta, _: tight(event, delta).upper)
    with pytest.raises(InvalidArgument):
        accountant(event, 1e-5, _ALONE)


def test_where_the_loss_distribution_gives_up_renyi_does_not():
    run = Repeated(event=PoissonSampled(rate=1e-5, event=Gaussian(noise_multiplier=1.0)), times=10**10)
    values = account(run, 1e-5, _ALONE)
    by_renyi = values["rdp"]
    assert by_renyi is not None
    assert tight(run, 1e-5).upper <= by_renyi < 7
    assert upper_bound(run, 1e-5, _ALONE) <= by_renyi


def test_rows_without_a_theorem_are_empty_and_the_others_are_there():
    values = account(Repeated(event=_STEP, times=100), 1e-5, Neighbours(Adjacency.REPLACE))
    assert [name for name, value in values.items() if value is None] == [
        "basic",
        "advanced",
        "moments",
        "rdp",
    ]
    assert values["pld"] is not None
    assert all(value is not None for value in account(_STEP, 1e-5, _ALONE).values())


def test_rows_come_in_the_order_of_the_course():
    assert list(account(_STEP, 1e-5, _ALONE)) == ["basic", "advanced", "zcdp", "moments", "rdp", "pld"]


def test_the_moments_accountant_reads_the_step_from_the_event():
    from reticent.accounting.theorems import moments

    event = Repeated(event=_STEP, times=1000)
    assert ACCOUNTANTS["moments"](event, 1e-5, _ALONE) == moments.epsilon(0.01, 1.0, 1000, 1e-5)
    full = Repeated(event=Gaussian(noise_multiplier=10.0), times=25)
    assert ACCOUNTANTS["moments"](full, 1e-5, _ALONE) == pytest.approx(moments.epsilon(1.0, 2.0, 1, 1e-5))


@pytest.mark.parametrize(
    "event",
    [
        events.PureDp(epsilon=800.0),
        events.Laplace(noise_multiplier=1e-3),
        Repeated(event=Gaussian(noise_multiplier=1e-170), times=2),
        Repeated(event=Gaussian(noise_multiplier=1e200), times=2),
        PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1e-3)),
        PoissonSampled(rate=1e-300, event=Gaussian(noise_multiplier=1.0)),
        Composed(
            events=(
                Repeated(event=Gaussian(noise_multiplier=0.5), times=341),
                PoissonSampled(rate=0.5, event=Gaussian(noise_multiplier=1.0)),
            )
        ),
        PoissonSampled(rate=7e-6, event=events.PureDp(epsilon=1e-5)),
        Repeated(event=PoissonSampled(rate=6e-7, event=events.PureDp(epsilon=4e-5)), times=89_824),
        events.RandomizedResponse(truth=1.0),
        events.ApproximateDp(epsilon=0.0, delta=1.0),
    ],
)
def test_numbers_at_the_end_of_the_range_are_bounded_or_infinite_without_a_warning(event: Event):
    adjacency = Adjacency.REPLACE if isinstance(event, events.RandomizedResponse) else Adjacency.ADD_OR_REMOVE
    cost = tight(event, 1e-5, adjacency)
    assert 0 <= cost.lower <= cost.upper
