"""`Ledger`: what each dataset may spend, and what it has spent."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from reticent.accounting.guarantee import Unit
from reticent.core import checks
from reticent.core.html_summary import html_table
from reticent.ledger import cost, names, rules
from reticent.ledger.accounts import Account, Accounts, Limit
from reticent.ledger.address import Address, parse_address
from reticent.ledger.chain import LONGEST_LINE, Entry, Head, Kind, broken_ledger, canonical
from reticent.ledger.dataset_budget import DatasetBudget, Receipt
from reticent.ledger.owner import SIGNATURE, OwnerKey
from reticent.ledger.storage.interface import VERSION, Transaction
from reticent.ledger.storage.open_store import create_store, open_store
from reticent.ledger.verification import Verification, verify_chain
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_TRIES = 3  # at working out a cost without holding the ledger; then it is held


class Ledger(AbstractContextManager["Ledger"]):
    """A file or a database in which datasets have limits, and releases are charged before they are made.

    Any number of processes and threads may use the same ledger at the same time.

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

    def __init__(
        self, address: str | Address, *, timeout: float = 30.0, owner: OwnerKey | None = None
    ) -> None:
        checks.not_negative(timeout=timeout)
        self.address = parse_address(address)
        self._store = open_store(self.address, timeout=timeout)
        self._owner = owner
        self._accounts = Accounts(where=self.address)

    @classmethod
    def create(
        cls, address: str | Address, *, timeout: float = 30.0, owner: OwnerKey | None = None
    ) -> Ledger:
        """A new ledger in a new file, or in a new schema of a PostgreSQL database.

        Args:
            address: the name of a file, or `postgresql://USER@HOST/DATABASE`.
            owner: signs every limit from now on. Without one, whoever may charge may also set limits.

        Raises:
            InvalidArgument: there is a ledger, or another file, already.
            Unavailable: it cannot be written.
        """
        values: dict[str, object] = {"id": secrets.token_hex(16), "schema": VERSION}
        if owner is not None:
            values["owner"] = owner.public
        create_store(parse_address(address), values, timeout=timeout)
        return cls.open(address, timeout=timeout, owner=owner)

    @classmethod
    def open(cls, address: str | Address, *, timeout: float = 30.0, owner: OwnerKey | None = None) -> Ledger:
        """The ledger at an address, read and checked to its end.

        Args:
            timeout: how many seconds to wait for other processes before giving up.
            owner: the key that signs changes of limits, where the ledger has an owner.

        Raises:
            Unavailable: no such ledger, or it cannot be read.
            DataError: not a ledger, or one of another schema version.
            IntegrityError: damaged, or changed by somebody.
        """
        ledger = cls(address, timeout=timeout, owner=owner)
        with ledger._store.reading() as transaction:
            ledger._catch_up(transaction)
        return ledger

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. The ledger may be used again: it connects when needed."""
        self._store.close()

    def __repr__(self) -> str:
        return f"Ledger('{self.address}')"

    def _repr_html_(self) -> str:
        return html_table(repr(self), [(name, self.account(name).in_words) for name in self.datasets()])

    @property
    def id(self) -> str:
        """Random, given when the ledger was created: copies of a ledger share it."""
        return self._accounts.id

    @property
    def owner(self) -> str | None:
        """The public key that has to sign limits; None where whoever may charge may also set them."""
        return self._accounts.owner

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
            InvalidArgument: a neighbour relation cannot change once something was charged under it; a new
                name looks like an existing one; or only the owner may set limits.
        """
        with self._writing() as transaction:
            accounts = self._catch_up(transaction)
            known = accounts.get(dataset)
            name = names.normalize(dataset) if known is None else known.name
            limit = rules.new_limit(
                known, epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit, adaptive=adaptive
            )
            if known is not None:
                if known.limit == limit:
                    return limit
                rules.check_change(known, limit)
            else:
                rules.check_new_name(accounts, name)
            self._append_as_owner(transaction, "limit", {"dataset": name, "limit": limit.to_json()})
        return limit

    def alias(self, name: str, *, same_rows_as: str) -> None:
        """Enters another name of a dataset: both spend from one budget.

        A dataset that was never charged can become another name; its limit is then void.

        Raises:
            InvalidArgument: the name has charges of its own, or looks like a third one.
        """
        with self._writing() as transaction:
            accounts = self._catch_up(transaction)
            other, plain = accounts.find(same_rows_as), names.normalize(name)
            rules.check_alias(accounts, plain, other)
            if accounts.get(plain) is None:
                rules.check_new_name(accounts, plain)
            self._append_as_owner(transaction, "alias", {"dataset": plain, "same_rows_as": other.name})

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
        known = self.account(name).name
        return DatasetBudget(self, known, fingerprint=fingerprint, unit=unit)

    def account(self, name: str) -> Account:
        """What is known of a dataset: its limit, its version, and what was released about it."""
        with self._store.reading() as transaction:
            return self._catch_up(transaction).find(name).snapshot()

    def fingerprint(self, data: Any) -> str:
        """A keyed hash of a dataset's content; without the key file it tells nothing about the data.

        The same rows as a file and as arrays have two fingerprints: keep to one of the two.

        Args:
            data: named arrays, one array, a `Dataset`, or the `Path` of a file.
        """
        from reticent.ledger import fingerprint

        with self._store.reading() as transaction:
            accounts = self._catch_up(transaction).by_name.values()
            has_some = any(account.fingerprints for account in accounts)
        path = fingerprint.key_path(self.address, self.id)
        key = fingerprint.read_key(path, may_create=not has_some)
        if isinstance(data, Path):
            return fingerprint.fingerprint_of_file(data, key)
        return fingerprint.fingerprint(data, key)

    def new_version(self, dataset: str, fingerprint: str, *, reason: str) -> int:
        """Declares that a dataset has other content from now on, and says which version that is.

        The people in it are taken to be the same: limit and charges stay.

        Raises:
            DataError: another dataset of the ledger has this content.
        """
        rules.check_text(LONGEST_LINE, fingerprint=fingerprint, reason=reason)
        with self._writing() as transaction:
            accounts = self._catch_up(transaction)
            account = accounts.find(dataset)
            if account.fingerprint == fingerprint:
                return account.version
            rules.check_content(accounts, account.name, fingerprint)
            version = account.version + bool(account.fingerprints)
            mark = {"version": version, "fingerprint": fingerprint, "reason": reason}
            values = {"dataset": account.name, **mark}
            self._append_as_owner(transaction, "dataset", values)
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
        assumptions: tuple[str, ...] = (),
    ) -> Receipt:
        rules.check_text(LONGEST_LINE, purpose=purpose)
        rules.check_assumptions(assumptions)
        rules.check_event(event)
        values: dict[str, Any] = {"dataset": dataset, "purpose": purpose, "event": events.to_json(event)}
        values |= {"assumptions": list(assumptions)} if assumptions else {}
        event = events.read(canonical(values["event"]))  # what is accounted for is what will be read
        known: dict[tuple[Event, Limit], bool | None] = {}
        for attempt in range(_TRIES + 1):
            with self._writing() as transaction:
                accounts = self._catch_up(transaction)
                account = accounts.find(dataset)
                rules.check_terms(account, adjacency, unit)
                is_first = rules.is_first_fingerprint(accounts, account, fingerprint)
                after, limit = account.event(event), account.limit
                fits = known.get((after, limit))
                if fits is None:
                    fits = cost.is_within(after, limit, is_quick=attempt < _TRIES)
                if fits:
                    head = self._accounts.head
                    if is_first:
                        mark = {"version": account.version, "fingerprint": fingerprint, "reason": purpose}
                        head = transaction.append(head, "dataset", {"dataset": account.name, **mark}).head
                    values |= {"dataset": account.name, "version": account.version}
                    entry = transaction.append(head, "charge", values)
                    return Receipt(
                        dataset=account.name, sequence=entry.sequence, time=entry.time, hash=entry.hash
                    )
                account = account.snapshot()
            if fits is False:
                raise rules.budget_exceeded(account, event)
            # It takes long to say: so not while others wait. If they charge meanwhile, once more.
            known[after, limit] = cost.is_within(after, limit)
        raise AssertionError("the last attempt always knows")

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Every entry, or those about one dataset, oldest first."""
        with self._store.reading() as transaction:
            accounts = self._catch_up(transaction)
            found = list(transaction.entries())
        if dataset is None:
            return found
        known = accounts.get(dataset)
        name = dataset if known is None else known.name
        return [
            entry
            for entry in found
            if name in (entry.values.get("dataset"), entry.values.get("same_rows_as"))
        ]

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

    def verify(self, head: str | None = None, *, owner: str | None = None) -> Verification:
        """Reads the whole ledger again and checks every page, link, entry, signature and limit.

        Args:
            head: a hash noted earlier, and kept elsewhere. That the last entries are gone can only be
                seen by comparing with it: what is left is a chain as well.
            owner: the public key of the owner, kept elsewhere. Whoever writes a whole new chain can name
                another owner in it, but cannot sign for this one.

        Raises:
            IntegrityError: something was changed, `head` is not in the chain, or the owner is another.
        """
        with self._store.reading() as transaction:
            found = verify_chain(transaction, self.address, head=head, owner=owner)
            self._catch_up(transaction)
        return found

    def export(self) -> dict[str, Any]:
        """The whole ledger as plain JSON values. The key of its fingerprints is not in it."""
        entries = self.entries()
        return {
            "ledger": self.id,
            "schema": VERSION,
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

    def _append_as_owner(self, transaction: Transaction, kind: Kind, values: dict[str, Any]) -> None:
        """Appends what opens or moves a budget, signed where the ledger has an owner."""
        accounts = self._accounts
        if accounts.owner is not None and accounts.needs_owner(kind, values):
            key = rules.require_owner(accounts, self._owner)
            values = {**values, SIGNATURE: key.sign(accounts.id, accounts.head, kind, values)}
        transaction.append(accounts.head, kind, values)

    def _catch_up(self, transaction: Transaction) -> Accounts:
        """Reads what is new. What was read before is known by its last hash."""
        head = self._accounts.head
        if head.sequence and transaction.entry_hash(head.sequence) != head.hash:
            raise broken_ledger(
                self.address, f"entry {head.sequence} is no longer the one that was read before"
            )
        for entry in transaction.entries(after=head.sequence):
            self._accounts.read(entry)
        if not self._accounts.id:
            raise broken_ledger(self.address, "its first entry is missing")
        return self._accounts
