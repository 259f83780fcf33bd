"""What the rules of a ledger need of the place where its entries are kept: transactions that append."""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reticent.core.errors import InvalidArgument, ReticentError
from reticent.ledger.chain import Entry, Head, Kind, broken_ledger, next_entry

VERSION = 1  # of the schema, in every backend
COLUMNS = ("sequence", "time", "kind", "payload", "previous", "hash")
_LARGEST = 1_000_000  # characters of one payload

_inherited: list[Any] = []  # a connection from before a fork may not even be closed


class Transaction(ABC):
    """What may be done between the beginning and the end of one: read entries, and append some."""

    def __init__(self, connection: Any, where: object) -> None:
        self.connection, self._where = connection, where
        self.appended: list[Entry] = []

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Every entry after a number, oldest first."""
        for row in self._rows(after):
            if not isinstance(row[0], int) or not all(isinstance(text, str) for text in row[1:]):
                raise broken_ledger(self._where, f"entry {row[0]} holds something that is not text")
            yield Entry(**dict(zip(COLUMNS, row, strict=True)))

    def append(self, head: Head, kind: Kind, values: dict[str, object]) -> Entry:
        """Appends what follows a head, which has to be the last entry."""
        entry = next_entry(head, kind, values)
        if len(entry.payload) > _LARGEST:
            raise InvalidArgument(
                f"An entry of {len(entry.payload):,} characters is too long for a ledger.",
                remedy=f"Describe it in at most {_LARGEST:,}: what repeats is written once, as Repeated.",
            )
        self._insert((entry.sequence, entry.time, entry.kind, entry.payload, entry.previous, entry.hash))
        self.appended.append(entry)
        return entry

    @abstractmethod
    def entry_hash(self, sequence: int) -> str | None:
        """The hash of one entry; None if there is no such entry."""

    @abstractmethod
    def check_pages(self) -> None:
        """Looks for damage that no entry shows."""

    @abstractmethod
    def _rows(self, after: int) -> Iterator[tuple[Any, ...]]: ...

    @abstractmethod
    def _insert(self, row: tuple[Any, ...]) -> None: ...


class Store(ABC):
    """A ledger's place, with one connection that is opened when needed and never crosses a fork.

    Attributes:
        where: the place, as it may be printed.
        errors: what the backend raises; `_explain` puts it into our words.
    """

    errors: tuple[type[Exception], ...]

    def __init__(self, where: object, *, timeout: float) -> None:
        self.where, self._timeout = where, timeout
        self.lock = threading.RLock()  # one transaction at a time on the one connection
        self._connection: Any = None
        self._process: int | None = None

    def close(self) -> None:
        """Closes the connection; the next transaction opens another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process == os.getpid():
            connection.close()
        else:
            _inherited.append(connection)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # When the interpreter ends, what `close` calls may be gone, and the connection closes by itself.
        if not is_ending():
            self.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A snapshot: whatever others write meanwhile, it stays as it was."""
        with self._transaction(is_reader=True) as transaction:
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The only writer. What was appended is on disk when this ends, or else was never there."""
        with self._transaction(is_reader=False) as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, *, is_reader: bool) -> Iterator[Transaction]:
        with self.lock:
            try:
                connection = self._connection_for(is_reader=is_reader)
                transaction = self._begin(connection, is_reader=is_reader)
                yield transaction
                self._commit(transaction)
            except BaseException as error:
                self._roll_back()
                if isinstance(error, self.errors):
                    self.close()
                    raise self._explain(error) from None
                raise

    def _connection_for(self, *, is_reader: bool) -> Any:
        if self._connection is not None and self._process != os.getpid():
            self.close()
        if self._connection is None:
            self._connection = self._connect(is_reader=is_reader)
            self._process = os.getpid()
        return self._connection

    @abstractmethod
    def _connect(self, *, is_reader: bool) -> Any: ...

    @abstractmethod
    def _begin(self, connection: Any, *, is_reader: bool) -> Transaction:
        """Begins a transaction, and checks that the schema is that of a ledger."""

    @abstractmethod
    def _commit(self, transaction: Any) -> None: ...

    @abstractmethod
    def _roll_back(self) -> None: ...

    @abstractmethod
    def _explain(self, error: Exception) -> ReticentError:
        """What the backend says, as an error of ours."""
