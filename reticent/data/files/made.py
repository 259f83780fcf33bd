"""A column of texts or of images as numbers that a public model makes of each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.data.arrow_cells import as_words
from reticent.data.files.images import ImageFiles
from reticent.data.files.table import RowBatch, Table
from reticent.data.kinds import Featured, quote

Holds = Literal["texts", "images"]
CellRecords = Sequence[Any]  # texts, or images


class MadeTable(Table):
    """A table with one column that is read as rows of numbers; the others are as they were.

    The numbers are made of all cells when the column is first read, and kept.

    Args:
        holds: what the cells of the column are: texts, or paths of images below `root`.
        make: from all cells to their rows, (rows, width).
    """

    def __init__(
        self,
        inner: Table,
        column: str,
        *,
        holds: Holds,
        root: Path,
        make: Callable[[CellRecords], np.ndarray],
    ) -> None:
        inner.require([column])
        self.inner, self.column, self.holds, self.root = inner, column, holds, root
        self.path, self.dialect, self.names = inner.path, inner.dialect, inner.names
        self.unsupported = inner.unsupported
        self.made = frozenset({column})
        self._make = make
        self._rows: np.ndarray | None = None

    @property
    def label(self) -> str:
        return self.inner.label

    @property
    def row_count(self) -> int:
        return self.inner.row_count

    @property
    def known_row_count(self) -> int | None:
        return self.inner.known_row_count

    @property
    def format_assumption(self) -> str | None:
        return self.inner.format_assumption

    @property
    def doubt(self) -> str | None:
        return self.inner.doubt

    def place(self, row: int) -> str:
        return self.inner.place(row)

    def records(self) -> CellRecords:
        """The texts, or the images, in their order.

        Raises:
            DataError: a cell is empty; the message says which.
        """
        cells: list[str] = []
        for rows in self.inner.batches([self.column]):
            column = rows.batch.column(self.column)
            found = as_words(column).to_pylist()
            for at, cell in enumerate(found):
                if cell is None or not cell.strip():
                    what = "text" if self.holds == "texts" else "path of an image"
                    raise DataError(
                        f"{self.label}, {self.place(rows.first + at)}, column {quote(self.column)}: there is "
                        f"no {what}.",
                        remedy="Fill it in, or take the row out.",
                    )
            cells += found
        return cells if self.holds == "texts" else ImageFiles(self.root, cells)

    def rows(self) -> np.ndarray:
        """What the model makes of every cell, (rows, width) float32."""
        if self._rows is None:
            self._rows = self._make(self.records())
        return self._rows

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        if self.column not in columns:
            for rows in self.inner.batches(columns):
                yield rows.batch, rows.done
            return
        made = self.rows()
        for rows in self.inner.batches(columns):
            here = np.ascontiguousarray(made[rows.first : rows.first + rows.batch.num_rows], np.float32)
            if len(here) < rows.batch.num_rows:
                raise DataError(f"{self.label} changed while it was read.", remedy="Try again.")
            flat = pa.array(here.ravel(), pa.float32())
            lists = pa.FixedSizeListArray.from_arrays(flat, here.shape[1])
            at = rows.batch.schema.get_field_index(self.column)
            yield rows.batch.set_column(at, self.column, lists), rows.done


def made_rows(rows: RowBatch, table: Table, name: str, column: Featured) -> np.ndarray:
    """The numbers of a batch, (rows, width), each row cut to length 1.

    Raises:
        DataError: nothing made numbers of this column, or others.
    """
    cells = rows.batch.column(name)
    width = cells.type.list_size if pa.types.is_fixed_size_list(cells.type) else None
    if width != column.width:
        raise DataError(
            f"{table.label}, column {quote(name)}: {column.width:,} features by {quote(column.model)} are "
            f"declared, and there are {'none' if width is None else f'{width:,}'}.",
            remedy="Name the model with --features, and the column with --text or --images.",
        )
    found = cells.flatten().to_numpy().reshape(len(cells), width)
    found = np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)
    # Measured and divided in float64, with a margin above what the results are rounded by.
    length = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
    return found / np.maximum(length * (1 + 1e-6), 1.0)
