"""Tables in Excel workbooks (.xlsx): one sheet, read once into memory.

Rows above the header that fill hardly any columns are a title, and empty rows are skipped. Formulas count as
the values that were last saved for them. Every column is text, as in a CSV file.
"""

from __future__ import annotations

import warnings
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from reticent.core.errors import DataError, Unavailable, suggest
from reticent.data.files.dialect import DeclaredFormat, Dialect
from reticent.data.files.headers import find_head
from reticent.data.files.row_batches import as_text, batches_of
from reticent.data.files.table import Table, check_names, check_width, damage_error, report_damage
from reticent.data.kinds import quote

_WORKBOOK = "xl/workbook.xml"
_MOST_BYTES = 1 << 30  # of a workbook, unpacked
_MOST_ROWS = 1 << 20  # of a sheet
_ROWS_LOOKED_AT = 1000


def is_workbook(path: Path) -> bool:
    """Whether a zip archive is an Excel workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _WORKBOOK in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


class ExcelTable(Table):
    """A sheet of a workbook.

    Args:
        sheet: its name; the first one if `None`.
    """

    def __init__(
        self,
        path: Path,
        *,
        sheet: str | None = None,
        declared: DeclaredFormat,
        expected: Collection[str] = (),
    ) -> None:
        self.path, self.unsupported = path, {}
        with report_damage(path, "an Excel workbook"):
            self._sheet, numbered = _read_sheet(path, sheet)
        if not numbered:
            raise DataError(
                f"{path}, sheet {quote(self._sheet)} is empty.", remedy="Choose another: --table NAME."
            )
        usual = Counter(len(cells) for _, cells in numbered[:_ROWS_LOOKED_AT]).most_common(1)[0][0]
        first = [cells + [None] * (usual - len(cells)) for _, cells in numbered[:_ROWS_LOOKED_AT]]
        head = find_head(first, declared.header, expected)
        self.names = head.names
        check_names(path, self.names)
        start = head.title + head.has_header
        self._numbers = [number for number, _ in numbered[start:]]
        self._rows = [self._fit_to_columns(number, cells) for number, cells in numbered[start:]]
        if not self._rows:
            raise DataError(
                f"{path}, sheet {quote(self._sheet)} has a header and no rows.",
                remedy="Give a sheet with at least one row, or pass --no-header if that line is one.",
            )
        self._row_count = len(self._rows)
        signs = declared.signs(Counter(cell for row in first[start:] for cell in row if cell), ",")
        self.dialect = Dialect(
            format="xlsx",
            has_header=head.has_header,
            decimal=declared.decimal or ".",  # numbers are no text here, and have a point
            day_first=signs.day_first,
            title_lines=head.title,
            is_header_in_doubt=head.is_in_doubt,
            is_day_in_doubt=signs.is_day_in_doubt,
        )

    @property
    def format_assumption(self) -> str | None:
        said = f"{self.dialect.describe_format()}, sheet {quote(self._sheet)}, {len(self.names)} columns"
        return f"the format of the file is public: {said}"

    def place(self, row: int) -> str:
        return f"row {self._numbers[row]} of sheet {quote(self._sheet)}"

    def _fit_to_columns(self, number: int, cells: list[str | None]) -> list[str | None]:
        width = len(self.names)
        if any(cell for cell in cells[width:]):
            raise DataError(
                f"{self.path}, sheet {quote(self._sheet)}, row {number} has {len(cells)} cells where there "
                f"are {width} columns.",
                remedy="Give each column a name, or remove what stands beside the table.",
            )
        return cells[:width] + [None] * (width - len(cells))

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        for batch in batches_of(self._rows, columns, [self.names.index(name) for name in columns]):
            done += batch.num_rows
            yield batch, done / len(self._rows)


def _read_sheet(path: Path, wanted: str | None) -> tuple[str, list[tuple[int, list[str | None]]]]:
    """The name of the sheet, and its rows that hold anything, each with its number."""
    try:
        import openpyxl
    except ImportError:
        raise Unavailable(
            f"{path} is an Excel workbook, and openpyxl is not installed.",
            remedy="Install it: pip install 'reticent[excel]', or save the sheet as CSV.",
        ) from None
    _check_size(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and printers
            book: Any = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
            with closing(book):
                return _rows_of_sheet(path, book, wanted)
    except (SyntaxError, TypeError, AttributeError, AssertionError, ArithmeticError, RecursionError) as error:
        raise damage_error(path, "an Excel workbook", error) from error


def _rows_of_sheet(
    path: Path, book: Any, wanted: str | None
) -> tuple[str, list[tuple[int, list[str | None]]]]:
    names = [sheet.title for sheet in book.worksheets]
    if not names:
        raise DataError(f"{path} has no sheets with cells.", remedy="Give a workbook with a table in it.")
    name = names[0] if wanted is None else wanted
    if name not in names:
        raise DataError(f"{path} has no sheet {quote(name)}.", remedy=suggest(name, names))
    sheet = book[name]
    sheet.reset_dimensions()
    return name, list(_filled_rows(path, sheet))


def _filled_rows(path: Path, sheet: Any) -> Iterator[tuple[int, list[str | None]]]:
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > _MOST_ROWS:
            raise damage_error(path, "an Excel workbook")
        cells = [as_text(value) for value in values]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            check_width(path, len(cells))
            yield number, cells


def _check_size(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > _MOST_BYTES:
        raise DataError(
            f"{path} holds {size / 1e9:.1f} GB once it is unpacked, and workbooks are read up to "
            f"{_MOST_BYTES / 1e9:.1f} GB.",
            remedy="Save the sheet as CSV or Parquet.",
        )
