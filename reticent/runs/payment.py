"""What every run does before it learns anything: divide its budget, and pay for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING, delta_left
from reticent.accounting.search import bisect
from reticent.accounting.tight_epsilon import guarantee, upper_bound
from reticent.core.errors import BudgetExceeded, CannotMeet, DataError, IntegrityError, ReticentError
from reticent.core.observer import Observer
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.ledger.accounts import Account
from reticent.ledger.ledger import Ledger
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event
from reticent.runs import folder as folders
from reticent.runs.largest_affordable_epsilon import affordable
from reticent.runs.origin import mark_as_own
from reticent.runs.record import PreparationCost, Requested, RunRecord

Price = Callable[[float], Event]

PREPARATION = 0.1  # of epsilon, and of delta
_FITTING = 0.9  # of delta, for a claim that is not alone


def preparation_noise(
    releases: Sequence[PreparationRelease], *, epsilon: float, delta: float
) -> PreparationNoise | None:
    """Noise for what has to be found privately, at a tenth of the budget; None if all is declared."""
    if not releases:
        return None

    def with_noise(multiplier: float) -> PreparationNoise:
        # Half of preparation's delta is for words that one row alone has.
        hidden = 0.5 * PREPARATION * delta
        return PreparationNoise(noise_multiplier=multiplier, delta=hidden, releases=tuple(releases))

    try:
        multiplier = calibrate.noise_for(
            lambda value: with_noise(value).event,
            Neighbours(Adjacency.ADD_OR_REMOVE),
            epsilon=PREPARATION * epsilon,
            delta=PREPARATION * delta,
            guess=5 / (PREPARATION * epsilon),
        )
    except CannotMeet as error:  # which speaks of a tenth of what was asked for
        raise CannotMeet(
            f"No noise is right for epsilon {epsilon:g} at delta {delta:g}, a tenth of it for preparation.",
            remedy=error.remedy,
        ) from error
    return with_noise(multiplier)


def preparation_cost(noise: PreparationNoise | None, *, delta: float) -> PreparationCost | None:
    """What preparation alone would cost."""
    if noise is None:
        return None
    alone = guarantee(noise.event, PREPARATION * delta, Adjacency.ADD_OR_REMOVE)
    return PreparationCost(
        noise_multiplier=noise.noise_multiplier, epsilon=alone.epsilon, delta=PREPARATION * delta
    )


def claim_beside(beside: Event | None, *, epsilon: float, delta: float) -> tuple[float, float]:
    """The (epsilon, delta) that something may claim so that, beside an event, the whole budget is kept."""
    if beside is None:
        return epsilon, delta
    own, everyone = _FITTING * delta, Neighbours(Adjacency.ADD_OR_REMOVE)
    left = delta_left(delta, TRAINING * delta)  # the rest pays for samplers that are a little off their law

    def is_too_much(value: float) -> bool:
        both = Composed(events=(beside, ApproximateDp(epsilon=value, delta=own)))
        return not (upper_bound(both, left, everyone) <= epsilon)

    # The last epsilon that fits: the search ends on the first that does not, to many digits.
    return bisect(is_too_much, 0.0, epsilon, relative=1e-7) * (1 - 1e-6), own


def pay(folder: Path, record: RunRecord, observer: Observer, *, price: Price | None = None) -> None:
    """Says in a new folder what was asked for, and charges it; a refused request leaves nothing behind.

    Raises:
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    folders.require_new(folder)
    try:
        _mark(folder, record, observer)
        folders.write_record(folder, record)
        charge(record, observer, price=price)
    except ReticentError:
        folders.discard(folder)
        raise
    except KeyboardInterrupt:
        if not is_charged(record):
            folders.discard(folder)
        raise


def _mark(folder: Path, record: RunRecord, observer: Observer) -> None:
    """Marks the run as this user's; where no key can be kept, says what that means."""
    try:
        mark_as_own(folder, record)
    except DataError as error:
        later = "Before this run is resumed, attacked or audited, it will have to be trusted"
        observer.warn(f"{error.happened} {later}: reticent trust {folder}.")


def charge(record: RunRecord, observer: Observer, *, price: Price | None = None) -> None:
    """Pays for the whole run, unless that was done before: by the ledger, whatever the folder says.

    Args:
        price: what the run would release with another epsilon, to say which one would have been covered.

    Raises:
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    path, dataset = record.request.ledger, record.request.dataset
    if path is None or dataset is None:
        return
    with Ledger.open(path) as ledger:
        paid = [entry for entry in ledger.entries(dataset) if entry.purpose == _purpose(record)]
        if any(entry.values["event"] != events.to_json(record.event) for entry in paid):
            raise IntegrityError(
                f"Run {record.number} was charged to '{dataset}' for something else than its record says.",
                remedy="The record was changed: restore it from a copy.",
            )
        if not paid:
            budget = ledger.for_dataset(dataset)
            try:
                budget.charge(
                    record.event, adjacency=Adjacency.ADD_OR_REMOVE, purpose=_purpose(record), unit="record"
                )
            except BudgetExceeded as error:
                remedy = _what_fits(ledger.account(dataset), record.request, price)
                raise BudgetExceeded(error.happened, remedy=remedy) from error
    if record.state != "paid":
        observer.say(f"Charged to '{dataset}' in {path}.")


def _what_fits(account: Account, request: Requested, price: Price | None) -> str:
    """In words that can be typed, for somebody whose run was refused."""
    raised = "have the limit raised: reticent ledger limit"
    if price is None:
        return f"Start anew with a smaller --epsilon, or {raised}."
    epsilon = affordable(account, price, request.epsilon)
    if epsilon is not None:
        return f"Ask for --epsilon {epsilon:g}, which still fits, or {raised}."
    # Claims of delta add up, so that it may be used up while there is epsilon left.
    return f"No smaller --epsilon fits at delta {request.delta:g}. Ask for a smaller --delta, or {raised}."


def is_charged(record: RunRecord) -> bool:
    """Whether the ledger has the run; if it cannot be read, it may have."""
    path, dataset = record.request.ledger, record.request.dataset
    if path is None or dataset is None:
        return False
    if record.state != "started":
        return True
    try:
        with Ledger.open(path) as ledger:
            return ledger.has_charge(dataset, purpose=_purpose(record))
    except ReticentError:
        return True


def _purpose(record: RunRecord) -> str:
    return f"{record.command}, run {record.number}"
