"""What every run does before it learns anything: divide its budget, and pay for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING, delta_left
from reticent.accounting.search import bisect
from reticent.accounting.tight_epsilon import guarantee, upper_bound
from reticent.core.errors import (
    BudgetExceeded,
    CannotMeet,
    DataError,
    IntegrityError,
    OutcomeUnknown,
    ReticentError,
)
from reticent.core.observer import Observer
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.ledger import cost
from reticent.ledger.accounts import Account
from reticent.ledger.ledger import Ledger
from reticent.ledger.rules import budget_exceeded
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event
from reticent.runs import folder as folders
from reticent.runs.largest_affordable_epsilon import affordable
from reticent.runs.origin import mark_as_own
from reticent.runs.problem import checked_delta, default_delta
from reticent.runs.record import PreparationCost, Requested, RunRecord

PriceFunction = Callable[[float], Event]

PREPARATION = 0.1  # of epsilon, and of delta
_SHARE = 0.1  # of the delta of a ledger's limit, for a run that asks for none
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


def pay(
    folder: Path,
    record: RunRecord,
    observer: Observer,
    *,
    data: Any = None,
    price: PriceFunction | None = None,
) -> None:
    """Says in a new folder what was asked for, and charges it; a refused request leaves nothing behind.

    Args:
        data: what the run is about, as `charge` takes it.

    Raises:
        BudgetExceeded: the ledger does not cover it; nothing was charged.
        OutcomeUnknown: the ledger's answer was lost; the folder stays, and can be resumed.
    """
    folders.require_new(folder)
    try:
        _mark(folder, record, observer)
        folders.write_record(folder, record)
        charge(record, observer, data=data, price=price)
    except OutcomeUnknown as error:
        command = f"reticent {record.command} --resume {folder}"
        remedy = f"When the server is back: {command}. It looks for the charge, and is charged once."
        raise OutcomeUnknown(error.happened, remedy=remedy) from error
    except ReticentError:
        folders.discard(folder)
        raise
    except KeyboardInterrupt:
        if not is_charged(record):
            folders.discard(folder)
        raise


def delta_of(request: Any, rows: int, *, claims: bool) -> float:
    """The delta of a request, or the default: for a claim beside a ledger, a tenth of its limit's at most.

    The deltas that claims take add up, whatever their epsilons: one claim of the whole delta would leave
    nothing for anything after it.
    """
    if request.delta is not None or request.ledger is None or not claims:
        return checked_delta(request.delta, rows)
    share = by_first(lambda: float(f"{_SHARE * _account(request.ledger, request.dataset).limit.delta:.6g}"))
    return min(default_delta(rows), collectives.broadcast_json(share))


def _account(address: str, dataset: str) -> Account:
    with Ledger.open(address) as ledger:
        return ledger.account(dataset)


def data_of(source: Any) -> Any:
    """What the ledger takes a fingerprint of: the file, or the rows of a dataset of the catalog."""
    return source.table.path if source.table is not None else source.named_data


def _mark(folder: Path, record: RunRecord, observer: Observer) -> None:
    """Marks the run as this user's; where no key can be kept, says what that means."""
    try:
        mark_as_own(folder, record)
    except DataError as error:
        later = "Before this run is resumed, attacked or audited, it will have to be trusted"
        observer.warn(f"{error.happened} {later}: reticent trust {folder}.")


def charge(
    record: RunRecord, observer: Observer, *, data: Any = None, price: PriceFunction | None = None
) -> None:
    """Pays for what a run releases first, unless the ledger has that already, whatever the folder says.

    That is its preparation, once the ledger has room for the rest too; or all of it, where nothing has to be
    found privately.

    Args:
        data: the path of a table, or a dataset of the catalog: the ledger keeps its fingerprint.
        price: what the run would release with another epsilon, to say which one would have been covered.

    Raises:
        BudgetExceeded: the ledger does not cover all of it; nothing was charged.
        DataError: these are not the data that were charged for under this name before.
    """
    path, dataset = record.request.ledger, record.request.dataset
    if path is None or dataset is None:
        return
    with Ledger.open(path) as ledger:
        if not _is_paid(ledger, record, 0):
            fingerprint = None if data is None else ledger.fingerprint(data)
            try:
                _require_room(ledger.account(dataset), record)
                _charge_part(ledger, record, 0, fingerprint)
            except BudgetExceeded as error:
                remedy = _what_fits(ledger.account(dataset), record.request, price)
                raise BudgetExceeded(error.happened, remedy=remedy) from error
    if record.state == "started" and len(record.charges) == 1:
        observer.say(f"Charged to '{dataset}' in {path}.")


def charge_rest(record: RunRecord, folder: Path, observer: Observer, *, data: Any = None) -> None:
    """Pays for what a run releases after its preparation, unless that was done before.

    Raises:
        BudgetExceeded: something else was charged since the run began; its preparation stays charged.
    """
    path, dataset = record.request.ledger, record.request.dataset
    if path is None or dataset is None or len(record.charges) == 1:
        return
    with Ledger.open(path) as ledger:
        if not _is_paid(ledger, record, 1):
            fingerprint = None if data is None else ledger.fingerprint(data)
            try:
                _charge_part(ledger, record, 1, fingerprint)
            except BudgetExceeded as error:
                resumed = f"reticent {record.command} --resume {folder}"
                remedy = f"Have the limit raised (reticent ledger limit), then resume with: {resumed}."
                happened = f"Something else was charged since the run began. {error.happened}"
                raise BudgetExceeded(happened, remedy=remedy) from error
    if record.state != "paid":
        observer.say(f"Charged to '{dataset}' in {path}.")


def _require_room(account: Account, record: RunRecord) -> None:
    """
    Raises:
        BudgetExceeded: preparation may fit, and all of the run does not.
    """
    if len(record.charges) > 1 and not cost.is_within(account.event(record.event), account.limit):
        raise budget_exceeded(account, record.event)


def _charge_part(ledger: Ledger, record: RunRecord, part: int, fingerprint: str | None) -> None:
    assert record.request.dataset is not None
    ledger.for_dataset(record.request.dataset, fingerprint=fingerprint).charge(
        record.charges[part],
        adjacency=Adjacency.ADD_OR_REMOVE,
        purpose=_purpose(record, part),
        unit=record.request.unit,
    )


def _is_paid(ledger: Ledger, record: RunRecord, part: int) -> bool:
    """Whether the ledger has a charge for a part of a run, or one for all of it.

    Raises:
        IntegrityError: it was charged for something else.
    """
    charged = [(entry.purpose, entry.values.get("event")) for entry in ledger.entries(record.request.dataset)]
    is_paid = False
    for number, event in enumerate(record.charges):
        for purpose, found in charged:
            if purpose != _purpose(record, number):
                continue
            # Earlier versions charged all of a run at once, under the purpose of what is charged last.
            is_whole = purpose == _purpose(record) and found == events.to_json(record.event)
            if not is_whole and found != events.to_json(event):
                raise IntegrityError(
                    f"Run {record.number} was charged to '{record.request.dataset}' for something other "
                    "than what its record says.",
                    remedy="The record was changed: restore it from a copy.",
                )
            is_paid |= is_whole or number == part
    return is_paid


def _what_fits(account: Account, request: Requested, price: PriceFunction | None) -> str:
    """In words that can be typed, for somebody whose run was refused."""
    raised = "have the limit raised: reticent ledger limit"
    if price is None:
        return f"Start over with a smaller --epsilon, or {raised}."
    epsilon = affordable(account, price, request.epsilon)
    if epsilon is not None:
        return f"Ask for --epsilon {epsilon:g}, which still fits, or {raised}."
    # Claims of delta add up, so that it may be used up while there is epsilon left.
    return f"No smaller --epsilon fits at delta {request.delta:g}. Ask for a smaller --delta, or {raised}."


def is_charged(record: RunRecord) -> bool:
    """Whether the ledger has the first charge of a run; if it cannot be read, it may have."""
    path, dataset = record.request.ledger, record.request.dataset
    if path is None or dataset is None:
        return False
    if record.state != "started":
        return True
    try:
        with Ledger.open(path) as ledger:
            return ledger.has_charge(dataset, purpose=_purpose(record, 0))
    except ReticentError:
        return True


def _purpose(record: RunRecord, part: int = -1) -> str:
    """The purpose by which the ledger knows a charge of a run."""
    named = f"{record.command}, run {record.number}"
    return f"{named}, preparation" if part == 0 and len(record.charges) > 1 else named
