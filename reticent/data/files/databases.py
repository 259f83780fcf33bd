"""Tables in database files: SQLite, which Python brings, and DuckDB, if it is installed.

The file is opened for reading only, and a query can open no other file. Every column is text, as in a CSV
file.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_url

import pyarrow as pa

from reticent.core.errors import DataError, InvalidArgument, Unavailable, suggest
from reticent.data.files.dialect import DeclaredFormat, Dialect
from reticent.data.files.row_batches import as_text, batches_of
from reticent.data.files.table import Table, check_names, report_damage
from reticent.data.kinds import quote

SQLITE = b"SQLite format 3\0"
DUCKDB = b"DUCK"  # from the ninth byte on

_ROWS = 1 << 13  # fetched at once
_ROWS_LOOKED_AT = 1000
_TABLES = {
    "sqlite": "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%' "
    "order by name",
    "duckdb": "select table_name from information_schema.tables order by table_name",
}


def kind_of_database(start: bytes) -> str | None:
    """Which database a file is, by its first bytes."""
    if start.startswith(SQLITE):
        return "sqlite"
    return "duckdb" if start[8:12] == DUCKDB else None


class DatabaseTable(Table):
    """A table of a database file, or the result of a query in it.

    Args:
        kind: sqlite or duckdb.
        query: what to select; it has to give its rows in the same order each time.
        table: which table or view to read; not needed where there is only one.
        day_first: whether 01/02/2024 is in February; None to detect.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        *,
        query: str | None = None,
        table: str | None = None,
        day_first: bool | None = None,
    ) -> None:
        if query is not None and table is not None:
            raise InvalidArgument(
                "A query and a table were named.", remedy="Pass --query or --table, not both."
            )
        self.path, self.unsupported, self._kind = path, {}, kind
        with self._connection() as database:
            self._query = query if query is not None else self._select(database, table)
            cursor = database.execute(self._query)
            names = [str(column[0]) for column in cursor.description or ()]
            first = cursor.fetchmany(_ROWS_LOOKED_AT) if names else []
        if not names:
            raise InvalidArgument(
                f"{quote(query)} gives no columns.", remedy="Write a query that selects some."
            )
        if not first:
            raise DataError(
                f"{path} has no rows for {quote(self._query)}.", remedy="Select at least one row."
            )
        check_names(path, names)
        self.names = tuple(names)
        self._leave_out_bytes(first)
        cells = Counter(text for row in first for cell in row if (text := as_text(cell)))
        signs = DeclaredFormat(day_first=day_first).signs(cells, ",")
        self.dialect = Dialect(format=kind, day_first=signs.day_first, is_day_in_doubt=signs.is_day_in_doubt)

    @property
    def format_assumption(self) -> str | None:
        order = "dates have the day before the month; " if self.dialect.day_first else ""
        return (
            f"{order}the query and its {len(self.names)} columns are public, and each row of its result "
            f"comes from one record: {' '.join(self._query.split())}"
        )

    def _select(self, database: Any, table: str | None) -> str:
        tables = [str(row[0]) for row in database.execute(_TABLES[self._kind]).fetchall()]
        if table is None and len(tables) == 1:
            table = tables[0]
        if table is None:
            shown = ", ".join(tables[:12]) or "none"
            raise DataError(
                f"{self.path} has {len(tables)} tables: {shown}.",
                remedy="Say which one: --table NAME, or --query 'select ...'.",
            )
        if table not in tables:
            raise DataError(f"{self.path} has no table {quote(table)}.", remedy=suggest(table, tables))
        return 'select * from "' + table.replace('"', '""') + '"'

    def _leave_out_bytes(self, rows: Sequence[Sequence[Any]]) -> None:
        """Marks the columns that hold mostly bytes as unsupported."""
        for place, name in enumerate(self.names):
            if 2 * sum(isinstance(row[place], (bytes, bytearray)) for row in rows) > len(rows):
                self.unsupported[name] = "bytes"

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        places = [self.names.index(name) for name in columns]
        with self._connection() as database:
            cursor = database.execute(self._query)

            def rows() -> Iterator[list[str | None]]:
                while found := cursor.fetchmany(_ROWS):
                    for row in found:
                        yield [as_text(row[place]) for place in places]

            done, total = 0, self._row_count or 0
            for batch in batches_of(rows(), columns, range(len(columns))):
                done += batch.num_rows
                yield batch, done / max(total, done + 1)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if self._kind == "sqlite":
            with self._report(sqlite3.Error), closing(_open_sqlite(self.path)) as database:
                yield database
            return
        try:
            import duckdb
        except ImportError:
            raise Unavailable(
                f"{self.path} is a DuckDB database, and duckdb is not installed.",
                remedy="Install it: pip install 'reticent[sql]', or save the table as Parquet.",
            ) from None
        with self._report(duckdb.Error):
            settings: dict[str, Any] = {"enable_external_access": "false"}
            with closing(duckdb.connect(str(self.path), read_only=True, config=settings)) as database:
                yield database

    @contextmanager
    def _report(self, refusal: type[Exception]) -> Iterator[None]:
        try:
            with report_damage(self.path, "a database"):
                yield
        except refusal as error:
            said = " ".join(str(error).split())[:200].rstrip(".")
            raise DataError(
                f"{self.path}: the database refuses: {said}.", remedy="Correct the query, or check the file."
            ) from None


def _open_sqlite(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(f"file:{quote_url(str(path.absolute()))}?mode=ro", uri=True)
    database.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
    database.set_authorizer(_allow_reading)
    return database


def _allow_reading(action: int, *_: Any) -> int:
    """A query reads this file and opens no other."""
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY
