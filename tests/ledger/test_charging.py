"""A charge is recorded whole or not at all, on the terms of its dataset, and never past the limit."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reticent.accounting.filters import make_filters, shares_for
from reticent.accounting.reserve import NEARLY_EXACT, delta_left_for
from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.core.errors import BudgetExceeded, InvalidArgument, Unproven
from reticent.ledger import cost
from reticent.ledger.ledger import DatasetBudget, Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ApproximateDp,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    PureDp,
    Repeated,
    TruncatedPoissonSampled,
)

ONE = Adjacency.ADD_OR_REMOVE
STEP = TruncatedPoissonSampled(
    rate=0.01, capacity=1100, examples=60_000, event=Gaussian(noise_multiplier=1.1)
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """An open ledger in which 'patients' may spend (3, 1e-6), in a file; and in a database."""
    place = request.getfixturevalue("path" if request.param == "sqlite" else "database")
    with Ledger.create(place) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
        yield made


def pay(budget: DatasetBudget, event: Event, purpose: str = "test") -> Any:
    """A release that leaves it to the budget whose privacy it is about."""
    return budget.charge(event, adjacency=ONE, purpose=purpose)


def test_a_charge_is_an_entry_that_holds_the_whole_event(ledger: Ledger):
    event = Repeated(event=STEP, times=100)
    receipt = pay(ledger.for_dataset("patients"), event, "first model")
    (entry,) = [entry for entry in ledger.entries() if entry.kind == "charge"]
    assert (entry.sequence, entry.hash, entry.time) == (receipt.sequence, receipt.hash, receipt.time)
    assert entry.values["purpose"] == "first model"
    assert entry.values["event"]["times"] == 100
    assert entry.values["event"]["event"]["capacity"] == 1100


def test_the_total_is_the_tight_composition_and_not_the_sum(ledger: Ledger):
    budget = ledger.for_dataset("patients")
    for _ in range(20):
        pay(budget, Gaussian(noise_multiplier=20.0))
    alone = tight(Gaussian(noise_multiplier=20.0), 1e-6).upper
    together = guarantee(Repeated(event=Gaussian(noise_multiplier=20.0), times=20), 1e-6)
    assert budget.guarantee().epsilon == together.epsilon
    assert budget.guarantee().epsilon_lower == together.epsilon_lower
    assert together.epsilon < 0.3 * 20 * alone


def test_a_claim_costs_what_it_says_even_where_it_uses_all_of_delta(ledger: Ledger):
    ledger.limit("claimed", epsilon=1.0, delta=1e-6)
    budget = ledger.for_dataset("claimed")
    pay(budget, ApproximateDp(epsilon=0.75, delta=1e-6))
    pay(budget, PureDp(epsilon=0.25))
    said = budget.guarantee()
    assert (said.epsilon, said.delta) == (1.0, 1e-6)
    assert NEARLY_EXACT in said.assumptions
    with pytest.raises(BudgetExceeded):
        pay(budget, ApproximateDp(epsilon=1e-9, delta=1e-9))


@pytest.mark.parametrize("adaptive", [False, True])
def test_noise_at_the_end_of_its_sampler_fits_no_limit(ledger: Ledger, adaptive: bool):
    ledger.limit("wide", epsilon=1000.0, delta=1e-6, adaptive=adaptive)
    budget = ledger.for_dataset("wide")
    with pytest.raises(BudgetExceeded):
        pay(budget, Laplace(noise_multiplier=1 / 64))
    pay(budget, Laplace(noise_multiplier=1 / 8))


def test_what_does_not_fit_is_refused_with_what_would_and_nothing_changes(ledger: Ledger):
    budget = ledger.for_dataset("patients")
    pay(budget, Gaussian(noise_multiplier=2.0))
    before = ledger.export()
    with pytest.raises(BudgetExceeded) as refused:
        pay(budget, Gaussian(noise_multiplier=1.0))
    assert refused.value.exit_code == 3
    assert "past its limit of (3, 1e-06)" in refused.value.happened
    assert "Nothing was recorded" in refused.value.happened
    assert ledger.export() == before
    least = budget.remaining().noise_multiplier
    assert f"noise multiplier of at least {least:g} still fits" in refused.value.remedy
    with pytest.raises(BudgetExceeded):
        pay(budget, Gaussian(noise_multiplier=0.97 * least))
    pay(budget, Gaussian(noise_multiplier=least))


def test_a_run_that_is_too_long_is_told_how_much_of_it_fits(ledger: Ledger):
    budget = ledger.for_dataset("patients")
    with pytest.raises(BudgetExceeded, match=r"or ([\d,]+) of the 100,000 repetitions") as refused:
        pay(budget, Repeated(event=STEP, times=100_000))
    times = int(refused.value.remedy.partition("fits, or ")[2].partition(" of")[0].replace(",", ""))
    assert 1000 < times < 100_000
    with pytest.raises(BudgetExceeded):
        pay(budget, Repeated(event=STEP, times=int(1.03 * times)))
    pay(budget, Repeated(event=STEP, times=times))


def test_when_nothing_fits_that_is_said(ledger: Ledger):
    budget = ledger.for_dataset("patients")
    pay(budget, Laplace(noise_multiplier=0.5))
    ledger.limit("patients", epsilon=budget.guarantee().epsilon, delta=1e-6)
    with pytest.raises(BudgetExceeded, match="Nothing more fits"):
        pay(budget, Gaussian(noise_multiplier=1e6))
    assert str(budget.remaining()) == "Nothing more fits."


@pytest.mark.parametrize("adaptive", [False, True])
def test_what_is_said_to_remain_does_fit_and_hardly_more(ledger: Ledger, adaptive: bool):
    ledger.limit("others", epsilon=2.0, delta=1e-6, adaptive=adaptive)
    budget = ledger.for_dataset("others")
    pay(budget, Repeated(event=STEP, times=500))
    left = budget.remaining()
    account = ledger.account("others")
    for event, fits in [
        (Gaussian(noise_multiplier=left.noise_multiplier), True),
        (Gaussian(noise_multiplier=0.97 * left.noise_multiplier), False),
        (ApproximateDp(epsilon=left.epsilon, delta=0.0), True),
        (ApproximateDp(epsilon=1.03 * left.epsilon, delta=0.0), False),
    ]:
        assert cost.is_within(account.event(event), account.limit) is fits


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_unprotected_release_never_fits(ledger: Ledger, adaptive: bool):
    ledger.limit("others", epsilon=1e6, delta=0.5, adaptive=adaptive)
    with pytest.raises(BudgetExceeded):
        pay(ledger.for_dataset("others"), NonPrivate())


def test_a_release_without_a_theorem_is_refused_and_not_recorded(ledger: Ledger):
    before = ledger.head
    sampled = FixedSizeSampled(batch_size=10, examples=100, event=Gaussian(noise_multiplier=5.0))
    with pytest.raises(Unproven):
        pay(ledger.for_dataset("patients"), sampled)
    assert ledger.head == before


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_of_numpy_are_recorded_as_what_they_are(ledger: Ledger, kind: type):
    event = Repeated(event=Gaussian(noise_multiplier=kind(40.0)), times=np.int64(3))  # pyright: ignore[reportArgumentType]
    pay(ledger.for_dataset("patients"), event)
    assert ledger.account("patients").released == {
        Repeated(event=Gaussian(noise_multiplier=40.0), times=3): 1
    }


# Terms


def test_another_adjacency_is_refused(ledger: Ledger):
    before = ledger.head
    with pytest.raises(InvalidArgument, match=r"is for add-or-remove, and this release .* replace"):
        ledger.for_dataset("patients").charge(
            Gaussian(noise_multiplier=9.0), adjacency=Adjacency.REPLACE, purpose="test"
        )
    assert ledger.head == before


def test_another_unit_is_refused_where_it_is_said(ledger: Ledger):
    budget, event = ledger.for_dataset("patients"), Gaussian(noise_multiplier=9.0)
    with pytest.raises(InvalidArgument, match="protects a record, and this release a user"):
        budget.charge(event, adjacency=ONE, purpose="test", unit="user")
    budget.charge(event, adjacency=ONE, purpose="test", unit="record")


def test_where_a_user_is_protected_the_unit_has_to_be_said(ledger: Ledger):
    ledger.limit("visits", epsilon=3.0, delta=1e-6, unit="user")
    before = ledger.head
    with pytest.raises(InvalidArgument, match="protects a user, and this release does not say whom"):
        pay(ledger.for_dataset("visits"), Gaussian(noise_multiplier=9.0))
    with pytest.raises(InvalidArgument, match="protects a user, and this release a record"):
        pay(ledger.for_dataset("visits", unit="record"), Gaussian(noise_multiplier=9.0))
    assert ledger.head == before
    pay(ledger.for_dataset("visits", unit="user"), Gaussian(noise_multiplier=9.0))
    assert ledger.for_dataset("visits").guarantee().unit == "user"


def test_an_unknown_dataset_gets_a_suggestion(ledger: Ledger):
    with pytest.raises(InvalidArgument, match=r"no dataset 'patient'\. Did you mean 'patients'\?"):
        ledger.for_dataset("patient")


@pytest.mark.parametrize("purpose", ["", "  ", "two\nlines", "x" * 501, "\x1b[31mred", None])
def test_a_purpose_is_one_printable_line(ledger: Ledger, purpose: Any):
    with pytest.raises(InvalidArgument, match="purpose"):
        pay(ledger.for_dataset("patients"), Gaussian(noise_multiplier=9.0), purpose)


@pytest.mark.parametrize(
    "event", [None, 1.0, {"kind": "gaussian", "noise_multiplier": 1.0}, "gaussian", Gaussian]
)
def test_only_events_are_charged(ledger: Ledger, event: Any):
    with pytest.raises(InvalidArgument, match="event"):
        pay(ledger.for_dataset("patients"), event)


def test_an_event_too_long_for_an_entry_is_refused(ledger: Ledger):
    many = Composed(events=tuple(Gaussian(noise_multiplier=1e6 + i) for i in range(40_000)))
    before = ledger.head
    with pytest.raises(InvalidArgument, match="too long"):
        pay(ledger.for_dataset("patients"), many)
    assert ledger.head == before


# Limits


def test_a_raised_limit_is_an_entry_and_lets_more_through(ledger: Ledger):
    budget = ledger.for_dataset("patients")
    with pytest.raises(BudgetExceeded):
        pay(budget, Gaussian(noise_multiplier=1.0))
    ledger.limit("patients", epsilon=6.0, delta=1e-6)
    pay(budget, Gaussian(noise_multiplier=1.0))
    limits = [entry.values["limit"]["epsilon"] for entry in ledger.entries() if entry.kind == "limit"]
    assert limits == [3.0, 6.0]


def test_a_limit_can_be_lowered_to_what_is_spent_and_no_further(ledger: Ledger):
    pay(ledger.for_dataset("patients"), Gaussian(noise_multiplier=4.0))
    spent = ledger.for_dataset("patients").guarantee().epsilon
    with pytest.raises(BudgetExceeded, match="more than the new limit"):
        ledger.limit("patients", epsilon=0.999 * spent, delta=1e-6)
    ledger.limit("patients", epsilon=spent, delta=1e-6)
    assert ledger.account("patients").limit.epsilon == spent


def test_a_limit_with_a_smaller_delta_is_held_against_what_is_spent(ledger: Ledger):
    ledger.limit("others", epsilon=1.0, delta=1e-3)
    pay(ledger.for_dataset("others"), Gaussian(noise_multiplier=3.5))
    with pytest.raises(BudgetExceeded):
        ledger.limit("others", epsilon=1.0, delta=1e-12)


def test_the_same_limit_again_adds_nothing(ledger: Ledger):
    before = ledger.head
    ledger.limit("patients", epsilon=3.0, delta=1e-6)
    assert ledger.head == before


@pytest.mark.parametrize(
    "change",
    [{"adjacency": Adjacency.REPLACE}, {"unit": "user"}, {"adaptive": True}],
    ids=["adjacency", "unit", "adaptive"],
)
def test_neighbours_can_change_until_something_is_charged(ledger: Ledger, change: dict[str, Any]):
    ledger.limit("patients", epsilon=3.0, delta=1e-6, **change)
    ledger.limit("patients", epsilon=3.0, delta=1e-6, adjacency=ONE, unit="record", adaptive=False)
    pay(ledger.for_dataset("patients"), Gaussian(noise_multiplier=9.0))
    with pytest.raises(InvalidArgument, match="cannot become"):
        ledger.limit("patients", epsilon=3.0, delta=1e-6, **change)


def test_what_is_not_said_about_a_limit_stays(ledger: Ledger):
    ledger.limit("others", epsilon=1.0, delta=1e-6, adjacency=Adjacency.REPLACE, unit="user", adaptive=True)
    limit = ledger.limit("others", epsilon=2.0, delta=1e-7)
    assert (limit.adjacency, limit.unit, limit.adaptive) == (Adjacency.REPLACE, "user", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"unit": "person"},
        {"adjacency": "neighbour"},
    ],
    ids=str,
)
def test_a_limit_that_means_nothing_is_refused(ledger: Ledger, wrong: dict[str, Any]):
    before = ledger.head
    with pytest.raises(InvalidArgument):
        ledger.limit("others", **{"epsilon": 1.0, "delta": 1e-6, **wrong})
    assert ledger.head == before


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_a_name_is_one_printable_line(ledger: Ledger, name: str):
    with pytest.raises(InvalidArgument, match="dataset"):
        ledger.limit(name, epsilon=1.0, delta=1e-6)


# Planned and adaptive


def test_a_planned_total_says_what_it_assumes(ledger: Ledger):
    budget = ledger.for_dataset("patients")
    pay(budget, Gaussian(noise_multiplier=9.0))
    assert budget.guarantee().assumptions == ()
    pay(budget, Gaussian(noise_multiplier=7.0))
    assert budget.guarantee().assumptions == (cost.PLANNED,)


def test_an_adaptive_total_promises_the_limit_and_assumes_nothing(ledger: Ledger):
    ledger.limit("others", epsilon=2.0, delta=1e-6, adaptive=True)
    budget = ledger.for_dataset("others")
    assert budget.guarantee().epsilon == 0.0
    pay(budget, Gaussian(noise_multiplier=30.0))
    assert (budget.guarantee().epsilon, budget.guarantee().assumptions) == (2.0, ())
    assert "Renyi filters" in budget.guarantee().accountant


def test_an_adaptive_total_is_the_highest_limit_since_the_first_charge(ledger: Ledger):
    ledger.limit("others", epsilon=9.0, delta=1e-6, adaptive=True)
    ledger.limit("others", epsilon=2.0, delta=1e-6)
    budget = ledger.for_dataset("others")
    pay(budget, Gaussian(noise_multiplier=30.0))
    assert budget.guarantee().epsilon == 2.0
    fixed = ledger.account("others").limit.shares
    ledger.limit("others", epsilon=5.0, delta=1e-6)
    ledger.limit("others", epsilon=1.5, delta=1e-6)
    assert budget.guarantee().epsilon == 5.0
    assert ledger.account("others").limit.shares == fixed
    with pytest.raises(InvalidArgument, match="delta of an adaptive limit"):
        ledger.limit("others", epsilon=5.0, delta=1e-7)


def releases() -> st.SearchStrategy[Event]:
    noises = st.sampled_from([3.0, 5.0, 9.0, 20.0])
    return st.one_of(
        st.builds(lambda noise: Gaussian(noise_multiplier=noise), noises),
        st.builds(lambda noise: Laplace(noise_multiplier=noise), noises),
        st.builds(
            lambda noise, times: Repeated(
                event=PoissonSampled(rate=0.02, event=Gaussian(noise_multiplier=noise / 3)), times=times
            ),
            noises,
            st.integers(1, 400),
        ),
        st.just(Repeated(event=STEP, times=50)),
        st.just(ApproximateDp(epsilon=0.1, delta=1e-11)),
    )


_FEW = settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FEW
@given(wanted=st.lists(releases(), min_size=1, max_size=10), epsilon=st.floats(0.5, 4))
def test_charged_is_what_fits_and_the_total_is_tight(tmp_path: Path, wanted: list[Event], epsilon: float):
    with Ledger.create(tmp_path / f"{os.urandom(8).hex()}.ledger") as ledger:
        ledger.limit("data", epsilon=epsilon, delta=1e-6)
        budget, accepted = ledger.for_dataset("data"), []
        for event in wanted:
            bounds = tight(Composed(events=(*accepted, event)), 1e-6)
            try:
                pay(budget, event)
            except BudgetExceeded:
                assert bounds.upper > epsilon * (1 - 1e-6)
            else:
                assert bounds.lower <= epsilon
                accepted.append(event)
            assert budget.guarantee().epsilon <= epsilon
        bounds = tight(Composed(events=tuple(accepted)), 1e-6)
        assert bounds.lower <= budget.guarantee().epsilon <= bounds.upper * (1 + 1e-6)
        # By the tightest accountant, unless another bound is smaller still.
        assert budget.guarantee().epsilon == pytest.approx(bounds.upper, rel=2e-3)
        assert ledger.account("data").charges == len(accepted)


@_FEW
@given(wanted=st.lists(releases(), min_size=1, max_size=10), epsilon=st.floats(0.5, 4))
def test_adaptively_charged_is_what_the_filter_lets_through(
    tmp_path: Path, wanted: list[Event], epsilon: float
):
    with Ledger.create(tmp_path / f"{os.urandom(8).hex()}.ledger") as ledger:
        ledger.limit("data", epsilon=epsilon, delta=1e-6, adaptive=True)
        budget = ledger.for_dataset("data")
        left = delta_left_for(epsilon, 1e-6)
        guards = list(make_filters(shares_for(epsilon, 1e-6), epsilon=epsilon, delta=left))
        for event in wanted:
            if fitting := [guard for guard in guards if guard.fits(event)]:
                guards = fitting  # what is passed once stays passed
                for guard in guards:
                    guard.spend(event)
                pay(budget, event)
            else:
                with pytest.raises(BudgetExceeded, match="of what its filters allow"):
                    pay(budget, event)
        least = min(guard.spent / guard.limit for guard in guards)
        assert cost.share(ledger.account("data")) == pytest.approx(least, rel=1e-9)


# Others charge at the same time


def test_two_open_ledgers_see_each_other(ledger: Ledger):
    with Ledger.open(ledger.address) as other:
        for turn in range(10):
            pay((ledger, other)[turn % 2].for_dataset("patients"), Gaussian(noise_multiplier=30.0))
        assert ledger.head == other.head
        assert other.account("patients").charges == 10


def test_a_slow_decision_is_made_outside_the_lock_and_again_when_others_charged(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    ledger.limit("patients", epsilon=1.0, delta=1e-6)
    event, others = Laplace(noise_multiplier=20.0), []
    while cost.is_within(
        ledger.account("patients").event(event), ledger.account("patients").limit, is_quick=True
    ):
        pay(ledger.for_dataset("patients"), event)
    decide = cost.is_within
    tiny = Gaussian(noise_multiplier=1e5)

    def slow(whole: Event, limit: Any, *, is_quick: bool = False) -> bool | None:
        if not is_quick and len(others) < 2:
            others.append(whole)
            with Ledger.open(ledger.address, timeout=0.5) as other:  # would fail if the lock were held
                other.limit("elsewhere", epsilon=1.0, delta=1e-6)
                monkeypatch.setattr(cost, "is_within", decide)
                pay(other.for_dataset("patients"), tiny)
                monkeypatch.setattr(cost, "is_within", slow)
        return decide(whole, limit, is_quick=is_quick)

    before = ledger.account("patients").charges
    monkeypatch.setattr(cost, "is_within", slow)
    pay(ledger.for_dataset("patients"), event)
    assert len(others) == 2
    assert ledger.account("patients").charges == before + 3


def test_a_decision_that_others_keep_overtaking_is_made_with_the_lock_held(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    asked: list[bool] = []

    def never_quick(whole: Event, limit: Any, *, is_quick: bool = False) -> bool | None:
        asked.append(is_quick)
        if is_quick:
            return None
        if len(asked) < 7:
            with Ledger.open(ledger.address) as other:
                other.limit("patients", epsilon=3.0 + len(asked), delta=1e-6)
        return True

    monkeypatch.setattr(cost, "is_within", never_quick)
    pay(ledger.for_dataset("patients"), Gaussian(noise_multiplier=9.0))
    assert asked == [True, False, True, False, True, False, False]


def test_threads_may_share_a_ledger(ledger: Ledger):
    budget, refused = ledger.for_dataset("patients"), []

    def charge_some() -> None:
        for _ in range(10):
            try:
                pay(budget, Gaussian(noise_multiplier=10.0))
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=charge_some) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fitting = next(
        n
        for n in range(60)
        if tight(Repeated(event=Gaussian(noise_multiplier=10.0), times=n + 1), 1e-6).upper > 3
    )
    assert ledger.account("patients").charges == fitting == 60 - len(refused)
    ledger.verify()


def test_a_closed_ledger_opens_itself_again(ledger: Ledger):
    ledger.close()
    ledger.close()
    pay(ledger.for_dataset("patients"), Gaussian(noise_multiplier=9.0))


def test_a_ledger_needs_no_jax():
    code = "import sys, reticent; reticent.Ledger; print('jax' in sys.modules, 'optax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_what_is_printed_shows_no_more_than_names(ledger: Ledger):
    assert repr(ledger) == f"Ledger('{ledger.address}')"
    assert repr(ledger.for_dataset("patients")) == f"DatasetBudget('patients' in '{ledger.address}')"
    assert isinstance(ledger.for_dataset("patients"), DatasetBudget)
    assert json.dumps(ledger.export())
