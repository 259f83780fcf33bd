"""What every run does before it learns anything: pay for all of it, then find what is public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reticent.core.errors import BudgetExceeded, Inconclusive
from reticent.core.keys import Keys
from reticent.data.domain import Domain
from reticent.data.files import Table
from reticent.data.preparation import prepare
from reticent.data.preparation.noise import PreparationNoise
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.runs import folder as folders
from reticent.runs.onlooker import Onlooker


def charge(record: dict[str, Any], event: Event, onlooker: Onlooker, *, what: str) -> None:
    """Pays for the whole run, unless that was done before: its number is looked for in the ledger.

    Raises:
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    path, dataset = record["order"]["ledger"], record["order"]["dataset"]
    if record["state"] == "paid" or path is None or dataset is None:
        return
    purpose = f"{what}, run {record['number']}"
    with Ledger.open(path) as ledger:
        if not any(purpose in str(entry.values) for entry in ledger.entries(dataset)):
            budget = ledger.for_dataset(dataset)
            try:
                budget.charge(event, adjacency=Adjacency.ADD_OR_REMOVE, purpose=purpose, unit="record")
            except BudgetExceeded as error:
                raise BudgetExceeded(
                    error.happened, remedy=f"Ask for a smaller --epsilon. {error.remedy}"
                ) from error
    onlooker.say(f"Charged to '{dataset}' in {path}.")


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
        record |= {"state": "failed", "failure": str(error)}
        folders.write_record(folder, record)
        raise
    domain = folders.write_domain(folder, found.domain)  # before a word of it is said
    for line in found.found:
        onlooker.say(f"found privately: {line}")
    for line in found.ignored:
        onlooker.warn(line)
    return domain
