"""Rows of Python values as batches of text: what readers of JSON, workbooks and databases have in common.

Every column is text, as in a CSV file, so the type of one cell decides nothing about another.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from reticent.data.kinds import BLANKS

_ROWS = 1 << 13  # at once
_BYTES = 1 << 24  # of text at once


def as_text(value: Any) -> str | None:
    """A value as the text of a cell; None for none.

    >>> [as_text(value) for value in (True, 3.0, 0.1, " a ", datetime.date(2024, 1, 31), None)]
    ['true', '3', '0.1', 'a', '2024-01-31', None]
    """
    match value:
        case None:
            return None
        case str():
            text = value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
            return text.strip(BLANKS)
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case dict() | list() | tuple():
            return json.dumps(value, default=str)
    return str(value)


def batches_of(
    rows: Iterable[Sequence[str | None]], columns: Sequence[str], places: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Batches of the cells at these places of each row, none of them large."""
    schema = pa.schema([(name, pa.string()) for name in columns])
    cells: list[list[str | None]] = [[] for _ in columns]
    count = size = 0
    for row in rows:
        for column, place in zip(cells, places, strict=True):
            cell = row[place]
            column.append(cell)
            size += 0 if cell is None else len(cell)
        count += 1
        if count == _ROWS or size > _BYTES:
            yield pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in cells], schema=schema)
            cells = [[] for _ in columns]
            count = size = 0
    if count:
        yield pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in cells], schema=schema)
