"""A table in a file: named columns that can be read again and again, a batch of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reticent.core.errors import DataError, ReticentError, suggest
from reticent.data.kinds import quote

if TYPE_CHECKING:
    import pyarrow as pa

    from reticent.data.files.dialect import Dialect


MOST_COLUMNS = 50_000


class RowBatch(NamedTuple):
    """A batch of rows: where it starts in the table (from 0), its cells, how much of the file is read."""

    first: int
    batch: pa.RecordBatch
    done: float  # 0 to 1


class Table(ABC):
    """The columns of a file, streamed.

    A column is text (Arrow strings, blanks at both ends removed) or numbers (any Arrow integer or
    float). Text files give text only: the reader decides whether a cell is a number.

    Attributes:
        path: the file, or a private copy of what is elsewhere.
        names: the columns in their order.
        unsupported: columns that hold neither text nor numbers, and the type they have instead.
        dialect: what was detected about the file.
        unit: what a message counts: rows, or the users they belong to.
        made: columns of which a public model makes numbers: read only where they are asked for by name.
    """

    path: Path
    names: tuple[str, ...]
    dialect: Dialect
    unsupported: dict[str, str]
    made: frozenset[str] = frozenset()
    unit: str = "row"
    _row_count: int | None = None
    _first_row: int = 0  # of a shard: how many rows of the file come before it, where that is known
    _part: str = ""  # of a shard: what messages call it, where that is not

    @property
    def label(self) -> str:
        """What messages call it."""
        return str(self.path)

    def batches(self, columns: Collection[str] | None = None) -> Iterator[RowBatch]:
        """The rows from the first to the last, with these columns only (default: all that can be read).

        Raises:
            DataError: the file is damaged; the message names the line where there is one.
        """
        if columns is None:
            columns = [name for name in self.names if name not in self.unsupported and name not in self.made]
        self.require(columns)
        chosen = set(columns)
        wanted = [name for name in self.names if name in chosen]
        first = 0
        for batch, done in self._read(wanted) if wanted else ():
            if batch.num_rows:
                yield RowBatch(first, batch, min(1.0, done))
                first += batch.num_rows

    def require(self, columns: Collection[str]) -> None:
        """Raises `DataError`, with the nearest name, for a column that is not there or cannot be read."""
        names = set(self.names)
        for name in columns:
            if name not in names:
                raise DataError(
                    f"{self.label} has no column {quote(name)}.", remedy=suggest(name, self.names)
                )
            if name in self.unsupported:
                raise DataError(
                    f"{self.label}, column {quote(name)} holds {self.unsupported[name]}.",
                    remedy='Only text and numbers can be read: declare it kind = "ignored".',
                )

    @property
    def format_assumption(self) -> str | None:
        """What was found in the file about how it is written, and is taken as public; None if nothing was."""
        return None

    @property
    def doubt(self) -> str | None:
        """What nothing in the file tells, how it was decided, and how to decide otherwise; mostly None."""
        said = []
        if self.dialect.is_header_in_doubt:
            said.append(
                f"It is unclear whether the first line of {self.label} names the columns. It is taken as a "
                "row, and columns are called column_1, column_2, ...: pass --header if it does, "
                "--no-header if not."
            )
        if self.dialect.title_lines:
            lines = self.dialect.title_lines
            said.append(
                f"{self.label} begins with {lines} {'line' if lines == 1 else 'lines'} of too few cells for "
                "a row, taken as a title and skipped. If they are rows, complete them."
            )
        if self.dialect.is_decimal_in_doubt:
            said.append(_doubt_about_decimals(self.label, self.dialect))
        if self.dialect.is_day_in_doubt:
            said.append(
                f"It is unclear whether dates like 01/02/2024 in {self.label} begin with the month. They are "
                f"taken to: pass --format '{self.dialect.describe_format()}, day before month' if not."
            )
        return " ".join(said) or None

    @property
    def row_count(self) -> int:
        """How many rows there are; a delimited text is read through once to know."""
        if self._row_count is None:
            self._row_count = sum(rows.batch.num_rows for rows in self.batches(self.names[:1]))
        return self._row_count

    @property
    def known_row_count(self) -> int | None:
        """How many rows there are, or `None` where the file would have to be read to know."""
        return self._row_count

    def shard(self, number: int, count: int) -> Table:
        """A contiguous part of the rows; `shards.shard_of` says which, and is to be called instead."""
        raise DataError(
            f"{self.label} cannot be read in shards.", remedy="Save it as Parquet, or use one process."
        )

    def place(self, row: int) -> str:
        """Where a row stands, for a message: its number from 1, or its line in a text file."""
        return f"row {self._first_row + row + 1}{self._part}"

    @abstractmethod
    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Batches with exactly these columns, and the fraction of the file read so far."""


def _doubt_about_decimals(path: str, dialect: Dialect) -> str:
    """How numbers are read that are all written like 41.896, and how to have them read otherwise."""
    written = dialect.describe_format()
    if dialect.decimal == ",":
        number, otherwise = "41,896", written.replace("decimal comma", "decimal point")
    else:
        number, otherwise = "41.896", f"{written}, decimal comma, thousands point"
    return (
        f"It is unclear whether a number such as {number} is about 42 or about 42 thousand. It is "
        f"taken as about 42: pass --format '{otherwise}' if it is not."
    )


def check_width(path: Path | str, columns: int) -> None:
    """Raises `DataError` for more columns than a table is read with."""
    if columns > MOST_COLUMNS:
        raise DataError(
            f"{path} has {columns:,} columns, and tables are read with at most {MOST_COLUMNS:,}.",
            remedy="Keep the columns that matter, or train on arrays in Python.",
        )


def check_names(path: Path | str, names: Sequence[str]) -> None:
    """Raises `DataError` for a column without a name, and for a name that two columns have."""
    check_width(path, len(names))
    for position, name in enumerate(names, start=1):
        if not name:
            raise DataError(
                f"{path}: column {position} of {len(names)} has no name.",
                remedy="Name it in the header (a row index is left out with index=False), "
                "or pass --no-header if there is none.",
            )
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DataError(
            f"{path}: {times} columns are named {quote(name)}.", remedy="Give each column its own name."
        )


@contextmanager
def report_damage(path: Path, what: str) -> Iterator[None]:
    """Turns whatever a decoder throws at a damaged file into a `DataError`.

    The decoder's own words are left out: some of them quote the row they stumbled over.
    """
    import struct
    import zipfile
    import zlib

    import pyarrow as pa

    refusals = (pa.ArrowException, ValueError, LookupError, RuntimeError, EOFError, OverflowError)
    try:
        yield
    except ReticentError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{path}: reading the {what} needs more memory than there is.",
            remedy="If it should be small, it is damaged: get a fresh copy.",
        ) from error
    except OSError as error:
        if error.errno is None:  # a decoder's complaint, not the operating system's
            raise damage_error(path, what, error) from error
        raise DataError(
            f"Cannot read {path}: {error.strerror}.",
            remedy="Check that it is there and that you may read it.",
        ) from error
    except (*refusals, zlib.error, zipfile.BadZipFile, struct.error) as error:
        raise damage_error(path, what, error) from error


def damage_error(path: Path, what: str, error: Exception | None = None) -> DataError:
    cut = isinstance(error, EOFError)
    return DataError(
        f"{path} is {'cut short' if cut else 'damaged or cut short'}: it cannot be read as {what}.",
        remedy="Get a fresh copy.",
    )
