"""The first cells of the columns of a table, as they are, for what its holder is told about it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reticent.data.arrow_cells import Reading, as_numbers, as_words, missing_cells, unreadable_cells
from reticent.data.domain import Domain, Number
from reticent.data.files import Table
from reticent.data.kinds import MISSING_MARKERS


class FirstCells(NamedTuple):
    """The first cells of a column, as they are.

    Args:
        words: the different ones.
        codes: the position of each cell among them, -1 where missing.
        numbers: as numbers, NaN where missing; None if most cells are not.
    """

    name: str
    words: list[str]
    codes: np.ndarray
    numbers: np.ndarray | None


def first_cells(table: Table, names: list[str], declared: Domain | None, most: int) -> dict[str, FirstCells]:
    """Reads the cells of each of these columns, of so many rows at most."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in names}
    rows = 0
    for batch in table.batches(names):
        for name in names:
            parts[name].append(batch.batch.column(name).slice(0, most - rows))
        rows += batch.batch.num_rows
        if rows >= most:
            break
    markers = MISSING_MARKERS if declared is None else declared.missing_markers
    known = {} if declared is None else declared.columns
    found = {}
    for name, pieces in parts.items():
        if not pieces:
            continue
        column = pa.concat_arrays(pieces)
        as_declared = known.get(name)
        is_date = isinstance(as_declared, Number) and as_declared.date
        found[name] = _column(name, column, markers, table.dialect.reading._replace(is_date=is_date))
    return found


def _column(name: str, column: pa.Array, markers: Collection[str], reading: Reading) -> FirstCells:
    missing = missing_cells(column, markers)
    encoded = as_words(column).dictionary_encode()
    codes = np.where(missing, -1, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
    words = encoded.dictionary.to_pylist()
    unreadable = unreadable_cells(column, missing, reading)
    present = len(missing) - int(missing.sum())
    if not present or 2 * int(unreadable.sum()) > present:
        return FirstCells(name, words, codes, None)
    return FirstCells(name, words, codes, as_numbers(column, missing | unreadable, reading))
