"""The entries of a ledger read as accounts: what each dataset may spend, and what was released about it."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, get_args

from reticent.accounting.filters import Share
from reticent.accounting.guarantee import Unit
from reticent.accounting.loss_distribution.dominating import MOST_RELEASES, releases
from reticent.core import checks
from reticent.core.errors import InvalidArgument, suggest
from reticent.ledger import names
from reticent.ledger.chain import START, Entry, Head, broken_ledger, follow, is_line
from reticent.ledger.owner import is_signed
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Repeated

MOST_ASSUMPTIONS = 32  # of one charge


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
    fingerprints: of every version that said what its data are, the last one last.
    assumptions: what the proofs of its charges assume, each once, in the order in which they came.
    """

    name: str
    version: int = 1
    fingerprints: tuple[str, ...] = ()
    limit: Limit
    ceiling: float
    released: Counter[Event] = field(default_factory=Counter)
    assumptions: dict[str, None] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the data that are charged for now; None until a charge states it."""
        return self.fingerprints[-1] if self.fingerprints else None

    @property
    def charges(self) -> int:
        return self.released.total()

    @property
    def in_words(self) -> str:
        """Its limit and how often it was charged, on one line."""
        limit = f"may spend epsilon {self.limit.epsilon:g} at delta {self.limit.delta:g}"
        return f"{limit}, {self.limit.adjacency}; charged {self.charges} times"

    def snapshot(self) -> Account:
        """A copy that later entries do not change."""
        return replace(self, released=Counter(self.released), assumptions=dict(self.assumptions))

    def event(self, *more: Event) -> Event:
        """Everything that was released, and `more`, as one event. Equal releases are written once."""
        counts = self.released + Counter(more)
        return Composed(events=tuple(Repeated(event=event, times=times) for event, times in counts.items()))


@dataclass(kw_only=True)
class Accounts:
    """All datasets of a ledger, as of a head. `read` moves it on by one entry.

    owner: the public key that has to sign what opens a budget; None where nobody has to.
    aliases: other names of datasets.
    by_content: the dataset that was the first to have the content with a fingerprint. Another one with the
        same content, which only somebody else's program can enter, is not charged, and `verify` names it.
    releases: how many single ones were charged to each dataset.
    """

    where: object
    head: Head = START
    id: str = ""
    owner: str | None = None
    by_name: dict[str, Account] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    by_content: dict[str, str] = field(default_factory=dict)
    releases: Counter[str] = field(default_factory=Counter)

    def read(self, entry: Entry) -> None:
        """Takes in the next entry.

        Raises:
            IntegrityError: it does not follow, does not say what an entry of its kind says, or lacks the
                owner's signature.
        """
        head = follow(self.head, entry, where=self.where)
        try:
            values = entry.values
            if self.owner is not None and self.needs_owner(entry.kind, values):
                self._require_signature(entry.kind, values)
            self._apply(entry.kind, values)
        except (InvalidArgument, KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
            reason = error.happened if isinstance(error, InvalidArgument) else type(error).__name__
            raise broken_ledger(self.where, f"entry {entry.sequence} makes no sense ({reason})") from None
        self.head = head

    def find(self, name: str) -> Account:
        """The account of a dataset, by one of its names.

        Raises:
            InvalidArgument: the ledger has no such dataset; the nearest name is suggested.
        """
        known = self.get(name)
        if known is not None:
            return known
        wanted = names.normalize(name)
        if other := names.find_look_alike(wanted, self.all_names):
            remedy = f"It looks like '{other}', with {names.difference(wanted, other)}: type '{other}'."
        elif self.by_name:
            remedy = suggest(wanted, self.all_names)
        else:
            words = f"{shlex.quote(str(self.where))} {shlex.quote(wanted[:80])}"
            remedy = f"Give it a limit first: reticent ledger limit {words} --epsilon ... --delta ..."
        raise InvalidArgument(f"The ledger {self.where} has no dataset '{wanted[:80]}'.", remedy=remedy)

    def get(self, name: str) -> Account | None:
        """The account of a dataset, by one of its names; None if the ledger has no such dataset."""
        if name not in self.by_name:  # ledgers of earlier versions may hold any spelling
            name = names.normalize(name)
        return self.by_name.get(self.aliases.get(name, name))

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every name under which something can be charged."""
        return (*self.by_name, *self.aliases)

    def with_content(self, fingerprint: str, *, besides: str) -> Account | None:
        """Another dataset that had the same content first; None if there is none."""
        name = self.by_content.get(fingerprint, besides)
        return None if name == besides else self.by_name[name]

    def needs_owner(self, kind: str, values: dict[str, Any]) -> bool:
        """Whether an entry is the owner's to make: all but charges, and the first word on what data are."""
        if kind in ("create", "charge"):
            return False
        if kind != "dataset":
            return True
        account = self.by_name[values["dataset"]]
        return bool(account.fingerprints) or values["version"] != account.version

    def _require_signature(self, kind: str, values: dict[str, Any]) -> None:
        assert self.owner is not None
        if not is_signed(self.owner, self.id, self.head, kind, values):
            number = self.head.sequence + 1
            raise broken_ledger(self.where, f"entry {number} ({kind}) is not signed by the ledger's owner")

    def _apply(self, kind: str, values: dict[str, Any]) -> None:
        if (kind == "create") != (self.head == START):
            raise InvalidArgument(f"An entry '{kind}' is at the wrong place.", remedy="Restore the ledger.")
        match kind:
            case "create":
                self.id = _line(values, "id")
                self.owner = _line(values, "owner") if "owner" in values else None
            case "dataset":
                self._dataset(values)
            case "alias":
                self._alias(_line(values, "dataset"), _line(values, "same_rows_as"))
            case "limit":
                self._limit(_line(values, "dataset"), _read_limit(values["limit"]))
            case "charge":
                self._charge(values)
            case _:
                raise InvalidArgument(f"No entry is of kind '{kind[:20]}'.", remedy="Restore the ledger.")

    def _charge(self, values: dict[str, Any]) -> None:
        account = self.by_name[_line(values, "dataset")]
        _line(values, "purpose")
        if _version(values) != account.version:
            raise _nonsense("its version is not that of the dataset")
        event = events.from_json(values["event"])
        self.releases[account.name] += _count(event)
        if self.releases[account.name] > MOST_RELEASES:
            raise _nonsense(f"'{account.name}' has more than 10^15 releases")
        # In place: a copy for each of a million charges would take quadratic time.
        account.released[event] += 1
        account.assumptions.update(dict.fromkeys(_assumptions(values)))

    def _dataset(self, values: dict[str, Any]) -> None:
        account, mark = self.by_name[_line(values, "dataset")], _line(values, "fingerprint")
        _line(values, "reason")
        version = _version(values)
        if version not in (account.version, account.version + 1):
            raise _nonsense("its version does not follow the one before")
        self.by_content.setdefault(mark, account.name)
        self.by_name[account.name] = replace(
            account, version=version, fingerprints=(*account.fingerprints, mark)
        )

    def _limit(self, name: str, limit: Limit) -> None:
        if name in self.aliases:
            raise InvalidArgument(f"'{name}' has no limit of its own.", remedy="Restore the ledger.")
        known = self.by_name.get(name)
        if known is None:
            self.by_name[name] = Account(name=name, limit=limit, ceiling=limit.epsilon)
        else:
            ceiling = max(known.ceiling, limit.epsilon) if known.charges else limit.epsilon
            self.by_name[name] = replace(known, limit=limit, ceiling=ceiling)

    def _alias(self, name: str, other: str) -> None:
        own = self.by_name.get(name)
        is_used = name in self.aliases.values() or (own is not None and own.charges)
        if other not in self.by_name or name == other or is_used:
            raise InvalidArgument(f"'{name}' cannot be another name of '{other}'.", remedy="Restore it.")
        self.aliases[name] = other
        if own is not None:
            self._join(self.by_name.pop(name), self.by_name[other])

    def _join(self, gone: Account, kept: Account) -> None:
        """What a dataset was declared to hold is content of the one that it is another name of."""
        marks = (*(mark for mark in gone.fingerprints if mark not in kept.fingerprints), *kept.fingerprints)
        own = (mark for mark in gone.fingerprints if self.by_content[mark] == gone.name)
        self.by_content |= dict.fromkeys(own, kept.name)
        self.by_name[kept.name] = replace(kept, fingerprints=marks)


def _nonsense(reason: str) -> InvalidArgument:
    return InvalidArgument(reason, remedy="Restore the ledger.")


def _line(values: dict[str, Any], name: str) -> str:
    """A field that can be printed as it is."""
    text = values.get(name)
    if not isinstance(text, str) or not is_line(text):
        raise _nonsense(f"its {name} is not a line of text")
    return text


def _assumptions(values: dict[str, Any]) -> list[str]:
    """The assumptions of a charge: a few lines, each of which can be printed as it is."""
    lines = values.get("assumptions", [])
    is_fine = isinstance(lines, list) and len(lines) <= MOST_ASSUMPTIONS
    if not is_fine or not all(isinstance(line, str) and is_line(line) for line in lines):
        raise _nonsense("its assumptions are not a few lines of text")
    return lines


@lru_cache(maxsize=4096)
def _count(event: Event) -> int:
    return releases(event).total()


def _version(values: dict[str, Any]) -> int:
    version = values.get("version")
    if type(version) is not int:
        raise _nonsense("its version is not a number")
    return version


def _read_limit(values: dict[str, Any]) -> Limit:
    known = {**values, "adjacency": Adjacency(values["adjacency"])}
    return Limit(shares=tuple(Share(**share) for share in known.pop("filters")), **known)
