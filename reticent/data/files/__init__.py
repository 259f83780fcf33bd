"""Readers of tables in files: CSV and TSV, Parquet, NumPy arrays and libsvm, all of them streaming."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.data.files.dialect import DeclaredFormat, Dialect
from reticent.data.files.table import RowBatch, Table, report_damage
from reticent.data.files.text import LINE_LIMIT, check_encoding, first_bytes

__all__ = ["Dialect", "RowBatch", "Table", "open_table"]

_FOREIGN = {  # first bytes of files that are not tables
    b"\x80\x04\x95": "a Python pickle, which is never loaded",
    b"\x80\x05\x95": "a Python pickle, which is never loaded",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF document",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
    b"ARROW1": "an Arrow file",
}


def open_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    quote: str | None = None,
    expected: Collection[str] = (),
    line_limit: int = LINE_LIMIT,
) -> Table:
    """Opens a table in a file; the first bytes decide the format.

    Args:
        delimiter: one character; `None` to detect.
        header: whether the first line names the columns; `None` to detect.
        encoding: of the text; `None` for UTF-8, UTF-16 with a mark, or else Latin-1.
        decimal: the sign in numbers, "." or ","; `None` to detect.
        quote: the sign around cells, "" for none; `None` to detect.
            To say any of these five is to say that a text is delimited, not libsvm.
        expected: names of columns that are known: where nothing else tells, a first line that has them all is
            a header.
        line_limit: bytes; a longer line of text is refused, so that a file without line ends does not
            fill the memory.

    Raises:
        DataError: there is no such file, or it cannot be read as a table.

    Example:
        >>> table = open_table("patients.csv")  # doctest: +SKIP
        >>> table.dialect.describe()  # doctest: +SKIP
        'CSV, separated by comma, with a header, quoted by ", utf-8'
    """
    path = Path(path)
    _check_path(path)
    declared = DeclaredFormat(
        delimiter=delimiter, header=header, encoding=encoding, decimal=decimal, quote=quote
    )
    _check_options(declared)
    checks.count(line_limit=line_limit)
    start = _recognisable_start(path)
    from reticent.data.files import arrays, delimited, libsvm, parquet

    if start.startswith(parquet.MAGIC):
        return parquet.ParquetTable(path)
    if start.startswith((arrays.NPZ_MAGIC, arrays.NPY_MAGIC)):
        return arrays.ArraysTable(path)
    if declared.is_empty and libsvm.looks_like_libsvm(start):
        return libsvm.LibsvmTable(path, line_limit=line_limit)
    return delimited.DelimitedTable(path, declared=declared, expected=expected, line_limit=line_limit)


def _recognisable_start(path: Path) -> bytes:
    with report_damage(path, "text"):
        start = first_bytes(path, 1 << 16)
    for magic, what in _FOREIGN.items():
        if start.startswith(magic):
            raise DataError(f"{path} is {what}.", remedy="Save the table as CSV, Parquet or NPZ.")
    return start


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder.", remedy="Give a file inside it.")
    if not path.exists():
        raise DataError(f"There is no file {path}.", remedy="Check the path.")
    if not path.is_file():
        raise DataError(f"{path} is not a regular file.", remedy="Save the table into a file first.")
    with report_damage(path, "text"):
        with open(path, "rb"):
            pass
        if not path.stat().st_size:
            raise DataError(f"{path} is empty.", remedy="Give a file with at least one row.")


def _check_options(declared: DeclaredFormat) -> None:
    delimiter, encoding, quote = declared.delimiter, declared.encoding, declared.quote
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
        raise InvalidArgument(
            f"delimiter={delimiter!r} is not one plain character.",
            remedy="Pass one, such as ',' or ';' or a tab.",
        )
    if encoding is not None:
        check_encoding(encoding)
    if declared.decimal is not None:
        checks.one_of((".", ","), decimal=declared.decimal)
    if quote is not None and (len(quote) > 1 or not quote.isascii() or quote in ("\r", "\n", "\0")):
        raise InvalidArgument(
            f"quote={quote!r} is not one plain character.", remedy="Pass one, or an empty word for none."
        )
