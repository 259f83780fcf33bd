"""Tables in text with one row per line and a delimiter between cells: CSV, TSV and their relatives."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from reticent.core.errors import DataError
from reticent.data.arrow_cells import compute
from reticent.data.files.dialect import BLANK, DeclaredFormat, detect_layout, parse_records
from reticent.data.files.shards import byte_range, cut_error, line_ends_before
from reticent.data.files.table import Table, check_names, report_damage
from reticent.data.files.text import (
    LINE_LIMIT,
    SAMPLE,
    CleanText,
    detect_encoding,
    first_bytes,
    format_size,
    has_plain_line_ends,
    is_gzip,
)

_BLOCK = 1 << 20  # bytes of text parsed at once, or more if a row needs more
_END = "\x1a\x1a\x1a"  # each cell of the row that is added to a shard: not what a person writes


class DelimitedTable(Table):
    """A CSV file, or one like it. Every column is text; blank lines are skipped."""

    def __init__(
        self,
        path: Path,
        *,
        declared: DeclaredFormat | None = None,
        expected: Collection[str] = (),
        line_limit: int = LINE_LIMIT,
    ) -> None:
        self.path = path
        self.unsupported = {}
        self._line_limit = line_limit
        declared = declared or DeclaredFormat()
        with report_damage(path, "text"):
            self._encoding = declared.encoding or detect_encoding(first_bytes(path, SAMPLE))
            self._is_lenient = declared.encoding is None and self._encoding.startswith(("utf-8", "cp"))
            self._is_squeezed = declared.delimiter == BLANK
            text, is_whole = self._sample()
            known: dict[str, Any] = {"path": path, "encoding": self._encoding, "expected": expected}
            layout = detect_layout(text, is_whole=is_whole, declared=declared, **known)
            if layout.dialect.delimiter == BLANK and not self._is_squeezed:
                self._is_squeezed = True
                text, is_whole = self._sample()
                with_blanks = replace(declared, delimiter=BLANK)
                layout = detect_layout(text, is_whole=is_whole, declared=with_blanks, **known)
        self.has_declared_format = declared.is_whole
        check_names(path, layout.names)
        if not layout.has_rows:
            raise DataError(
                f"{path} has a header and no rows.",
                remedy="Give a file with at least one row, or pass --no-header if that line is one.",
            )
        self.names = layout.names
        self.dialect = replace(layout.dialect, compression="gzip" if is_gzip(path) else None)
        self._start: dict[str, Any] = {"skip": layout.skip, "line": layout.line}
        self._head, self._tail = b"", b""  # added to a shard whose beginning, or end, is a cut
        self._block = min(line_limit, max(_BLOCK, 2 * max(map(len, text.splitlines()), default=0)))

    @property
    def format_assumption(self) -> str | None:
        said = []
        if not self.has_declared_format:
            said.append(
                f"the format of the file is public: {self.dialect.describe_format()}, "
                f"{len(self.names)} columns"
            )
        if self.dialect.title_lines:
            said.append(f"lines of a title at the beginning: {self.dialect.title_lines}")
        if self.dialect.quote:  # a cell may hold line ends, so an open one takes other lines with it
            said.append("every quote is closed in the record that opens it")
        return "; ".join(said) or None

    def shard(self, number: int, count: int) -> DelimitedTable:
        if self.dialect.compression:
            raise cut_error(self, f"packed with {self.dialect.compression}")
        if not has_plain_line_ends(self._encoding):
            raise cut_error(self, f"text in {self._encoding}")
        if self._is_squeezed:
            raise cut_error(self, "separated by blanks")
        shard = copy(self)
        with report_damage(self.path, "text"):
            first, end = self._bytes()
            begins, ends = byte_range(self.path, number, count, first=first, end=end)
        shard._start = {"begin": begins, "end": ends}
        if number:  # a blank line, after which Arrow takes nothing for the mark at the head of a file
            shard._head = b"\n"
        if ends < end and self.dialect.quote:
            shard._tail = (self.dialect.delimiter or ",").join([_END] * len(self.names)).encode() + b"\n"
        if self._encoding == "utf-8-sig":  # the mark is at the head of the file, before all shards
            shard._encoding = "utf-8"
        shard._row_count = None
        shard._part = f" of shard {number + 1} of {count}"
        return shard

    def place(self, row: int) -> str:
        for index, (line, _) in enumerate(self._lines()):
            if index == row:
                return f"line {line + line_ends_before(self.path, self._start.get('begin', 0))}"
        return super().place(row)

    def _bytes(self) -> tuple[int, int]:
        """The bytes of the file in which the rows are."""
        if "begin" in self._start:
            return self._start["begin"], self._start["end"]
        with CleanText(self.path, encoding=self._encoding, is_lenient=self._is_lenient) as stream:
            head = stream.read(self._start["skip"]).decode("utf-8")
        return len(head.encode(self._encoding)), self.path.stat().st_size

    @property
    def _reading(self) -> dict[str, Any]:
        return {
            "encoding": self._encoding,
            "is_lenient": self._is_lenient,
            "is_squeezed": self._is_squeezed,
        }

    def _sample(self) -> tuple[str, bool]:
        with CleanText(self.path, **self._reading, line_limit=self._line_limit) as stream:
            start = stream.read(SAMPLE)
            while b"\n" not in start and (more := stream.read(SAMPLE)):
                start += more
            is_whole = not stream.read(1)
        return start.decode("utf-8", errors="ignore"), is_whole

    def _lines(self) -> Iterator[tuple[int, int]]:
        """The line at which each row begins, and its number of cells, by a second and slower parser."""
        with CleanText(self.path, **self._reading, **self._start) as stream:
            lines = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8", newline="")
            try:
                for record in parse_records(iter(lines), self.dialect.delimiter or ",", self.dialect.quote):
                    yield self._start.get("line", 1) + record.starts, len(record.cells)
            except csv.Error:  # a cell too long for Python's parser: rows from here on have no known line
                return

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        given = 0  # rows handed out before a block proved too small for the next one
        while True:
            seen = 0
            try:
                for batch, done in self._blocks(columns):
                    yield batch.slice(min(batch.num_rows, max(0, given - seen))), done
                    seen += batch.num_rows
                    given = max(given, seen)
                return
            except _RecordTooLong as error:
                if self._block >= self._line_limit:
                    raise error.as_data_error(self.path, self._block) from None
                self._block = min(self._line_limit, 8 * self._block)

    def _blocks(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        ragged: list[Any] = []
        begin = self._start.get("begin", 0)
        total = max(1, self._start.get("end", self.path.stat().st_size) - begin)
        is_open = bool(self._tail)  # the row that is added to a shard was not found yet
        with report_damage(self.path, "text"), self._stream() as stream:
            last = None
            try:
                for batch in self._open(stream, columns, ragged):
                    if is_open and stream.is_finished and _is_end(batch):
                        batch, is_open = batch.slice(0, batch.num_rows - 1), False
                    last = _trim(batch)
                    yield last, (stream.position - begin) / total
            except pa.ArrowInvalid as error:
                raise self._explain(error, ragged, stream) from None
            if is_open:
                raise self._bad_cut_error()
            if not self._tail:
                self._check_quotes(stream, last)

    def _stream(self) -> _CountingQuotes:
        return _CountingQuotes(
            self.path,
            quote=self.dialect.quote,
            **self._reading,
            line_limit=self._line_limit,
            head=self._head,
            tail=self._tail,
            **self._start,
        )

    def _open(self, stream: CleanText, columns: Sequence[str], ragged: list[Any]) -> Any:
        def remember(row: Any) -> str:
            ragged.append(row)
            return "error"

        return arrow_csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            # One thread: rows keep their numbers, and no block is read ahead of its turn.
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=self._block, column_names=list(self.names)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.dialect.delimiter or ",",
                quote_char=self.dialect.quote or False,
                newlines_in_values=self.dialect.quote is not None,
                invalid_row_handler=remember,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.string()),
                include_columns=list(columns),
                strings_can_be_null=False,
                check_utf8=False,  # the stream has checked it
            ),
        )

    def _check_quotes(self, stream: _CountingQuotes, last: pa.RecordBatch | None) -> None:
        """Refuses a quote that is never closed: the rest of the file would become one cell."""
        if last is None or not last.num_rows or stream.quotes % 2 == 0:
            return
        if any("\n" in cell for cell in last.slice(last.num_rows - 1).to_pylist()[0].values()):
            raise DataError(
                f"{self.path}: the last row begins a quoted cell that never ends.",
                remedy=f"Close the quote ({self.dialect.quote}), or remove it.",
            )

    def _bad_cut_error(self) -> DataError:
        return DataError(
            f"{self.path}: a quoted cell with a line end in it spans the end{self._part}.",
            remedy="Save the table as Parquet, or use another number of processes.",
        )

    def _explain(self, error: pa.ArrowInvalid, ragged: list[Any], stream: _CountingQuotes) -> Exception:
        """What the parser failed on, without its own message, which quotes the whole row."""
        if not ragged and "straddling" in str(error):
            return _RecordTooLong()
        if self._tail and stream.is_finished and stream.quotes % 2:
            return self._bad_cut_error()
        if ragged:
            row = ragged[0]
            where = self.place(row.number - 1) if row.number else "one row"
            return DataError(
                f"{self.path}, {where} has {row.actual_columns} cells where there are "
                f"{row.expected_columns} columns.",
                remedy="Correct that line, or quote the cells that hold the delimiter.",
            )
        return DataError(
            f"{self.path} cannot be read as a table with {len(self.names)} columns.",
            remedy="Check the delimiter, or name it: --delimiter.",
        )


class _RecordTooLong(Exception):
    """A row does not fit into a block of text."""

    def as_data_error(self, path: Path, limit: int) -> DataError:
        return DataError(
            f"{path}: a row is longer than {format_size(limit)}.",
            remedy="Check that its lines end, and that every quote is closed.",
        )


class _CountingQuotes(CleanText):
    def __init__(self, path: Path, *, quote: str | None, **start: Any) -> None:
        super().__init__(path, **start)
        self._quote = (quote or "").encode()
        self.quotes = 0

    def read(self, size: int = -1) -> bytes:
        piece = super().read(size)
        self.quotes += piece.count(self._quote) if self._quote else 0
        return piece


def _is_end(batch: pa.RecordBatch) -> bool:
    """Whether the last row is the one that was added. In a cell that is still open it would not be a row."""
    return batch.num_rows > 0 and all(column[-1].as_py() == _END for column in batch.columns)


def _trim(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [compute.ascii_trim_whitespace(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
