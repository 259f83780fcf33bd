"""`Ledger`: what each dataset may spend, what it has spent, and the budget of one that training is handed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.accounting.guarantee import Guarantee, Unit
from reticent.core import checks
from reticent.core.errors import IntegrityError
from reticent.ledger import cost, store, terms
from reticent.ledger.accounts import Account, Accounts, Limit
from reticent.ledger.chain import Entry, Head, broken_ledger, canonical
from reticent.ledger.store import Store, Transaction
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_TRIES = 3  # at working out a cost without holding the ledger; then it is held


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A charge that is on disk: the entry that holds it."""

    dataset: str
    sequence: int
    time: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A ledger that was read from its first entry to its last.

    since: how many entries came after the head it was compared with; None without one.
    """

    id: str
    entries: int
    head: str
    since: int | None = None


class Ledger(AbstractContextManager["Ledger"]):
    """A file in which datasets have limits, and releases are charged before they are made.

    Any number of processes and threads may use the same file at the same time.

    Guarantee:
        What was charged for a dataset is within its limit: as a planned composition by the tightest
        accountant, or with `adaptive=True` whatever the analyst chooses by looking at results. A process that
        charges before it draws noise never spends more than is recorded, even if killed at any moment.

    Example:
        >>> import tempfile, reticent as rt
        >>> from reticent.mechanisms.events import Gaussian
        >>> ledger = rt.Ledger.create(tempfile.mkdtemp() + "/clinic.ledger")
        >>> _ = ledger.limit("patients", epsilon=1.0, delta=1e-6)
        >>> budget = ledger.for_dataset("patients")
        >>> receipt = budget.charge(
        ...     Gaussian(noise_multiplier=20.0), adjacency=rt.Adjacency.ADD_OR_REMOVE, purpose="mean age"
        ... )
        >>> print(budget.guarantee())
        (0.1893, 1e-06)-differential privacy for adding or removing one record (exact Gaussian). ...
    """

    def __init__(self, path: Path, *, timeout: float) -> None:
        checks.not_negative(timeout=timeout)
        self.path = path
        self._store = Store(path, timeout=timeout)
        self._accounts = Accounts(where=path)

    @classmethod
    def create(cls, path: str | Path, *, timeout: float = 30.0) -> Ledger:
        """A new ledger in a new file.

        Raises:
            InvalidArgument: there is a file already.
            Unavailable: it cannot be written.
        """
        store.create(Path(path), {"id": secrets.token_hex(16), "schema": store.VERSION})
        return cls.open(path, timeout=timeout)

    @classmethod
    def open(cls, path: str | Path, *, timeout: float = 30.0) -> Ledger:
        """The ledger in a file, read and checked to its end.

        Args:
            timeout: how many seconds to wait for other processes before giving up.

        Raises:
            Unavailable: no such file, or it cannot be read.
            DataError: not a ledger, or one of another schema version.
            IntegrityError: damaged, or changed by somebody.
        """
        ledger = cls(Path(path), timeout=timeout)
        with ledger._store.reading() as transaction:
            ledger._catch_up(transaction)
        return ledger

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. The ledger may be used again: it reopens the file when needed."""
        self._store.close()

    def __repr__(self) -> str:
        return f"Ledger('{self.path}')"

    @property
    def id(self) -> str:
        """Random, given when the file was made: copies of a ledger share it."""
        return self._accounts.id

    @property
    def head(self) -> Head:
        """The last entry's number and hash: kept elsewhere, it shows later whether entries are gone."""
        with self._store.reading() as transaction:
            return self._catch_up(transaction).head

    def datasets(self) -> tuple[str, ...]:
        with self._store.reading() as transaction:
            return tuple(self._catch_up(transaction).by_name)

    def limit(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | None = None,
        unit: Unit | None = None,
        adaptive: bool | None = None,
    ) -> Limit:
        """Sets what a dataset may spend in all; an unknown dataset is entered.

        What is not given stays as it was. A new dataset gets add-or-remove, records, and planned releases.
        Every change is an entry of its own and stays visible.

        Args:
            adaptive: releases may be chosen by looking at earlier results. A filter then guards the limit,
                which takes a little more of it for each release.

        Raises:
            BudgetExceeded: more than that is spent already.
            InvalidArgument: a neighbour relation cannot change once something was charged under it.
        """
        terms.check_text(200, dataset=dataset)
        with self._writing() as transaction:
            known = self._catch_up(transaction).by_name.get(dataset)
            limit = terms.new_limit(
                known, epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit, adaptive=adaptive
            )
            if known is not None:
                if known.limit == limit:
                    return limit
                terms.check_change(known, limit)
            values = {"dataset": dataset, "limit": limit.to_json()}
            transaction.append(self._accounts.head, "limit", values)
        return limit

    def for_dataset(
        self, name: str, *, fingerprint: str | None = None, unit: Unit | None = None
    ) -> DatasetBudget:
        """The budget of one dataset, for `train(..., budget=...)` and everything else that pays first.

        Args:
            fingerprint: of the data at hand, from `fingerprint`. Data other than those that were charged
                for under this name before are then refused.
            unit: whose privacy the releases account for that are charged through it. Required where
                the limit protects a user.

        Raises:
            InvalidArgument: the ledger has no such dataset.
        """
        self.account(name)
        return DatasetBudget(self, name, fingerprint=fingerprint, unit=unit)

    def account(self, name: str) -> Account:
        """What is known of a dataset: its limit, its version, and what was released about it."""
        with self._store.reading() as transaction:
            return self._catch_up(transaction).find(name).snapshot()

    def fingerprint(self, arrays: Any) -> str:
        """A keyed hash of a dataset's content; without the key file it tells nothing about the data.

        Args:
            arrays: named arrays, one array, or a `Dataset`.
        """
        from reticent.ledger.fingerprint import fingerprint, key_of

        with self._store.reading() as transaction:
            accounts = self._catch_up(transaction).by_name.values()
            has_some = any(account.fingerprint for account in accounts)
        return fingerprint(arrays, key_of(self.path, may_create=not has_some))

    def new_version(self, dataset: str, fingerprint: str, *, reason: str) -> int:
        """Declares that a dataset has other content from now on, and says which version that is.

        The people in it are taken to be the same: limit and charges stay.
        """
        terms.check_text(500, fingerprint=fingerprint, reason=reason)
        with self._writing() as transaction:
            account = self._catch_up(transaction).find(dataset)
            version = account.version + (account.fingerprint is not None)
            values = {"dataset": dataset, "version": version, "fingerprint": fingerprint, "reason": reason}
            transaction.append(self._accounts.head, "dataset", values)
        return version

    def _charge(
        self,
        dataset: str,
        event: Event,
        *,
        adjacency: Adjacency,
        purpose: str,
        unit: Unit | None,
        fingerprint: str | None,
    ) -> Receipt:
        terms.check_text(500, purpose=purpose)
        terms.check_event(event)
        values = {"dataset": dataset, "purpose": purpose, "event": events.to_json(event)}
        event = events.read(canonical(values["event"]))  # what is accounted for is what will be read
        known: dict[tuple[Event, Limit], bool | None] = {}
        for attempt in range(_TRIES + 1):
            with self._writing() as transaction:
                account = self._catch_up(transaction).find(dataset)
                terms.check_terms(account, adjacency, unit)
                is_first = terms.is_first_fingerprint(account, fingerprint)
                after, limit = account.event(event), account.limit
                fits = known.get((after, limit))
                if fits is None:
                    fits = cost.is_within(after, limit, is_quick=attempt < _TRIES)
                if fits:
                    head = self._accounts.head
                    if is_first:
                        mark = {"version": account.version, "fingerprint": fingerprint, "reason": purpose}
                        head = transaction.append(head, "dataset", {"dataset": dataset, **mark}).head
                    values["version"] = account.version
                    entry = transaction.append(head, "charge", values)
                    return Receipt(dataset=dataset, sequence=entry.sequence, time=entry.time, hash=entry.hash)
                account = account.snapshot()
            if fits is False:
                raise terms.budget_exceeded(account, event)
            # It takes long to say: so not while others wait. If they charge meanwhile, once more.
            known[after, limit] = cost.is_within(after, limit)
        raise AssertionError("the last attempt always knows")

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Every entry, or those about one dataset, oldest first."""
        with self._store.reading() as transaction:
            self._catch_up(transaction)
            found = list(transaction.entries())
        return [entry for entry in found if dataset is None or entry.values.get("dataset") == dataset]

    def has_charge(self, dataset: str, *, purpose: str) -> bool:
        """Whether something was charged to a dataset with exactly this purpose.

        Give every release a purpose of its own, and this tells after a crash whether it was paid for.

        Example:
            >>> import tempfile, reticent as rt
            >>> from reticent.mechanisms.events import Gaussian
            >>> ledger = rt.Ledger.create(tempfile.mkdtemp() + "/clinic.ledger")
            >>> _ = ledger.limit("patients", epsilon=1.0, delta=1e-6)
            >>> _ = ledger.for_dataset("patients").charge(
            ...     Gaussian(noise_multiplier=20.0), adjacency=rt.Adjacency.ADD_OR_REMOVE, purpose="run 12"
            ... )
            >>> [ledger.has_charge("patients", purpose=purpose) for purpose in ("run 12", "run 1")]
            [True, False]
        """
        return any(entry.purpose == purpose for entry in self.entries(dataset))

    def verify(self, head: str | None = None) -> Verification:
        """Reads the whole file again and checks every page, every link and every entry.

        Args:
            head: a hash noted earlier, and kept elsewhere. That the last entries are gone can only be
                seen by comparing with it: what is left is a chain as well.

        Raises:
            IntegrityError: something was changed, or `head` is not in the chain.
        """
        read, position = Accounts(where=self.path), None
        with self._store.reading() as transaction:
            transaction.check_pages()
            for entry in transaction.entries():
                read.read(entry)
                if head is not None and entry.hash == head.lower():
                    position = entry.sequence
            self._catch_up(transaction)
        if not read.id:
            raise broken_ledger(self.path, "its first entry is missing")
        if head is not None and position is None:
            raise IntegrityError(
                f"No entry of {self.path}, which has {read.head.sequence}, has the hash {head[:80]}.",
                remedy="Its last entries are gone, or it is another ledger: compare it with a copy.",
            )
        since = None if position is None else read.head.sequence - position
        return Verification(id=read.id, entries=read.head.sequence, head=read.head.hash, since=since)

    def export(self) -> dict[str, Any]:
        """The whole ledger as plain JSON values. The key of its fingerprints is not in it."""
        entries = self.entries()
        return {
            "ledger": self.id,
            "schema": store.VERSION,
            "head": entries[-1].hash,
            "entries": [entry.to_json() for entry in entries],
        }

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        with self._store.lock:
            with self._store.writing() as transaction:
                yield transaction
            for entry in transaction.appended:  # on disk now: if it is gone the next time, that shows
                self._accounts.read(entry)

    def _catch_up(self, transaction: Transaction) -> Accounts:
        """Reads what is new. What was read before is known by its last hash."""
        head = self._accounts.head
        if head.sequence and transaction.entry_hash(head.sequence) != head.hash:
            raise broken_ledger(self.path, f"entry {head.sequence} is no longer the one that was read before")
        for entry in transaction.entries(after=head.sequence):
            self._accounts.read(entry)
        if not self._accounts.id:
            raise broken_ledger(self.path, "its first entry is missing")
        return self._accounts


class DatasetBudget:
    """The budget of one dataset: implements `accounting.budget.Budget`."""

    def __init__(self, ledger: Ledger, name: str, *, fingerprint: str | None, unit: Unit | None) -> None:
        self.ledger, self.name = ledger, name
        self._fingerprint = fingerprint
        self._unit: Unit | None = unit

    def __repr__(self) -> str:
        return f"DatasetBudget('{self.name}' in '{self.ledger.path}')"

    def __copy__(self) -> DatasetBudget:
        return self

    def __deepcopy__(self, memo: Any) -> DatasetBudget:
        return self  # a copy of what holds it spends from the same account

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, the same account of the same file."""
        return _open_budget, (self.ledger.path, self.name, self._fingerprint, self._unit)

    def charge(
        self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Unit | None = None
    ) -> Receipt:
        """Records the whole cost of a release, before any noise of it is drawn.

        Read and written in one transaction, so that charges of other processes come before or after it.
        When this returns, the charge is on disk.

        Args:
            adjacency: between which neighbours the release is private; has to be that of the limit.
            purpose: one line, for whoever reads the ledger.
            unit: whose privacy the release accounts for, where the budget was made without saying so.

        Raises:
            BudgetExceeded: it does not fit, and what would; nothing was recorded.
            Unproven: there is no theorem about its cost under this adjacency.
            InvalidArgument, DataError: other terms, or other data, than the dataset was entered with.
            Unavailable, IntegrityError: the file is locked, read-only, damaged, or its disk is full.
        """
        return self.ledger._charge(
            self.name,
            event,
            adjacency=adjacency,
            purpose=purpose,
            unit=unit or self._unit,
            fingerprint=self._fingerprint,
        )

    def guarantee(self) -> Guarantee:
        """What everything that was charged so far promises, taken together."""
        return cost.guarantee(self.ledger.account(self.name))

    def remaining(self) -> cost.Remaining:
        """What would still fit."""
        return cost.remaining(self.ledger.account(self.name))


def _open_budget(path: Path, name: str, fingerprint: str | None, unit: Unit | None) -> DatasetBudget:
    return Ledger.open(path).for_dataset(name, fingerprint=fingerprint, unit=unit)
