"""The entries of a ledger read as accounts: what each dataset may spend, and what was released about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from reticent.accounting.filters import Share
from reticent.accounting.guarantee import Unit
from reticent.core import checks
from reticent.core.errors import InvalidArgument, suggest
from reticent.ledger.chain import START, Entry, Head, broken_ledger, follow
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Repeated


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a dataset may spend in all, and between which neighbours that is meant.

    shares: of the filters, where releases may be chosen by earlier results; none where they are planned.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit
    shares: tuple[Share, ...] = ()

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.inside_unit(delta=self.delta)
        checks.one_of(get_args(Unit), unit=self.unit)
        for share in self.shares:
            checks.positive(order_above_1=share.order - 1, share_of_delta=share.of_delta)

    @property
    def adaptive(self) -> bool:
        return bool(self.shares)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "filters": [share._asdict() for share in self.shares],
        }


@dataclass(frozen=True, kw_only=True)
class Account:
    """One dataset: what it may spend, and how often each event was charged.

    ceiling: the highest epsilon that was the limit at any time since the first charge.
    """

    name: str
    version: int = 1
    fingerprint: str | None = None
    limit: Limit
    ceiling: float
    released: Counter[Event] = field(default_factory=Counter)

    @property
    def charges(self) -> int:
        return self.released.total()

    def snapshot(self) -> Account:
        """A copy that later entries do not change."""
        return replace(self, released=Counter(self.released))

    def event(self, *more: Event) -> Event:
        """Everything that was released, and `more`, as one event. Equal releases are written once."""
        counts = self.released + Counter(more)
        return Composed(events=tuple(Repeated(event=event, times=times) for event, times in counts.items()))


@dataclass(kw_only=True)
class Accounts:
    """All datasets of a ledger, as of a head. `read` moves it on by one entry."""

    where: object
    head: Head = START
    id: str = ""
    by_name: dict[str, Account] = field(default_factory=dict)

    def read(self, entry: Entry) -> None:
        """Takes in the next entry.

        Raises:
            IntegrityError: it does not follow, or does not say what an entry of its kind says.
        """
        head = follow(self.head, entry, where=self.where)
        try:
            self._apply(entry.kind, entry.values)
        except (InvalidArgument, KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
            reason = error.happened if isinstance(error, InvalidArgument) else type(error).__name__
            raise broken_ledger(self.where, f"entry {entry.sequence} makes no sense ({reason})") from None
        self.head = head

    def find(self, name: str) -> Account:
        """
        Raises:
            InvalidArgument: the ledger has no such dataset; the nearest name is suggested.
        """
        if name not in self.by_name:
            raise InvalidArgument(
                f"The ledger {self.where} has no dataset '{name[:80]}'.",
                remedy=suggest(name, self.by_name)
                if self.by_name
                else f"Give it a limit first: reticent ledger limit {self.where} {name[:80]} --epsilon ...",
            )
        return self.by_name[name]

    def _apply(self, kind: str, values: dict[str, Any]) -> None:
        if (kind == "create") != (self.head == START):
            raise InvalidArgument(f"An entry '{kind}' is at the wrong place.", remedy="Restore the ledger.")
        match kind:
            case "create":
                self.id = str(values["id"])
            case "dataset":
                account = self.by_name[values["dataset"]]
                version, mark = int(values["version"]), values["fingerprint"]
                self.by_name[account.name] = replace(account, version=version, fingerprint=mark)
            case "limit":
                self._limit(str(values["dataset"]), _read_limit(values["limit"]))
            case "charge":
                # In place: a copy for each of a million charges would take quadratic time.
                self.by_name[values["dataset"]].released[events.from_json(values["event"])] += 1
            case _:
                raise InvalidArgument(f"No entry is of kind '{kind[:20]}'.", remedy="Restore the ledger.")

    def _limit(self, name: str, limit: Limit) -> None:
        known = self.by_name.get(name)
        if known is None:
            self.by_name[name] = Account(name=name, limit=limit, ceiling=limit.epsilon)
        else:
            ceiling = max(known.ceiling, limit.epsilon) if known.charges else limit.epsilon
            self.by_name[name] = replace(known, limit=limit, ceiling=ceiling)


def _read_limit(values: dict[str, Any]) -> Limit:
    known = {**values, "adjacency": Adjacency(values["adjacency"])}
    return Limit(shares=tuple(Share(**share) for share in known.pop("filters")), **known)
