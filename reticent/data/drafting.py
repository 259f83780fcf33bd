"""Drafts a domain for a table, by reading the table once.

Whatever is looked up in the data, bounds, words, whether cells are missing, may tell something about a person
in it, so a draft marks each such value as not yet public. Kinds are guessed so:

    only numbers                            number; integer if all are written without a point
    up to 200 different words               category
    more words                              ignored: free text or an identifier
    the target, up to 50 whole numbers      label
    the target, up to 200 words             label

Whole numbers stay integers even if there are few of them: one feature keeps their order, where a list of
words would cost one feature each. If they are codes (1 = north, 2 = south), write them as a category.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.core.observer import OnProgress
from reticent.data.arrow_cells import (
    as_numbers,
    as_words,
    compute,
    first_failing,
    is_text,
    missing_cells,
    number_text,
)
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.files import RowBatch, Table
from reticent.data.kinds import MISSING_MARKERS, quote

MOST_WORDS = 200  # different words of a category
MOST_CLASSES = 50  # different whole numbers of a label


def draft(table: Table, target: str | None = None, *, on_progress: OnProgress = lambda done: None) -> Domain:
    """A domain for a table, in one scan of it; every value and kind found in the data is marked as looked up.

    Args:
        target: the column to predict.
        on_progress: called with the fraction of the file read, from 0 to 1.

    Raises:
        DataError: the file is damaged, or its target is not there or is free text.
    """
    if target is not None:
        table.require([target])
    seen = {name: _ColumnSummary() for name in table.names if name not in table.unsupported}
    for rows in table.batches():
        for name, column in zip(rows.batch.schema.names, rows.batch.columns, strict=True):
            _look(seen[name], column, rows, table, name)
        on_progress(rows.done)
    columns = {
        name: _label(seen[name], table, name)
        if name == target and name in seen
        else _kind(seen.get(name), table, name)
        for name in table.names
    }
    written = table.dialect.describe_format() if table.dialect.format == "csv" else None
    source = f"the draft for {table.path.name}"
    return Domain(columns=columns, target=target, format=written, source=source)


@dataclass
class _ColumnSummary:
    """What is known of one column so far."""

    rows: int = 0
    low: float = np.inf
    high: float = -np.inf
    has_missing: bool = False
    is_number: bool = True
    is_whole: bool = True  # in value
    is_written_whole: bool = True  # without a point or an exponent
    first_word: str = ""  # where the first cell stands that is not a number
    words: set[str] | None = field(default_factory=set)  # None once there are too many

    @property
    def is_empty(self) -> bool:
        return self.words is not None and not self.words


def _look(seen: _ColumnSummary, column: pa.Array, rows: RowBatch, table: Table, name: str) -> None:
    missing = missing_cells(column, MISSING_MARKERS)
    seen.rows += len(column)
    seen.has_missing |= bool(missing.any())
    present = column.filter(pa.array(~missing)) if missing.any() else column
    if not len(present):
        return
    if seen.words is not None:
        seen.words.update(as_words(compute.unique(present)).to_pylist())
        seen.words = seen.words if len(seen.words) <= MOST_WORDS else None
    if seen.is_number:
        _look_at_numbers(seen, column, missing, rows, table, name)
    if seen.is_number and seen.is_written_whole:
        seen.is_written_whole = _is_written_whole(present)


def _look_at_numbers(
    seen: _ColumnSummary, column: pa.Array, missing: np.ndarray, rows: RowBatch, table: Table, name: str
) -> None:
    decimal = table.dialect.decimal
    try:
        numbers = as_numbers(column, missing, decimal=decimal)
    except pa.ArrowInvalid:
        row = first_failing(number_text(column, missing, decimal=decimal), pa.float64())
        seen.is_number, seen.first_word = False, table.place(rows.first + row)
        return
    infinite = ~np.isfinite(numbers) & ~missing
    if infinite.any():
        where = table.place(rows.first + int(infinite.argmax()))
        raise DataError(
            f"{table.path}, {where}, column {quote(name)} holds a number that is not finite.",
            remedy="Correct the cell, or leave it empty to mark it as missing.",
        )
    numbers = numbers[~missing]
    seen.low, seen.high = min(seen.low, numbers.min()), max(seen.high, numbers.max())
    seen.is_whole = seen.is_whole and bool((numbers == np.floor(numbers)).all())


def _is_written_whole(present: pa.Array) -> bool:
    if is_text(present):
        return bool(compute.all(compute.match_substring_regex(present, r"^[+-]?\d+$")).as_py())
    return pa.types.is_integer(present.type)


def _kind(seen: _ColumnSummary | None, table: Table, name: str) -> Column:
    if seen is None:
        return Ignored(reason=f"holds {table.unsupported[name]}: neither text nor numbers")
    if seen.is_empty:
        return Ignored(reason="every cell is missing", looked_up=frozenset({"kind"}))
    if seen.is_number:
        return _number(seen)
    if seen.words is not None:
        marks = frozenset({"kind", "values", "missing"})
        return Category(values=tuple(sorted(seen.words)), missing=seen.has_missing, looked_up=marks)
    return Ignored(
        reason=f"free text or an identifier: more than {MOST_WORDS} different words "
        f"({seen.first_word} is not a number). Group it into fewer words to use it.",
        looked_up=frozenset({"kind"}),
    )


def _number(seen: _ColumnSummary) -> Number | Integer:
    marks = frozenset({"kind", "bounds", "missing"})
    common: dict[str, Any] = {"missing": seen.has_missing, "looked_up": marks}
    if seen.is_written_whole:
        return Integer(bounds=(int(seen.low), int(seen.high)), **common)
    return Number(bounds=(float(seen.low), float(seen.high)), **common)


def _label(seen: _ColumnSummary, table: Table, name: str) -> Column:
    where = f"{table.path}: the target {quote(name)}"
    if seen.is_empty:
        raise DataError(f"{where} is missing in every row.", remedy="Choose another target.")
    if seen.is_number:
        repeats = seen.words is not None and len(seen.words) <= min(MOST_CLASSES, max(2, seen.rows // 2))
        if seen.words is not None and repeats and seen.is_whole:
            values = sorted(seen.words, key=lambda word: (float(word.replace(",", ".")), word))
            return Label(values=tuple(values), looked_up=frozenset({"kind", "values"}))
        return _number(seen)
    if seen.words is None:
        raise DataError(
            f"{where} has more than {MOST_WORDS} different words: it is free text, not a label.",
            remedy="Choose another target, or group its words into a few first.",
        )
    return Label(values=tuple(sorted(seen.words)), looked_up=frozenset({"kind", "values"}))
