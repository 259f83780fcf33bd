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
from typing import TYPE_CHECKING, Any, NamedTuple

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.files.cell_signs import CellSigns, detect_signs, is_comma_an_exception, is_quantity
from reticent.data.files.headers import find_head
from reticent.data.files.text import check_encoding
from reticent.data.kinds import BLANKS, MISSING_MARKERS

if TYPE_CHECKING:
    from reticent.data.arrow_cells import Reading

DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}  # in order of preference in a tie

_FORMATS = {
    "parquet": "Parquet",
    "jsonl": "JSON lines",
    "xlsx": "Excel",
    "stata": "Stata",
    "sqlite": "SQLite",
    "duckdb": "DuckDB",
    "postgresql": "PostgreSQL",
    "images": "a folder of images",
}
BLANK = " "  # or any number of them, and tabs
_NAMES = {**DELIMITERS, BLANK: "blanks"}
_LINES_LOOKED_AT = 1000
_BLANKS_AGREE = 0.95  # of the lines have equally many cells, if blanks separate them
_COMMENT_STARTS = ("#", "|", "%", "sep=")
# Cells that a quote stands around; within double ones there may be lines, and the sign twice.
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|])) ?"(?:[^"]|"")*" ?(?=$|[,;\t|]|\r)', re.MULTILINE)
_SPARSE = re.compile(r"\d+:[-+.\deE]+")  # as in a libsvm file
_IN_APOSTROPHES = re.compile(r"(^|[,;\t|]) ?'[^'\n]*' ?($|[,;\t|\r])")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What was detected about a file, or given by the caller."""

    format: str  # csv | jsonl | parquet | npz | libsvm | xlsx | stata | sqlite | duckdb | postgresql | images
    delimiter: str | None = None
    has_header: bool | None = None
    quote: str | None = None
    encoding: str | None = None
    decimal: str = "."
    thousands: str = ""  # "." if points group digits; see `arrow_cells.Reading`
    day_first: bool = False  # 01/02/2024 is in February
    missing_markers: tuple[str, ...] = ()  # those seen in the first lines
    compression: str | None = None
    title_lines: int = 0  # above the header, and not read
    is_header_in_doubt: bool = False  # nothing in the file tells whether its first line is a row
    is_decimal_in_doubt: bool = False  # nor whether 41.896 is about 42 or about 42 thousand
    is_day_in_doubt: bool = False  # nor whether 01/02/2024 is in January

    @property
    def reading(self) -> Reading:
        """How numbers and dates are written."""
        from reticent.data.arrow_cells import Reading

        return Reading(decimal=self.decimal, thousands=self.thousands, day_first=self.day_first)

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
        said = [_FORMATS.get(self.format, self.format.upper())]
        if self.format == "postgresql":  # how its rows are copied is nobody's business
            return ", ".join([*said, *(["day before month"] * self.day_first)])
        if self.delimiter:
            said.append(f"separated by {_NAMES.get(self.delimiter, repr(self.delimiter))}")
        if self.has_header is not None:
            said.append("with a header" if self.has_header else "without a header")
        if self.quote:
            said.append(f"quoted by {self.quote}")
        if self.decimal == ",":
            said.append("decimal comma")
        if self.thousands:
            said.append("thousands point")
        if self.day_first:
            said.append("day before month")
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
    thousands: str | None = None  # "" for none
    day_first: bool | None = None

    @classmethod
    def parse(cls, text: str) -> DeclaredFormat:
        """What `Dialect.describe_format` says, or a part of it in any order; the rest is as usual.

        >>> declared = DeclaredFormat.parse("CSV, separated by semicolon, decimal comma")
        >>> declared.delimiter, declared.header, declared.decimal
        (';', True, ',')

        Raises:
            InvalidArgument: a word means nothing here.
        """
        named = {name: sign for sign, name in _NAMES.items()}
        found: dict[str, Any] = {"delimiter": ",", "header": True, "encoding": "utf-8"}
        found |= {"decimal": ".", "quote": "", "thousands": "", "day_first": False}
        for words in (part.strip() for part in text.split(", ")):
            match words.split():
                case ["CSV" | "gzip"] | ["decimal", "point"] | ["without", "quotes"]:
                    pass
                case ["month", "before", "day"]:
                    pass
                case ["day", "before", "month"]:
                    found["day_first"] = True
                case ["thousands", "point"]:
                    found["thousands"] = "."
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
    def has_no_columns(self) -> bool:
        """Whether nothing is said about delimiter, quotes and header, which JSON does not have."""
        return self.delimiter is None and self.header is None and self.quote is None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to detect."""
        return None not in (self.delimiter, self.header, self.encoding, self.decimal, self.quote) and (
            self.thousands is not None and self.day_first is not None
        )

    def signs(self, cells: Counter[str], delimiter: str) -> CellSigns:
        """How numbers and dates are written: as declared, and for the rest as most cells are."""
        found = detect_signs(cells, delimiter)
        if self.decimal is not None:
            thousands = found.thousands if found.decimal == self.decimal else ""
            found = found._replace(decimal=self.decimal, thousands=thousands, is_decimal_in_doubt=False)
        if self.thousands is not None:
            found = found._replace(thousands=self.thousands, is_decimal_in_doubt=False)
        if self.day_first is not None:
            found = found._replace(day_first=self.day_first, is_day_in_doubt=False)
        return found


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
    head = find_head([record.cells for record in records], declared.header, expected)
    first, rows = records[head.title], [record.cells for record in records[head.title + head.has_header :]]
    start = first.ends if head.has_header else first.starts
    cells = Counter(cell for row in rows for cell in row)
    signs = declared.signs(cells, delimiter)
    if declared.decimal is None and signs.decimal == "," and is_comma_an_exception(rows):
        signs = signs._replace(decimal=".", thousands="")
    dialect = Dialect(
        format="csv",
        delimiter=delimiter,
        has_header=head.has_header,
        quote=quote,
        encoding=encoding,
        decimal=signs.decimal,
        thousands=signs.thousands,
        day_first=signs.day_first,
        missing_markers=tuple(marker for marker in MISSING_MARKERS if marker in cells),
        title_lines=head.title,
        is_header_in_doubt=head.is_in_doubt,
        is_decimal_in_doubt=signs.is_decimal_in_doubt,
        is_day_in_doubt=signs.is_day_in_doubt,
    )
    skip = len("".join(lines[:start]).encode("utf-8", errors="replace"))
    return TextLayout(dialect, head.names, skip, start + 1, bool(rows) or not is_whole)


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
    if declared.delimiter is None and best < _BLANKS_AGREE and _are_separated_by_blanks(lines, quotes[0]):
        return BLANK, quotes[0]
    return found


def _are_separated_by_blanks(lines: list[str], quote: str | None) -> bool:
    """Whether nearly all lines have equally many cells between blanks, some of them numbers."""
    squeezed = [" ".join(line.split()) + "\n" for line in lines]
    is_sparse = any(_SPARSE.fullmatch(cell) for cell in squeezed[0].split())
    if is_sparse or _agreement(squeezed, BLANK, quote) < _BLANKS_AGREE:
        return False
    numbers = sum(any(map(is_quantity, line.split())) for line in squeezed)
    return 2 * numbers > len(squeezed)


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
