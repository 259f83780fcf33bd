"""What the datasets of a ledger may spend, have spent, and could still spend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.core.errors import ReticentError
from reticent.ledger import cost
from reticent.ledger.accounts import Account, Accounts
from reticent.ledger.chain import Entry
from reticent.ledger.ledger import Ledger
from reticent.report.facts.facts import bound_from_above

_MOST_POINTS = 40  # of a history that are worked out; the newest count most


@dataclass(frozen=True)
class DatasetSpending:
    """One dataset of a ledger.

    Args:
        share: of the limit that is spent.
        points: what was spent after each charge: its number among the entries, its time, epsilon or, of an
            adaptive account, the share.
    """

    account: Account
    share: float
    sentence: str
    entries: tuple[Entry, ...]
    points: tuple[tuple[int, str, float], ...]

    @property
    def is_over_time(self) -> bool:
        return len(self.points) > 1


def spending(address: Path) -> tuple[Ledger, list[DatasetSpending]]:
    """A ledger, and all of its datasets.

    Raises:
        ReticentError: it is not a ledger, or damaged.
    """
    with Ledger.open(str(address)) as ledger:
        entries = ledger.entries()
        histories = _histories(entries, address)
        found = []
        for name in ledger.datasets():
            account = ledger.account(name)
            own = tuple(
                each
                for each in entries
                if name in (each.values.get("dataset"), each.values.get("same_rows_as"))
            )
            found.append(
                DatasetSpending(
                    account, cost.share(account), _sentence(account), own, tuple(histories.get(name, ()))
                )
            )
    return ledger, found


def _sentence(account: Account) -> str:
    return str(cost.guarantee(account)) if account.charges else "Nothing was charged yet."


def _histories(entries: list[Entry], address: Path) -> dict[str, list[tuple[int, str, float]]]:
    """What each dataset had spent after each of its charges, by reading the ledger once more."""
    charges = [each for each in entries if each.kind == "charge"]
    shown = {each.sequence for each in charges[-_MOST_POINTS:]}
    read, histories = Accounts(where=address), dict[str, list[tuple[int, str, float]]]()
    for entry in entries:
        read.read(entry)
        if entry.sequence not in shown:
            continue
        account = read.find(entry.values["dataset"])
        try:
            spent = cost.share(account) * account.limit.epsilon
        except ReticentError:  # no theorem about it under this adjacency
            continue
        histories.setdefault(account.name, []).append((entry.sequence, entry.time, spent))
    return histories


def what_fits(address: Path, dataset: str) -> dict[str, Any]:
    """What would still fit: searched for, so it takes some seconds."""
    with Ledger.open(str(address)) as ledger:
        account = ledger.account(dataset)
    return {"said": str(cost.remaining(account)), "spent": bound_from_above("", cost.share(account)).shown}
