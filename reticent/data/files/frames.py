"""Tables in memory: data frames, Arrow tables, named arrays and matrices."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.data.arrow_cells import compute
from reticent.data.files.dialect import Dialect
from reticent.data.files.table import Table, check_names

_ROWS = 1 << 16  # at once


class FrameTable(Table):
    """The columns of something in memory; cells become numbers or text, each by itself.

    Args:
        frame: a pandas or polars frame, an Arrow table, a mapping of names to arrays, or a matrix, whose
            columns are called x0, x1, ...
        examples: how many rows there are taken to be, where that is declared; else as many as there are.

    Raises:
        DataError: it is none of these, has no rows or columns, or columns of different lengths.

    Example:
        >>> table = FrameTable({"age": [31, 45], "job": ["nurse", None]})
        >>> table.names, next(table.batches()).batch.to_pylist()
        (('age', 'job'), [{'age': 31, 'job': 'nurse'}, {'age': 45, 'job': None}])
    """

    def __init__(self, frame: Any, *, examples: int | None = None) -> None:
        self.path = Path("the table")
        columns = {str(name): _plain(column) for name, column in _columns_of(frame)}
        if not columns:
            raise DataError("The table has no columns.", remedy="Pass a frame with at least one column.")
        check_names(self.path, tuple(columns))
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise DataError(
                f"The columns of the table have {min(lengths)} to {max(lengths)} rows.",
                remedy="Give all of them the same length.",
            )
        self.names, self.unsupported = tuple(columns), {}
        self.dialect = Dialect(format="frame")
        self.content = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        self._row_count = self.content.num_rows if examples is None else examples

    @property
    def label(self) -> str:
        return "The table"

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        wanted, rows = self.content.select(list(columns)), self.content.num_rows
        for first in range(0, rows, _ROWS):
            yield wanted.slice(first, _ROWS), min(first + _ROWS, rows) / rows


def _columns_of(frame: Any) -> Iterator[tuple[Any, Any]]:
    """Names and cells. Names that occur twice are found by the caller."""
    if isinstance(frame, Mapping):
        yield from frame.items()
    elif isinstance(frame, (pa.Table, pa.RecordBatch)):
        yield from zip(frame.column_names, frame.columns, strict=True)
    elif hasattr(frame, "iter_columns"):  # polars
        yield from ((column.name, column.to_arrow()) for column in frame.iter_columns())
    elif hasattr(frame, "columns") and hasattr(frame, "iloc"):  # pandas
        yield from ((name, frame.iloc[:, place]) for place, name in enumerate(frame.columns))
    else:
        matrix = np.asarray(frame)
        if matrix.ndim != 2:
            raise DataError(
                f"A table has two dimensions, and this has {matrix.ndim}.",
                remedy="Pass a frame, named arrays, or a matrix. Reshape your data: one row per record.",
            )
        yield from ((f"x{place}", matrix[:, place]) for place in range(matrix.shape[1]))


def _plain(column: Any) -> pa.Array:
    """Numbers as they are; anything else as text, without blanks at both ends."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        column = column.to_numpy(zero_copy_only=False) if _is_number(column.type) else column.to_pylist()
    cells = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if cells.dtype.kind in "iuf" and cells.dtype != np.float16 and cells.dtype.itemsize <= 8:
        return pa.array(np.ascontiguousarray(cells))
    texts = [_text(cell) for cell in cells.astype(object, copy=False)]
    if cells.dtype.kind == "M":
        days = np.datetime_as_string(cells, unit="D").tolist()
        texts = [None if day == "NaT" else day for day in days]
    return compute.ascii_trim_whitespace(pa.array(texts, type=pa.string()))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)


def _text(cell: Any) -> str | None:
    """A cell as a file would have it; None where it is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, (bool, np.bool_)):
        return str(bool(cell)).lower()
    if isinstance(cell, numbers.Real):
        return None if math.isnan(cell) else repr(cell.item() if isinstance(cell, np.generic) else cell)
    if isinstance(cell, (datetime.date, datetime.datetime)):
        return cell.isoformat()[:10]
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
