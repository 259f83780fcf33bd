"""A synthetic table as text, written as its original is; what cannot be the same is said."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reticent.data.domain import Number
from reticent.runs.table_format import TableFormat
from reticent.synthetic.tables.codes import CodedColumn, Coder

_QUOTE = '"'


def write_delimited(
    written_as: TableFormat, coder: Coder, parts: Iterable[Mapping[str, Sequence[str]]]
) -> bytes:
    """Writes cells in the original's order of columns, with its delimiter, header, signs and encoding.

    Args:
        parts: of the rows, each column by column as `Coder.decode` gives them.
    """
    columns = _columns(written_as, coder)
    buffer = io.StringIO(newline="")
    rows = _rows(written_as, columns, parts)
    if written_as.has_quoted_names:
        are_words = [_is_quoted(column, written_as) for column in columns]
        for number, row in enumerate(rows):
            is_header = number == 0 and written_as.header is not False
            buffer.write(_quoted_line(row, [True] * len(row) if is_header else are_words, written_as))
    else:
        quote, separator = written_as.quote or _QUOTE, written_as.delimiter or ","
        csv.writer(buffer, delimiter=separator, quotechar=quote, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode(encoding_for(written_as, coder))


def _rows(
    written_as: TableFormat, columns: Sequence[CodedColumn], parts: Iterable[Mapping[str, Sequence[str]]]
) -> Iterator[Sequence[str]]:
    if written_as.header is not False:
        yield [column.name for column in columns]
    for cells in parts:
        yield from zip(
            *(_with_decimal_sign(one, cells[one.name], written_as) for one in columns), strict=True
        )


def _is_quoted(column: CodedColumn, written_as: TableFormat) -> bool:
    """Words are, and numbers whose decimal sign would separate cells."""
    return column.bins is None or written_as.decimal == (written_as.delimiter or ",")


def _quoted_line(row: Sequence[str], are_words: Sequence[bool], written_as: TableFormat) -> str:
    sign = written_as.quote or _QUOTE
    cells = (
        f"{sign}{cell.replace(sign, 2 * sign)}{sign}" if is_word else cell
        for cell, is_word in zip(row, are_words, strict=True)
    )
    return (written_as.delimiter or ",").join(cells) + "\n"


def encoding_for(written_as: TableFormat, coder: Coder) -> str:
    """The original's encoding if it has all characters of the domain, else UTF-8."""
    words = [
        written_as.delimiter or "",
        *coder.names,
        *(word for column in coder.columns for word in column.words),
    ]
    try:
        known = codecs.lookup(written_as.encoding or "utf-8").name
        "".join(words).encode(known)
    except (LookupError, UnicodeError):
        return "utf-8"
    return known


def differences(written_as: TableFormat, coder: Coder) -> list[str]:
    """How the file differs from the original's, in words; what is not named is the same."""
    said = []
    if written_as.format != "csv":
        said.append(f"the original is {written_as.format}, this is CSV")
    if written_as.compression:
        said.append(f"the original is compressed ({written_as.compression}), this is not")
    encoding = encoding_for(written_as, coder)
    if written_as.encoding and codecs.lookup(encoding) != _find_codec(written_as.encoding):
        said.append(f"the original is in {written_as.encoding}, this is in {encoding}")
    if written_as.has_quoted_names:
        said.append(f"words are in {written_as.quote}, numbers are not")
    if written_as.thousands:
        said.append("digits of numbers are not grouped")
    if any(isinstance(column.column, Number) and column.column.date for column in coder.columns):
        said.append("dates are written as year-month-day")
    if any(column.has_missing for column in coder.columns):
        said.append("missing cells are empty, whatever marks them in the original")
    return said


def _find_codec(encoding: str) -> codecs.CodecInfo | None:
    try:
        return codecs.lookup(encoding)
    except LookupError:
        return None


def _columns(written_as: TableFormat, coder: Coder) -> list[CodedColumn]:
    by_name = {column.name: column for column in coder.columns}
    return [by_name[name] for name in written_as.names if name in by_name]


def _with_decimal_sign(column: CodedColumn, cells: Sequence[str], written_as: TableFormat) -> Sequence[str]:
    is_comma = written_as.decimal == "," and column.bins is not None
    return [cell.replace(".", ",") for cell in cells] if is_comma else cells
