"""The SQLite file of a ledger: its schema, its transactions, and its errors in our words.

Every transaction checks that the file is still the one that was opened, a ledger of this version, and that
nobody has taken off the triggers that make it append-only.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from reticent.core.errors import DataError, InvalidArgument, ReticentError, Unavailable
from reticent.ledger.chain import START, broken_ledger
from reticent.ledger.storage.interface import COLUMNS, VERSION, Store, Transaction

APPLICATION_ID = 0x52744C67  # "RtLg"

_SCHEMA = {
    "entries": """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
)""",
    # INSERT OR REPLACE deletes without asking the trigger for deletions: so an insertion has to be new.
    "only_append": """CREATE TRIGGER only_append BEFORE INSERT ON entries
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries)
BEGIN SELECT raise(ABORT, 'entries are appended, one after the other'); END""",
    "never_update": """CREATE TRIGGER never_update BEFORE UPDATE ON entries
BEGIN SELECT raise(ABORT, 'entries are never changed'); END""",
    "never_delete": """CREATE TRIGGER never_delete BEFORE DELETE ON entries
BEGIN SELECT raise(ABORT, 'entries are never deleted'); END""",
}


class SqliteTransaction(Transaction):
    """A transaction on the file."""

    def entry_hash(self, sequence: int) -> str | None:
        row = self.connection.execute("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return row[0] if row else None

    def check_pages(self) -> None:
        """SQLite's own check of every page."""
        found = [row[0] for row in self.connection.execute("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise broken_ledger(self._where, f"SQLite finds its pages damaged ({found[0].splitlines()[-1]})")

    def _rows(self, after: int) -> Iterator[tuple[Any, ...]]:
        return self.connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM entries WHERE sequence > ? ORDER BY sequence", (after,)
        )

    def _insert(self, row: tuple[Any, ...]) -> None:
        self.connection.execute(f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)", row)


class SqliteStore(Store):
    """A ledger's file on a local disk."""

    errors = (sqlite3.Error, UnicodeDecodeError)

    def __init__(self, path: Path, *, timeout: float) -> None:
        super().__init__(path, timeout=timeout)
        self.path = path
        self._file: tuple[int, int] | None = None

    def _connection_for(self, *, is_reader: bool) -> sqlite3.Connection:
        found = _identity(self.path)
        is_open = self._connection is not None and self._process == os.getpid()
        if is_open and self._file != found:
            self.close()
            raise broken_ledger(self.path, "the file was replaced by another while it was in use")
        self._file = found
        return super()._connection_for(is_reader=is_reader)

    def _connect(self, *, is_reader: bool) -> sqlite3.Connection:
        return connect(self.path, self._timeout, is_reader=is_reader)

    def _begin(self, connection: sqlite3.Connection, *, is_reader: bool) -> SqliteTransaction:
        if is_reader:
            connection.execute("BEGIN")
        else:
            _begin_writing(connection, self._timeout)
        _check_schema(connection, self.path)
        return SqliteTransaction(connection, self.path)

    def _commit(self, transaction: SqliteTransaction) -> None:
        transaction.connection.execute("COMMIT")

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _explain(self, error: Exception) -> ReticentError:
        return explain(error, self.path, self._timeout)


def create(path: Path, values: dict[str, object]) -> None:
    """A new ledger with its first entry, where no file was."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        raise InvalidArgument(
            f"{path} exists already.",
            remedy="Open it, or choose another name: a ledger is never overwritten.",
        ) from None
    except OSError as error:
        raise Unavailable(
            f"Cannot create {path}: {error.strerror}.", remedy="Choose a folder you may write."
        ) from None
    connection = None
    try:
        connection = connect(path, 1.0, is_reader=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.values():
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        SqliteTransaction(connection, path).append(START, "create", values)
        connection.execute("COMMIT")
        connection.close()
    except BaseException as error:
        if connection is not None:
            connection.close()
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            raise explain(error, path, 1.0) from None
        raise


def connect(path: Path, timeout: float, *, is_reader: bool) -> sqlite3.Connection:
    """A connection that creates nothing, waits for others, and has every commit on disk.

    A reader of a folder that cannot be written, where SQLite cannot create its shared memory, takes the
    file as it is. That is safe only while there is no write-ahead log.
    """
    mode = "mode=rw"
    if is_reader and not os.access(path.absolute().parent, os.W_OK) and not Path(f"{path}-wal").exists():
        mode = "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,  # transactions are begun by hand
        check_same_thread=False,  # the store's lock sees to it
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _begin_writing(connection: sqlite3.Connection, timeout: float) -> None:
    """Waits for its turn.

    SQLite's own waiting sleeps longer the longer it lasts, so a process that charges all the time would win
    every time. Short naps of random length give every process a turn.
    """
    deadline = time.monotonic() + timeout
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                is_taken = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_taken or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(2e-4, 3e-3))
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise Unavailable(
            f"There is no ledger at {path} ({error.strerror}).",
            remedy=f"Check the name, or create one: reticent ledger init {path}.",
        ) from None
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a ledger.", remedy="Name a file in it.")
    return found.st_dev, found.st_ino


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    identity = connection.execute("PRAGMA application_id").fetchone()[0]
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    if identity != APPLICATION_ID:
        if identity == 0 and not found and (path.stat().st_size == 0 or path.stat().st_size >= 512):
            raise DataError(
                f"{path} is empty: its creation was interrupted.", remedy="Delete it and create it again."
            )
        raise DataError(
            f"{path} is not a ledger of reticent.", remedy="Name a file that `reticent ledger init` created."
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise DataError(
            f"{path} has schema version {version}; this reticent reads version {VERSION}.",
            remedy="Use the version of reticent that wrote it.",
        )
    if found != _SCHEMA:
        odd = sorted(name for name in {*found, *_SCHEMA} if found.get(name) != _SCHEMA.get(name))
        raise broken_ledger(path, f"its schema was changed ({', '.join(odd)[:80]})")


def explain(error: Exception, path: Path, timeout: float) -> ReticentError:
    """What SQLite says, as an error of ours. Every one of them means that nothing was recorded."""
    code = getattr(error, "sqlite_errorcode", None)
    match code and code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return Unavailable(
                f"The ledger {path} was locked by another process for {timeout:g} s. Nothing was recorded.",
                remedy="Try again when that process is done.",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return Unavailable(
                f"The ledger {path} cannot be written: it or its folder is read-only. Nothing was recorded.",
                remedy="Make both writable for this user.",
            )
        case sqlite3.SQLITE_FULL:
            return Unavailable(
                f"The disk of {path} is full. Nothing was recorded.", remedy="Free some space and try again."
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return Unavailable(
                f"The system refused to read or write {path} ({error}). Nothing was recorded.",
                remedy="Check the disk, its quota and this process's limits, then try again.",
            )
        case sqlite3.SQLITE_CANTOPEN:
            return Unavailable(
                f"Cannot open {path}, or the files that SQLite keeps beside it. Nothing was recorded.",
                remedy="Make the file and its folder readable and writable for this user.",
            )
        case sqlite3.SQLITE_NOTADB:
            return DataError(
                f"{path} is not a ledger of reticent.",
                remedy="Name a file that `reticent ledger init` created.",
            )
        case _:
            return broken_ledger(path, f"SQLite says: {str(error)[:60]}")
