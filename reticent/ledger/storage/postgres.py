"""A ledger in a PostgreSQL database: its transactions, and its errors in our words.

Writers take turns by an advisory lock, which the server gives in the order of asking. Even a client that did
not take it could not append beside another: the number of an entry is a primary key. A commit whose answer
was lost (the server died, the network broke) is looked up: whoever holds the lock next sees whether it is
there, so a charge is neither lost nor made twice.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from reticent.core import postgres
from reticent.core.errors import DataError, InvalidArgument, OutcomeUnknown, ReticentError, Unavailable
from reticent.ledger.address import WHOSE, PostgresAddress
from reticent.ledger.chain import START, Entry, broken_ledger
from reticent.ledger.storage import postgres_schema as schemas
from reticent.ledger.storage.interface import COLUMNS, VERSION, Store, Transaction

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Each statement sees what was committed before it: behind the lock, everything that others have written.
# The settings are of this transaction alone, so they hold behind a connection pool too. A commit is on disk
# before it returns. The server ends a writer that has not answered for ten minutes.
_WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; "
    "SET LOCAL lock_timeout = '{patience}ms'; SET LOCAL idle_in_transaction_session_timeout = '600s'"
)
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%s, 0))"
_PAGE = 5000  # entries that are fetched at once


class PostgresTransaction(Transaction):
    """A transaction in the database."""

    def __init__(self, connection: Any, address: PostgresAddress) -> None:
        super().__init__(connection, address)
        self._table = f"{address.schema}.entries"

    def entry_hash(self, sequence: int) -> str | None:
        found = self.connection.execute(f"SELECT hash FROM {self._table} WHERE sequence = %s", (sequence,))
        row = found.fetchone()
        return row[0] if row else None

    def check_pages(self) -> None:
        """Reads every row; the server checks its pages where it was set up with checksums."""

    def _rows(self, after: int) -> Iterator[tuple[Any, ...]]:
        ask = f"SELECT {', '.join(COLUMNS)} FROM {self._table} WHERE sequence > %s"
        ask = f"{ask} ORDER BY sequence LIMIT {_PAGE}"
        while True:
            page = self.connection.execute(ask, (after,)).fetchall()
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _insert(self, row: tuple[Any, ...]) -> None:
        marks = ", ".join(["%s"] * len(COLUMNS))
        self.connection.execute(f"INSERT INTO {self._table} ({', '.join(COLUMNS)}) VALUES ({marks})", row)


class PostgresStore(Store):
    """A ledger's schema in a database."""

    def __init__(self, address: PostgresAddress, *, timeout: float) -> None:
        super().__init__(address, timeout=timeout)
        self.address = address
        self.errors = (_psycopg().Error, UnicodeDecodeError)

    def _connect(self, *, is_reader: bool) -> Any:
        return connect(self.address, self._timeout)

    def _begin(self, connection: Any, *, is_reader: bool) -> PostgresTransaction:
        begin = _READ if is_reader else _WRITE.format(patience=max(1, round(self._timeout * 1000)))
        try:
            connection.execute(begin)
        except _psycopg().OperationalError:
            # It broke while nobody used it. Nothing of this transaction was sent, so another one will do.
            self.close()
            connection = self._connection_for(is_reader=is_reader)
            connection.execute(begin)
        if not is_reader:
            connection.execute(_LOCK, (f"reticent ledger {self.address.schema}",))
        found = {schemas.SchemaPart(*row) for row in connection.execute(schemas.PARTS, [self.address.schema])}
        _check_schema(found, self.address)
        if not is_reader:
            _require_durable(found, self.address)
        return PostgresTransaction(connection, self.address)

    def _commit(self, transaction: PostgresTransaction) -> None:
        try:
            transaction.connection.execute("COMMIT")
        except self.errors:
            if not transaction.appended:
                raise
            self._settle(transaction.appended[-1])

    def _settle(self, entry: Entry) -> None:
        """Finds out what became of a commit whose answer was lost.

        Returns if the entry is in the ledger.

        Raises:
            Unavailable: it is not.
            OutcomeUnknown: nobody can tell, because the server stays away.
        """
        self.close()
        deadline = time.monotonic() + max(self._timeout, 1.0)
        while True:
            try:
                with self.writing() as transaction:  # behind the lock: the lost transaction is over
                    is_there = transaction.entry_hash(entry.sequence) == entry.hash
                break
            except Unavailable:
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(
                        f"The connection to {self.address} broke at the end of a charge, and whether entry "
                        f"{entry.sequence} was recorded is not known: the server has not answered since.",
                        remedy="When the server is back, look before charging again: reticent ledger show.",
                    ) from None
            time.sleep(0.2)
        if not is_there:
            raise Unavailable(
                f"The connection to {self.address} broke at the end of a charge. Nothing was recorded.",
                remedy="Try again.",
            )

    def _roll_back(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            with suppress(*self.errors):
                connection.execute("ROLLBACK")

    def _explain(self, error: Exception) -> ReticentError:
        return explain(error, self.address, self._timeout)


def create(address: PostgresAddress, values: dict[str, object], *, timeout: float) -> None:
    """A new ledger with its first entry, in a new schema; roles that are missing are created."""
    errors = (_psycopg().Error,)
    connection = None
    try:
        connection = connect(address, timeout)
        connection.execute("BEGIN")
        ask = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
        if connection.execute(ask, [address.schema]).fetchone() is not None:
            raise InvalidArgument(
                f"{address} has a schema '{address.schema}' already.",
                remedy="Open it, or choose another: .../DATABASE?schema=NAME. A ledger is never overwritten.",
            )
        _create_roles(connection, address)
        for statement in schemas.statements(address.schema):
            connection.execute(statement)
        PostgresTransaction(connection, address).append(START, "create", values)
        connection.execute("COMMIT")
    except errors as error:
        raise explain(error, address, timeout) from None
    finally:
        if connection is not None:
            connection.close()


def connect(address: PostgresAddress, timeout: float) -> Any:
    """A connection whose transactions are begun explicitly."""
    return postgres.connect(address.uri, timeout=timeout, whose=WHOSE)


def _check_schema(found: set[schemas.SchemaPart], address: PostgresAddress) -> None:
    """
    Raises:
        Unavailable: there is no ledger. DataError: it is something else. IntegrityError: somebody changed it.
    """
    comment = next((part.detail for part in found if part.kind == "schema"), None)
    if comment is None:
        raise Unavailable(
            f"There is no ledger at {address}: the database has no schema '{address.schema}'.",
            remedy=f"Check the address, or create one: reticent ledger init {shlex.quote(str(address))}",
        )
    if comment != schemas.COMMENT and comment.startswith("ledger of reticent"):
        raise DataError(
            f"{address} is a {comment[:60]}; this reticent reads version {VERSION}.",
            remedy="Use the version of reticent that wrote it.",
        )
    if comment != schemas.COMMENT:
        raise DataError(
            f"The schema '{address.schema}' of {address} is not a ledger of reticent.",
            remedy="Name one that `reticent ledger init` created.",
        )
    guards = {part for part in found if part.kind != "setting"}
    if odd := sorted({part.name for part in guards ^ schemas.expected_parts(address.schema)}):
        raise broken_ledger(address, f"its schema was changed ({', '.join(odd)[:80]})")


def _require_durable(found: set[schemas.SchemaPart], address: PostgresAddress) -> None:
    """
    Raises:
        Unavailable: the server may forget what it has committed.
    """
    if schemas.SchemaPart("setting", "fsync", "on") not in found:
        raise Unavailable(
            f"The server of {address} runs with fsync off: it may lose charges. Nothing was recorded.",
            remedy="Have fsync = on set in its postgresql.conf.",
        )


def _create_roles(connection: Any, address: PostgresAddress) -> None:
    """
    Raises:
        Unavailable: roles are missing, and this user may not create them.
    """
    wanted = schemas.roles(address.schema)
    known = connection.execute(
        "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY(%s)", (list(wanted),)
    )
    missing = set(wanted) - {row[0] for row in known}
    makers = [f"CREATE ROLE {name} NOLOGIN" for name in wanted if name in missing]
    (may_create,) = connection.execute(
        "SELECT rolsuper OR rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user"
    ).fetchone()
    if makers and not may_create:
        raise Unavailable(
            f"This user of {address} may not create the roles of a ledger.",
            remedy=f"Have an administrator run: {'; '.join(makers)};",
        )
    for statement in makers:
        connection.execute(statement)


def explain(error: Exception, address: PostgresAddress, timeout: float) -> ReticentError:
    """What the server or its driver says, as an error of ours. All mean that nothing was recorded."""
    code = getattr(error, "sqlstate", None) or ""
    said = postgres.first_line(error, address.uri)
    match code:
        case "55P03":  # lock_not_available
            return Unavailable(
                f"The ledger {address} was locked by another process for {timeout:g} s. "
                "Nothing was recorded.",
                remedy="Try again when that process is done.",
            )
        case "42501":  # insufficient_privilege
            owner, analyst, auditor = schemas.roles(address.schema)
            return Unavailable(
                f"This user of {address} lacks the right to do that: {said}. Nothing was recorded.",
                remedy=f"Limits are set by members of {owner}, charges are made by members of {analyst}, and "
                f"members of {auditor} read: GRANT one of them to the user.",
            )
        case "25006" | "25007":  # read_only_sql_transaction: a standby
            return Unavailable(
                f"The server of {address} is read-only. Nothing was recorded.",
                remedy="Use the address of the primary server.",
            )
        case "53100":  # disk_full
            return Unavailable(
                f"The disk of {address} is full. Nothing was recorded.",
                remedy="Free some space and try again.",
            )
        case "3D000":
            return Unavailable(
                f"There is no ledger at {address}: {said}.", remedy="Create the database first."
            )
        case _ if code.startswith("28") or "password" in said:
            return Unavailable(
                f"The server of {address} does not let this user in: {said}.",
                remedy="Set PGPASSWORD, or put the password into ~/.pgpass.",
            )
        case _ if code.startswith(("22", "23")):
            return broken_ledger(address, f"the database says: {said}")
        case _ if isinstance(error, UnicodeDecodeError):
            return broken_ledger(address, "it holds something that is not text")
    return Unavailable(
        f"The database of {address} cannot be used: {said}. Nothing was recorded.",
        remedy="Check the address and the server, then try again.",
    )


def _psycopg() -> Any:
    return postgres.psycopg_for(WHOSE)
