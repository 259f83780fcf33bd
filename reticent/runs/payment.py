"""What every run does before it learns anything: divide its budget, pay for it, find what is public."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reticent.accounting import calibrate
from reticent.accounting.epsilon import guarantee, upper_bound
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING, left_of
from reticent.accounting.search import bisect
from reticent.core.errors import BudgetExceeded, CannotMeet, Inconclusive, ReticentError
from reticent.core.keys import Keys
from reticent.core.observer import Onlooker
from reticent.data.domain import Domain
from reticent.data.files import Table
from reticent.data.preparation import prepare
from reticent.data.preparation.noise import PreparationNoise, Release
from reticent.distributed.consensus import by_first
from reticent.ledger.accounts import Account
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event
from reticent.runs import folder as folders
from reticent.runs.largest_affordable_epsilon import affordable

Price = Callable[[float], Event]

PREPARATION = 0.1  # of epsilon, and of delta
_FITTING = 0.9  # of delta, for a claim that is not alone


def preparation_noise(
    releases: Sequence[Release], *, epsilon: float, delta: float
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


def preparation_record(noise: PreparationNoise | None, *, delta: float) -> dict[str, float] | None:
    """What preparation alone would cost."""
    if noise is None:
        return None
    alone = guarantee(noise.event, PREPARATION * delta, Adjacency.ADD_OR_REMOVE)
    return {
        "noise_multiplier": noise.noise_multiplier,
        "epsilon": alone.epsilon,
        "delta": PREPARATION * delta,
    }


def claim_beside(beside: Event | None, *, epsilon: float, delta: float) -> tuple[float, float]:
    """The (epsilon, delta) that something may claim so that, beside an event, the whole budget is kept."""
    if beside is None:
        return epsilon, delta
    own, everyone = _FITTING * delta, Neighbours(Adjacency.ADD_OR_REMOVE)
    left = left_of(delta, TRAINING * delta)  # the rest pays for samplers that are a little off their law

    def is_too_much(value: float) -> bool:
        both = Composed(events=(beside, ApproximateDp(epsilon=value, delta=own)))
        return not (upper_bound(both, left, everyone) <= epsilon)

    # The last epsilon that fits: the search ends on the first that does not, to many digits.
    return bisect(is_too_much, 0.0, epsilon, relative=1e-7) * (1 - 1e-6), own


def pay(
    folder: Path,
    record: dict[str, Any],
    event: Event,
    onlooker: Onlooker,
    *,
    what: str,
    price: Price | None = None,
) -> None:
    """Says in a new folder what was asked for, and charges it; a refused order leaves nothing behind.

    Raises:
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    folders.require_new(folder)
    try:
        folders.write_record(folder, record)
        charge(record, event, onlooker, what=what, price=price)
    except ReticentError:
        folders.discard(folder)
        raise
    except KeyboardInterrupt:
        if not is_charged(record, what=what):
            folders.discard(folder)
        raise


# Of a run whose processes each read a part of a file.
COPIES = "all processes of this run read the same file: compared are its size, its columns and its ends"


def mark_paid(record: dict[str, Any], *assumptions: str) -> None:
    """Says, before any noise, that it is paid for and what it will rest on, whoever goes on with it."""
    record["assumptions"] = list(dict.fromkeys((*record.get("assumptions", ()), *assumptions)))
    record["state"] = "paid"


def charge(
    record: dict[str, Any], event: Event, onlooker: Onlooker, *, what: str, price: Price | None = None
) -> None:
    """Pays for the whole run, unless that was done before: its number is looked for in the ledger.

    Args:
        price: what the run would release with another epsilon, to say which one would have been covered.

    Raises:
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    path, dataset = record["order"]["ledger"], record["order"]["dataset"]
    if record["state"] == "paid" or path is None or dataset is None:
        return
    with Ledger.open(path) as ledger:
        if not _has_entry(ledger, record, what):
            budget = ledger.for_dataset(dataset)
            try:
                budget.charge(
                    event, adjacency=Adjacency.ADD_OR_REMOVE, purpose=_purpose(record, what), unit="record"
                )
            except BudgetExceeded as error:
                remedy = _what_fits(ledger.account(dataset), record["order"], price)
                raise BudgetExceeded(error.happened, remedy=remedy) from error
    onlooker.say(f"Charged to '{dataset}' in {path}.")


def _what_fits(account: Account, order: dict[str, Any], price: Price | None) -> str:
    """In words that can be typed, for somebody whose run was refused."""
    raised = "have the limit raised: reticent ledger limit"
    if price is None:
        return f"Start anew with a smaller --epsilon, or {raised}."
    epsilon = affordable(account, price, order["epsilon"])
    if epsilon is not None:
        return f"Ask for --epsilon {epsilon:g}, which still fits, or {raised}."
    # Claims of delta add up, so that it may be used up while there is epsilon left.
    return f"No smaller --epsilon fits at delta {order['delta']:g}. Ask for a smaller --delta, or {raised}."


def is_charged(record: dict[str, Any], *, what: str) -> bool:
    """Whether the ledger has the run; if it cannot be read, it may have."""
    path, dataset = record["order"]["ledger"], record["order"]["dataset"]
    if path is None or dataset is None:
        return False
    if record["state"] != "started":
        return True
    try:
        with Ledger.open(path) as ledger:
            return _has_entry(ledger, record, what)
    except ReticentError:
        return True


def _has_entry(ledger: Ledger, record: dict[str, Any], what: str) -> bool:
    purpose = _purpose(record, what)
    return any(purpose in str(entry.values) for entry in ledger.entries(record["order"]["dataset"]))


def _purpose(record: dict[str, Any], what: str) -> str:
    return f"{what}, run {record['number']}"


def write_failure(folder: Path, record: dict[str, Any], error: Inconclusive) -> None:
    """The run has failed for good, and says so to whoever would go on with it."""
    record |= {"state": "failed", "failure": str(error)}
    by_first(lambda: folders.write_record(folder, record))


def found_domain(
    folder: Path,
    record: dict[str, Any],
    table: Table,
    noise: PreparationNoise,
    keys: Keys,
    onlooker: Onlooker,
    *,
    declared: Domain | None,
    target: str | None,
) -> Domain:
    """What is public about a table, found just now at the price of `noise`; on the disk before it is said.

    Raises:
        Inconclusive: it cannot be used. The answer is a release too: the run has failed for good.
    """
    try:
        with onlooker.watch("preparing") as on_progress:
            found = prepare(table, noise, keys, domain=declared, target=target, on_progress=on_progress)
    except Inconclusive as error:  # a second one was not paid for
        write_failure(folder, record, error)
        raise
    domain = folders.write_domain(folder, found.domain)  # before a word of it is said
    for line in found.found:
        onlooker.say(f"found privately: {line}")
    for line in found.ignored:
        onlooker.warn(line)
    return domain
