"""Readers of tables: CSV and TSV, JSON lines, Parquet, NumPy arrays, libsvm, Excel, Stata and databases."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.postgres import is_database
from reticent.data.files.dialect import DeclaredFormat, Dialect
from reticent.data.files.table import RowBatch, Table, report_damage
from reticent.data.files.text import LINE_LIMIT, check_encoding, first_bytes

__all__ = ["Dialect", "RowBatch", "Table", "open_table"]

_SAVE = "Save the table as CSV, Parquet or NPZ."
_UNPACK = "Unpack it first, or pack it with gzip."
_FOREIGN = {  # first bytes of files that are not read, what they are, and what to do
    b"\x80\x04\x95": ("a Python pickle, which is never loaded", _SAVE),
    b"\x80\x05\x95": ("a Python pickle, which is never loaded", _SAVE),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save it as .xlsx or CSV."),
    b"\x89HDF": ("an HDF5 file", "Save the table as Parquet: in pandas, pd.read_hdf(FILE).to_parquet(NEW)."),
    b"%PDF": ("a PDF document", _SAVE),
    b"BZh": ("packed with bzip2", _UNPACK),
    b"\xfd7zXZ": ("packed with xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", _UNPACK),
    b"ARROW1": ("an Arrow file", "Save it as Parquet: in pandas, pd.read_feather(FILE).to_parquet(NEW)."),
    b"$FL2": ("an SPSS file", "Save it as CSV: in pandas, pd.read_spss(FILE).to_csv(NEW, index=False)."),
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc2\xea\x81\x60": (
        "a SAS file",
        "Save it as CSV: in pandas, pd.read_sas(FILE, encoding='latin-1').to_csv(NEW, index=False).",
    ),
    b"RDX3\n": ("an R data file", "Save the table as CSV: in R, write.csv(table, FILE, row.names = FALSE)."),
}


def open_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    quote: str | None = None,
    thousands: str | None = None,
    day_first: bool | None = None,
    expected: Collection[str] = (),
    query: str | None = None,
    table: str | None = None,
    line_limit: int = LINE_LIMIT,
) -> Table:
    """Opens a table in a file, of which the first bytes decide the format; or in a PostgreSQL database.

    Args:
        path: the file, or postgresql://USER@HOST:PORT/DATABASE.
        delimiter: one character; `None` to detect.
        header: whether the first line names the columns; `None` to detect.
        encoding: of the text; `None` for UTF-8, UTF-16 with a mark, or else cp1252.
        decimal: the sign in numbers, "." or ","; `None` to detect.
        quote: the sign around cells, "" for none; `None` to detect.
        thousands: "." if 1.234 is more than a thousand in a file with a decimal comma, else "".
        day_first: whether 01/02/2024 is in February; `None` to detect.
            To say any of these is to say that a text is delimited, not libsvm.
        expected: names of columns that are known: where nothing else tells, a first line that has them all is
            a header.
        query: for a database, what to select.
        table: which table of a database, or which sheet of a workbook; the only one, or the first.
        line_limit: bytes; a longer line of text is refused, so that a file without line ends does not
            fill the memory.

    Raises:
        DataError: there is no such file, or it cannot be read as a table.

    Example:
        >>> table = open_table("patients.csv")  # doctest: +SKIP
        >>> table.dialect.describe()  # doctest: +SKIP
        'CSV, separated by comma, with a header, quoted by ", utf-8'
    """
    declared = DeclaredFormat(
        delimiter=delimiter,
        header=header,
        encoding=encoding,
        decimal=decimal,
        quote=quote,
        thousands=thousands,
        day_first=day_first,
    )
    _check_options(declared)
    checks.count(line_limit=line_limit)
    if is_database(str(path)):
        from reticent.data.files.postgres import PostgresTable

        return PostgresTable(str(path), query=query, table=table, day_first=day_first)
    _refuse_server(str(path))
    path = Path(path)
    _check_path(path)
    return _open_file(path, declared, expected, query=query, table=table, line_limit=line_limit)


def _open_file(
    path: Path,
    declared: DeclaredFormat,
    expected: Collection[str],
    *,
    query: str | None,
    table: str | None,
    line_limit: int,
) -> Table:
    start = _recognisable_start(path)
    from reticent.data.files import arrays, databases, delimited, excel, json_lines, libsvm, parquet, stata

    if (kind := databases.kind_of_database(start)) is not None:
        return databases.DatabaseTable(path, kind, query=query, table=table, day_first=declared.day_first)
    if start.startswith(arrays.NPZ_MAGIC) and excel.is_workbook(path):
        _refuse_unused(path, query=query)
        return excel.ExcelTable(path, sheet=table, declared=declared, expected=expected)
    _refuse_unused(path, query=query, table=table)
    if start.startswith(parquet.MAGIC):
        return parquet.ParquetTable(path, declared=declared)
    if start.startswith(stata.MAGICS):
        return stata.StataTable(path)
    if start.startswith((arrays.NPZ_MAGIC, arrays.NPY_MAGIC)):
        return arrays.ArraysTable(path)
    if declared.has_no_columns and json_lines.looks_like_json_lines(start):
        return json_lines.JsonLinesTable(path, declared=declared, line_limit=line_limit)
    if declared.has_no_columns:
        json_lines.refuse_document(path, start)
    if declared.is_empty and libsvm.looks_like_libsvm(start):
        return libsvm.LibsvmTable(path, line_limit=line_limit)
    return delimited.DelimitedTable(path, declared=declared, expected=expected, line_limit=line_limit)


def _recognisable_start(path: Path) -> bytes:
    with report_damage(path, "text"):
        start = first_bytes(path, 1 << 16)
    for magic, (what, remedy) in _FOREIGN.items():
        if start.startswith(magic):
            raise DataError(f"{path} is {what}.", remedy=remedy)
    return start


def _refuse_server(path: str) -> None:
    scheme, found, _ = path.partition("://")
    if found and scheme.isalnum():
        raise DataError(
            f"{scheme}://... is on a server, and tables are read from files and from PostgreSQL.",
            remedy="Save the rows into a file first, or write postgresql://USER@HOST/DATABASE.",
        )


def _refuse_unused(path: Path, **options: str | None) -> None:
    for name, value in options.items():
        if value is not None:
            wanted = "a database" if name == "query" else "a database or a workbook"
            raise InvalidArgument(
                f"{path} is not {wanted}, and --{name} was given.",
                remedy=f"Leave --{name} out.",
            )


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
    if declared.thousands is not None:
        checks.one_of(("", "."), thousands=declared.thousands)
    if quote is not None and (len(quote) > 1 or not quote.isascii() or quote in ("\r", "\n", "\0")):
        raise InvalidArgument(
            f"quote={quote!r} is not one plain character.", remedy="Pass one, or an empty string for none."
        )
