"""The dialect of a text table: delimiter, header, quotes and decimal sign.

Detection reads the first lines only, parses them in every way that could be meant, and keeps the
way in which most lines agree: a cell or a line that is unlike the others decides nothing. Where few lines
tell, as of a decimal sign among whole numbers, those few do. So what is detected is taken as public, and a
guarantee that rests on it says so (`Table.format_assumption`).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.files.text import check_encoding
from reticent.data.kinds import BLANKS, MISSING_MARKERS

DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}  # in order of preference in a tie

_LINES_LOOKED_AT = 1000
_RARE = 20  # one line in so many is unlike the others
_COMMENT_STARTS = ("#", "|", "%", "sep=")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+")
# Cells that a quote stands around; within double ones there may be lines, and the sign twice.
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|])) ?"(?:[^"]|"")*" ?(?=$|[,;\t|]|\r)', re.MULTILINE)
_IN_APOSTROPHES = re.compile(r"(^|[,;\t|]) ?'[^'\n]*' ?($|[,;\t|\r])")


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
    is_header_in_doubt: bool = False  # nothing in the file tells whether its first line is a row

    def describe(self) -> str:
        """One line for a person.

        >>> Dialect(format="csv", delimiter=";", has_header=True, encoding="utf-8", decimal=",").describe()
        'CSV, separated by semicolon, with a header, decimal comma, utf-8'
        """
        said = [self.describe_format()]
        if self.missing_markers:
            shown = ", ".join(marker or "an empty cell" for marker in self.missing_markers)
            said.append(f"missing cells marked by {shown}")
        return ", ".join(said)

    def describe_format(self) -> str:
        """How the file is written, in a line: nothing about its cells."""
        said = [self.format.upper() if self.format != "parquet" else "Parquet"]
        if self.delimiter:
            said.append(f"separated by {DELIMITERS.get(self.delimiter, repr(self.delimiter))}")
        if self.has_header is not None:
            said.append("with a header" if self.has_header else "without a header")
        if self.quote:
            said.append(f"quoted by {self.quote}")
        if self.decimal == ",":
            said.append("decimal comma")
        return ", ".join([*said, *(part for part in (self.encoding, self.compression) if part)])


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


@dataclass(frozen=True, kw_only=True)
class DeclaredFormat:
    """What a user says of how a delimited text is written; `None` for what is to be detected."""

    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    decimal: str | None = None
    quote: str | None = None  # "" for none

    @classmethod
    def parse(cls, text: str) -> DeclaredFormat:
        """What `Dialect.describe_format` says, or a part of it in any order; the rest is as usual.

        >>> DeclaredFormat.parse("CSV, separated by semicolon, decimal comma").layout
        {'delimiter': ';', 'header': True, 'encoding': 'utf-8', 'decimal': ',', 'quote': ''}

        Raises:
            InvalidArgument: a word means nothing here.
        """
        named = {name: sign for sign, name in DELIMITERS.items()}
        found: dict[str, Any] = {"delimiter": ",", "header": True, "encoding": "utf-8"}
        found |= {"decimal": ".", "quote": ""}
        for words in (part.strip() for part in text.split(", ")):
            match words.split():
                case ["CSV" | "gzip"] | ["decimal", "point"] | ["without", "quotes"]:
                    pass
                case ["separated", "by", sign]:
                    found["delimiter"] = named.get(sign, sign.strip("'"))
                case ["with" | "without" as whether, *_, "header"]:
                    found["header"] = whether == "with"
                case ["quoted", "by", sign]:
                    found["quote"] = sign
                case ["decimal", "comma"]:
                    found["decimal"] = ","
                case [sign] if sign in named:
                    found["delimiter"] = named[sign]
                case [encoding]:
                    check_encoding(encoding)
                    found["encoding"] = encoding
                case _:
                    raise InvalidArgument(
                        f"The format {text!r} says {words!r}, which means nothing here.",
                        remedy="For example: CSV, separated by tab, with a header, decimal comma, utf-8.",
                    )
        return cls(**found)

    @property
    def layout(self) -> dict[str, Any]:
        """What is declared, as the arguments of `open_table`."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def is_empty(self) -> bool:
        return self == DeclaredFormat()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to detect."""
        return None not in (self.delimiter, self.header, self.encoding, self.decimal, self.quote)


def detect_layout(
    text: str,
    *,
    path: Path,
    is_whole: bool,
    declared: DeclaredFormat,
    encoding: str,
    expected: Collection[str] = (),
) -> TextLayout:
    """The layout of a delimited text from its first lines.

    Args:
        text: the start of the file.
        is_whole: the text is the whole file; otherwise its last line may be cut and is left out.
        expected: names that somebody gave: where nothing else tells, a line that has them all is a header.
    """
    lines = _first_lines(text, is_whole=is_whole)
    if not any(line.strip(BLANKS) for line in lines):
        raise DataError(f"{path} is empty.", remedy="Give a file with at least one row.")
    delimiter, quote = _separators(lines, declared)
    records = _records_after_comments(lines, delimiter, quote)
    if not records:
        raise DataError(
            f"{path}: a cell of the first row is longer than {csv.field_size_limit()} characters.",
            remedy="This is not a table: check that every quote is closed.",
        )
    first, rest = records[0], [record.cells for record in records[1:]]
    likely = _looks_like_header(first.cells, rest) if declared.header is None else declared.header
    if likely is None and expected and set(expected) <= set(first.cells):
        likely = True
    has_header = bool(likely)
    rows = rest if has_header else [first.cells, *rest]
    start = first.ends if has_header else first.starts
    names = first.cells if has_header else [f"column_{i}" for i in range(1, len(first.cells) + 1)]
    cells = Counter(cell for row in rows for cell in row)
    dialect = Dialect(
        format="csv",
        delimiter=delimiter,
        has_header=has_header,
        quote=quote,
        encoding=encoding,
        decimal=declared.decimal or _decimal(cells, delimiter),
        missing_markers=tuple(marker for marker in MISSING_MARKERS if marker in cells),
        is_header_in_doubt=likely is None,
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
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, quoting=quoting)
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


def _separators(lines: list[str], declared: DeclaredFormat) -> tuple[str, str | None]:
    """The delimiter and the quote with which the most lines have equally many cells."""
    quotes = [_quote(lines)] if declared.quote is None else [declared.quote or None]
    best, found = 0.0, (declared.delimiter or ",", quotes[0])
    for quote in quotes:
        for delimiter in [declared.delimiter] if declared.delimiter else DELIMITERS:
            agreement = _agreement(lines, delimiter, quote)
            if agreement > best:
                best, found = agreement, (delimiter, quote)
    return found


def _quote(lines: list[str]) -> str | None:
    """The quote that most of the quote signs are used as: around whole cells. `"` where there are none.

    An apostrophe is a quote only where it is the only one, and in a tenth of the lines.
    """
    text = "".join(lines)
    signs = text.count('"')
    if signs:
        around = sum(found[0].count('"') for found in _QUOTED.finditer(text))
        return '"' if 2 * around >= signs else None
    return "'" if 10 * sum(_IN_APOSTROPHES.search(line) is not None for line in lines) >= len(lines) else '"'


def _agreement(lines: list[str], delimiter: str, quote: str | None) -> float:
    """Which part of the records has the usual number of cells; 0 where that is one cell."""
    try:
        widths = Counter(len(record.cells) for record in parse_records(lines, delimiter, quote))
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


def _looks_like_header(first: list[str], rest: list[list[str]]) -> bool | None:
    """Whether a line holds names: no numbers, and unlike the lines below; None where nothing tells.

    Among words, a name shows where those below repeat: a first row would have one of them.
    """
    if not any(first) or any(cell in MISSING_MARKERS[1:] or _NUMBER.fullmatch(cell) for cell in first):
        return False
    below = [
        [row[i] for row in rest if i < len(row) and row[i] not in MISSING_MARKERS] for i in range(len(first))
    ]
    if any(map(_is_mostly_numbers, below)):
        return True
    if any(
        column.count(cell) > len(column) / _RARE for cell, column in zip(first, below, strict=True) if cell
    ):
        return False
    repeat = [column for column in below if len(set(column)) <= len(column) / 2]
    return True if repeat else None


def _is_mostly_numbers(column: list[str]) -> bool:
    numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in column[:_RARE])
    return numbers > 0 and numbers >= 0.8 * len(column[:_RARE])


def _decimal(cells: Counter[str], delimiter: str) -> str:
    """The decimal sign that most numbers have."""
    if delimiter == ",":
        return "."
    points, commas = (
        sum(times for cell, times in cells.items() if sign.fullmatch(cell))
        for sign in (_DECIMAL_POINT, _DECIMAL_COMMA)
    )
    return "," if commas > points else "."
