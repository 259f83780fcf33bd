"""The dialect of a text table: delimiter, header, quotes and decimal sign.

Detection reads the first lines only, parses them in every way that could be meant, and keeps the
way in which the lines agree best on the number of cells.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reticent.core.errors import DataError
from reticent.data.kinds import BLANKS, MISSING_MARKERS

DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}  # in order of preference in a tie

_LINES_LOOKED_AT = 1000
_COMMENT_STARTS = ("#", "|", "%", "sep=")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+")
_IN_APOSTROPHES = re.compile(r"(^|[,;\t|]) ?'[^'\n]*' ?($|[,;\t|])", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What was detected about a file, or given by the caller."""

    format: str  # csv | parquet | npz | libsvm
    delimiter: str | None = None
    has_header: bool | None = None
    quote: str | None = None
    encoding: str | None = None
    decimal: str = "."
    missing_markers: tuple[str, ...] = ()  # those seen in the first lines
    compression: str | None = None

    def describe(self) -> str:
        """One line for a person.

        >>> Dialect(format="csv", delimiter=";", has_header=True, encoding="utf-8", decimal=",").describe()
        'CSV, separated by semicolon, with a header, decimal comma, utf-8'
        """
        said = [self.format.upper() if self.format != "parquet" else "Parquet"]
        if self.delimiter:
            said.append(f"separated by {DELIMITERS.get(self.delimiter, repr(self.delimiter))}")
        if self.has_header is not None:
            said.append("with a header" if self.has_header else "without a header")
        if self.quote:
            said.append(f"quoted by {self.quote}")
        if self.decimal == ",":
            said.append("decimal comma")
        said += [part for part in (self.encoding, self.compression) if part]
        if self.missing_markers:
            shown = ", ".join(marker or "an empty cell" for marker in self.missing_markers)
            said.append(f"missing cells marked by {shown}")
        return ", ".join(said)


class TextLayout(NamedTuple):
    """A dialect, and where in the text the rows begin."""

    dialect: Dialect
    names: tuple[str, ...]
    skip: int  # bytes of UTF-8 before the first row
    line: int  # of the first row, from 1
    has_rows: bool


class _Record(NamedTuple):
    cells: list[str]
    starts: int  # lines of the text before this record
    ends: int  # lines of the text up to and with this record


def detect_layout(
    text: str, *, path: Path, is_whole: bool, delimiter: str | None, header: bool | None, encoding: str
) -> TextLayout:
    """The layout of a delimited text from its first lines.

    Args:
        text: the start of the file.
        is_whole: the text is the whole file; otherwise its last line may be cut and is left out.
        delimiter, header: what the user said; `None` to detect.
    """
    lines = _first_lines(text, is_whole=is_whole)
    if not any(line.strip(BLANKS) for line in lines):
        raise DataError(f"{path} is empty.", remedy="Give a file with at least one row.")
    delimiter, quote = _separators(lines, delimiter)
    records = _records_after_comments(lines, delimiter, quote)
    if not records:
        raise DataError(
            f"{path}: a cell of the first row is longer than {csv.field_size_limit()} characters.",
            remedy="This is not a table: check that every quote is closed.",
        )
    first, rest = records[0], [record.cells for record in records[1:]]
    has_header = _looks_like_header(first.cells, rest) if header is None else header
    rows = rest if has_header else [first.cells, *rest]
    start = first.ends if has_header else first.starts
    names = first.cells if has_header else [f"column_{i}" for i in range(1, len(first.cells) + 1)]
    cells = {cell for row in rows for cell in row}
    dialect = Dialect(
        format="csv",
        delimiter=delimiter,
        has_header=has_header,
        quote=quote,
        encoding=encoding,
        decimal=_decimal(cells, delimiter),
        missing_markers=tuple(marker for marker in MISSING_MARKERS if marker in cells),
    )
    skip = len("".join(lines[:start]).encode("utf-8", errors="replace"))
    return TextLayout(dialect, tuple(names), skip, start + 1, bool(rows) or not is_whole)


def parse_records(
    lines: Iterator[str] | Sequence[str], delimiter: str, quote: str | None
) -> Iterator[_Record]:
    """The records of a delimited text that hold anything at all, cells trimmed.

    Raises:
        csv.Error: a cell is longer than Python's parser takes.
    """
    yield from _parse(lines, delimiter, quote, is_strict=False)


def _parse(
    lines: Iterator[str] | Sequence[str], delimiter: str, quote: str | None, *, is_strict: bool
) -> Iterator[_Record]:
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, quoting=quoting, strict=is_strict)
    before = 0
    for cells in reader:
        if cells:
            yield _Record([cell.strip(BLANKS) for cell in cells], before, reader.line_num)
        before = reader.line_num


def _first_lines(text: str, *, is_whole: bool) -> list[str]:
    lines = list(io.StringIO(text, newline=""))
    if not is_whole and len(lines) > 1:
        lines.pop()
    return lines[:_LINES_LOOKED_AT]


def _separators(lines: list[str], said: str | None) -> tuple[str, str | None]:
    """The delimiter and the quote with which the most lines have equally many cells."""
    text = "".join(lines)
    ways = [('"', True), (None, False), ('"', False)]  # quote, and whether it must be used flawlessly
    if '"' not in text and _IN_APOSTROPHES.search(text):
        ways.insert(0, ("'", True))
    best, found = 0.0, (said or ",", '"')
    for quote, is_strict in ways:
        for delimiter in [said] if said else DELIMITERS:
            agreement = _agreement(lines, delimiter, quote, is_strict=is_strict)
            if agreement > best:
                best, found = agreement, (delimiter, quote)
    return found


def _agreement(lines: list[str], delimiter: str, quote: str | None, *, is_strict: bool) -> float:
    """Which part of the records has the usual number of cells; 0 where that is one cell."""
    try:
        widths = Counter(len(record.cells) for record in _parse(lines, delimiter, quote, is_strict=is_strict))
    except csv.Error:
        return 0.0
    if not widths:
        return 0.0
    width, times = widths.most_common(1)[0]
    return times / widths.total() if width > 1 else 0.0


def _records_after_comments(lines: list[str], delimiter: str, quote: str | None) -> list[_Record]:
    """The records, without leading lines that begin like a comment and do not fit the columns."""
    records: list[_Record] = []
    with suppress(csv.Error):  # what came before an over-long cell is enough to go by
        records.extend(parse_records(lines, delimiter, quote))
    widths = Counter(len(record.cells) for record in records)
    usual = widths.most_common(1)[0][0] if widths else 0
    while (
        len(records) > 1
        and len(records[0].cells) != usual
        and records[0].cells[0].startswith(_COMMENT_STARTS)
    ):
        records.pop(0)
    return records


def _looks_like_header(first: list[str], rest: list[list[str]]) -> bool:
    """Whether a line holds names: no numbers, and unlike the lines below."""
    if not any(first) or any(cell in MISSING_MARKERS[1:] or _NUMBER.fullmatch(cell) for cell in first):
        return False
    below = [
        [row[i] for row in rest if i < len(row) and row[i] not in MISSING_MARKERS] for i in range(len(first))
    ]
    if any(column and all(_NUMBER.fullmatch(cell) for cell in column[:20]) for column in below):
        return True
    return not any(cell and cell in column for cell, column in zip(first, below, strict=True))


def _decimal(cells: set[str], delimiter: str) -> str:
    if delimiter == "," or any(_DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) else "."
