"""Tables in a PostgreSQL database: the result of a query, copied once into a private file.

Training reads its rows several times, and a database may change in between. So the result is copied within
one snapshot of the database, and every pass reads the copy. Its rows are put in the order of their text, by
the server: the same rows make the same file, in whatever order the database has them.

The copy lies in a folder that nobody else may read, and goes with the process. One that is killed leaves it
behind, under a name that begins with `reticent-rows-`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from reticent.core import postgres
from reticent.core.errors import DataError, InvalidArgument, ReticentError, Unavailable, suggest
from reticent.core.files import open_new
from reticent.data.files.delimited import DelimitedTable
from reticent.data.files.dialect import DeclaredFormat
from reticent.data.files.table import check_names
from reticent.data.kinds import quote

WHOSE = "the table"
_BYTES = 17  # PostgreSQL's number of the type bytea
_TIMEOUT = 30.0  # seconds to reach the server
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TABLES = (
    "select table_schema, table_name from information_schema.tables "
    "where table_schema not in ('pg_catalog', 'information_schema') order by 1, 2"
)


class PostgresTable(DelimitedTable):
    """The result of a query in a PostgreSQL database. Every column is text, as in a CSV file.

    Args:
        address: postgresql://...; a password in it is neither kept nor printed.
        query: what to select, one row per record.
        table: which table or view to read instead, with its schema where that is needed: `clinic.visits`.
        day_first: whether 01/02/2024 is in February; None to detect.
    """

    def __init__(
        self,
        address: str,
        *,
        query: str | None = None,
        table: str | None = None,
        day_first: bool | None = None,
    ) -> None:
        if query is not None and table is not None:
            raise InvalidArgument(
                "A query and a table were named.", remedy="Pass --query or --table, not both."
            )
        self._uri = postgres.parse_uri(address, whose=WHOSE).uri
        self._copy = PrivateFolder()  # shards share it, so it stays while one of them is in use
        path = self._copy.path / "rows.csv"
        with _translate_errors(self._uri), _snapshot(self._uri) as database:
            if query is None:
                query = _select(database, self._uri, table)
            self._query = query.strip().rstrip(";").rstrip()
            names, without = _columns(database, self._query)
            check_names(self._uri, names)
            rows = _copy(database, self._query, names, without, path)
        if not rows:
            raise DataError(f"{self._uri} has no rows for {quote(self._query)}.", remedy="Select some.")
        written = DeclaredFormat(
            delimiter=",", header=True, encoding="utf-8", decimal=".", quote='"', thousands="",
            day_first=day_first,
        )  # fmt: skip
        super().__init__(path, declared=written, expected=names)
        self.unsupported = dict.fromkeys(without, "bytes")
        self.dialect = replace(self.dialect, format="postgresql", is_decimal_in_doubt=False)

    @property
    def label(self) -> str:
        return self._uri

    @property
    def format_assumption(self) -> str | None:
        order = "dates have the day before the month; " if self.dialect.day_first else ""
        return (
            f"{order}the query and its {len(self.names)} columns are public, and each row of its result "
            f"comes from one record: {' '.join(self._query.split())}"
        )


class PrivateFolder:
    """A folder that only this user may read, deleted when nobody holds it any more or the process ends."""

    def __init__(self) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="reticent-rows-"))
        except OSError as error:
            raise DataError(
                f"Cannot make a folder for the rows: {error.strerror}.",
                remedy="Set TMPDIR to a place with room for them.",
            ) from error
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@contextmanager
def _snapshot(uri: str) -> Iterator[Any]:
    """A connection that sees the database as it is now, and may change nothing."""
    with postgres.connect(uri, timeout=_TIMEOUT, whose=WHOSE) as database:
        database.execute(_SNAPSHOT)
        # Whatever the server is set to: dates as 2024-01-31, every digit of a number.
        database.execute("set local datestyle = 'ISO, YMD'; set local intervalstyle = 'iso_8601'")
        database.execute("set local extra_float_digits = 1; set local bytea_output = 'hex'")
        yield database


def _select(database: Any, uri: str, table: str | None) -> str:
    """A query for all rows of a table: of the only one, where none is named."""
    found = [(str(schema), str(name)) for schema, name in database.execute(_TABLES).fetchall()]
    known = [f"{schema}.{name}" for schema, name in found]
    if table is None and len(found) != 1:
        raise DataError(
            f"{uri} has {len(known)} tables: {', '.join(known[:12]) or 'none'}.",
            remedy="Say which one: --table SCHEMA.NAME, or --query 'select ...'.",
        )
    chosen = [pair for pair in found if table in (None, pair[1], f"{pair[0]}.{pair[1]}")]
    if len(chosen) > 1:
        raise DataError(
            f"{uri} has {len(chosen)} tables named {quote(table)}.",
            remedy=f"Name the schema too: --table {'.'.join(chosen[0])}.",
        )
    if not chosen:
        raise DataError(f"{uri} has no table {quote(table)}.", remedy=suggest(str(table), known))
    return f"select * from {'.'.join(map(_quote, chosen[0]))}"


def _columns(database: Any, query: str) -> tuple[list[str], list[str]]:
    """The columns that a query gives; and which of them hold bytes.

    A result in binary comes by a protocol that takes one statement: a text that ends the query and begins
    another one is refused.
    """
    inside = f"select * from (\n{query}\n) as reticent_rows limit 0"
    found = database.cursor(binary=True).execute(inside).description or ()
    if not found:
        raise InvalidArgument(f"{quote(query)} gives no columns.", remedy="Write a query that selects some.")
    return [str(column.name) for column in found], [
        str(column.name) for column in found if column.type_code == _BYTES
    ]


def _copy(database: Any, query: str, names: Sequence[str], without: Sequence[str], path: Path) -> int:
    """Writes the result of a query to a file, and says how many rows it has."""
    cells = ", ".join("''" if name in without else f"reticent_rows.{_quote(name)}::text" for name in names)
    chosen = f'select {cells} from (\n{query}\n) as reticent_rows order by reticent_rows::text collate "C"'
    try:
        with open_new(path, is_private=True) as file, database.cursor() as cursor:
            file.write((",".join(map(_csv_cell, names)) + "\n").encode())
            with cursor.copy(f"copy ({chosen}) to stdout (format csv, null '')") as copied:
                for part in copied:
                    file.write(part)
            return cursor.rowcount
    except OSError as error:
        raise DataError(
            f"Cannot write the rows to {path.parent}: {error.strerror}.",
            remedy="Free some space there, or set TMPDIR to a place that has it.",
        ) from error


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _csv_cell(name: str) -> str:
    return name if name.isidentifier() else _quote(name)


@contextmanager
def _translate_errors(uri: str) -> Iterator[None]:
    """Turns what the server or its driver says into an error of ours."""
    psycopg = postgres.psycopg_for(WHOSE)
    try:
        yield
    except ReticentError:
        raise
    except psycopg.Error as error:
        raise _explain(error, uri) from None


def _explain(error: Exception, uri: str) -> ReticentError:
    code, said = getattr(error, "sqlstate", None) or "", postgres.first_line(error, uri)
    if code.startswith("28") or "password" in said:
        return Unavailable(
            f"The server of {uri} does not let this user in: {said}.",
            remedy="Set PGPASSWORD, or put the password into ~/.pgpass.",
        )
    if code.startswith("22"):  # such words quote the cell that they are about
        return DataError(
            f"{uri}: the query fails on a cell (PostgreSQL's error {code}).",
            remedy="Correct the query: a cast or a division does not work for every row.",
        )
    if code == "25006":
        return InvalidArgument(
            f"{uri}: the query would change the database.", remedy="Write one that only selects."
        )
    if code:
        return DataError(
            f"{uri}: the database refuses: {said}.", remedy="Correct the query, or have the right granted."
        )
    return Unavailable(
        f"{uri} cannot be reached: {said}.", remedy="Check the address and the server, then try again."
    )
