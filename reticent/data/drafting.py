"""Drafts a domain for a table, by reading the table once.

Whatever is looked up in the data, bounds, words, whether cells are missing, may tell something about a person
in it, so a draft marks each such value as not yet public. Kinds are guessed so:

    its name is that of an identifier       ignored
    mostly numbers                          number; integer if all are whole and written without a point
    mostly dates                            date
    up to 200 different words               category
    more words                              ignored: free text or an identifier
    the target, up to 50 whole numbers      label
    the target, up to 200 words             label

A column of numbers in which some cells are words is `lenient`: those count as missing, as in private
preparation. Whole numbers stay integers even if there are few of them: one feature keeps their order, where a
list of words would cost one feature each. If they are codes (1 = north, 2 = south), write them as a category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.core.observer import OnProgress
from reticent.core.postgres import name_of_place
from reticent.data.arrow_cells import (
    as_numbers,
    as_words,
    compute,
    is_text,
    missing_cells,
    unreadable_cells,
)
from reticent.data.dates import DATE_PARTS, day_number, day_of
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.files import RowBatch, Table
from reticent.data.kinds import (
    MAYBE_WORDS,
    MISSING_MARKERS,
    identifiers_among,
    markers_of_target,
    quote,
)

MOST_WORDS = 200  # different words of a category
MOST_CLASSES = 50  # different whole numbers of a label

_MARKS = frozenset({"kind", "bounds", "missing"})  # of a number


def draft(
    table: Table,
    target: str | None = None,
    *,
    markers: tuple[str, ...] = MISSING_MARKERS,
    on_progress: OnProgress = lambda done: None,
) -> Domain:
    """A domain for a table, in one scan of it; every value and kind found in the data is marked as looked up.

    Args:
        target: the column to predict.
        markers: cells that mean "not known".
        on_progress: called with the fraction of the file read, from 0 to 1.

    Raises:
        DataError: the file is damaged, or its target is not there or is free text.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from reticent.data.files import open_table
        >>> path = Path(tempfile.mkdtemp()) / "t.csv"
        >>> _ = path.write_text("age,sick\\n39,no\\n50,yes\\n")
        >>> found = draft(open_table(path), target="sick")
        >>> found.columns["age"].bounds, len(found.not_public()) > 0
        ((39, 50), True)
    """
    if target is not None:
        table.require([target])
    seen = {
        name: _ColumnSummary()
        for name in table.names
        if name not in table.unsupported | dict.fromkeys(table.made)
    }
    for rows in table.batches():
        for name, column in zip(rows.batch.schema.names, rows.batch.columns, strict=True):
            own = markers_of_target(markers) if name == target else markers
            _look(seen[name], column, rows, table, own)
        on_progress(rows.done)
    identifiers = identifiers_among(table.names, target)
    columns: dict[str, Column] = {}
    for name in table.names:
        if name in table.made:
            columns[name] = Ignored(reason="a public model makes numbers of it")
        elif name in identifiers:
            columns[name] = Ignored(reason="an identifier, by its name")
        elif name == target and name in seen:
            columns[name] = _label(seen[name], table, name)
        else:
            columns[name] = _kind(seen.get(name), table, name)
    written = table.dialect.describe_format() if table.dialect.format == "csv" else None
    source = f"the draft for {name_of_place(table.label)}"
    return Domain(columns=columns, target=target, missing_markers=markers, format=written, source=source)


@dataclass
class _ColumnSummary:
    """What is known of one column so far."""

    rows: int = 0
    numbers: int = 0
    days: int = 0  # cells that are dates
    others: int = 0  # cells that are neither missing nor one of these
    low: float = np.inf
    high: float = -np.inf
    first_day: float = np.inf
    last_day: float = -np.inf
    has_missing: bool = False
    is_whole: bool = True  # in value
    is_written_whole: bool = True  # without a point or an exponent
    infinite: str = ""  # where the first cell stands that is infinity
    first_word: str = ""  # where the first cell stands that is not a number
    words: set[str] | None = field(default_factory=set)  # None once there are too many

    @property
    def is_empty(self) -> bool:
        return self.words is not None and not self.words

    @property
    def is_number(self) -> bool:
        return self.numbers > self.days + self.others

    @property
    def is_date(self) -> bool:
        return self.days > max(self.numbers, self.others)


def _look(
    seen: _ColumnSummary, column: pa.Array, rows: RowBatch, table: Table, markers: tuple[str, ...]
) -> None:
    missing = missing_cells(column, markers)
    seen.rows += len(column)
    seen.has_missing |= bool(missing.any())
    present = column.filter(pa.array(~missing)) if missing.any() else column
    if not len(present):
        return
    if seen.words is not None:
        seen.words.update(as_words(compute.unique(present)).to_pylist())
        seen.words = seen.words if len(seen.words) <= MOST_WORDS else None
    reading = table.dialect.reading
    unreadable = unreadable_cells(column, missing, reading)
    numbers = as_numbers(column, missing | unreadable, reading)[~missing & ~unreadable]
    if len(numbers):
        seen.numbers += len(numbers)
        seen.low, seen.high = min(seen.low, numbers.min()), max(seen.high, numbers.max())
        seen.is_whole = seen.is_whole and bool((numbers == np.floor(numbers)).all())
        seen.is_written_whole = seen.is_written_whole and _are_written_whole(present)
    if unreadable.any():
        _look_at_words(seen, column, unreadable, rows, table)


def _look_at_words(
    seen: _ColumnSummary, column: pa.Array, unreadable: np.ndarray, rows: RowBatch, table: Table
) -> None:
    """What is not a number: dates, infinity, and words."""
    seen.first_word = seen.first_word or table.place(rows.first + int(unreadable.argmax()))
    infinite = unreadable & _infinite(column)
    if infinite.any() and not seen.infinite:
        seen.infinite = table.place(rows.first + int(infinite.argmax()))
    seen.numbers += int(np.count_nonzero(infinite))
    words = column.filter(pa.array(unreadable & ~infinite))
    reading = table.dialect.reading._replace(is_date=True)
    days = as_numbers(words, np.zeros(len(words), bool), reading)
    days = days[np.isfinite(days)]
    seen.days += len(days)
    seen.others += len(words) - len(days)
    if len(days):
        seen.first_day, seen.last_day = min(seen.first_day, days.min()), max(seen.last_day, days.max())


def _infinite(column: pa.Array) -> np.ndarray:
    if is_text(column):
        found = compute.match_substring_regex(column, r"^[+-]?(?i:inf|infinity)$")
    elif pa.types.is_floating(column.type):
        found = compute.is_inf(column)
    else:
        return np.zeros(len(column), bool)
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def _are_written_whole(present: pa.Array) -> bool:
    if is_text(present):
        return bool(compute.all(compute.match_substring_regex(present, r"^[+-]?\d+$")).as_py())
    return pa.types.is_integer(present.type)


def _kind(seen: _ColumnSummary | None, table: Table, name: str) -> Column:
    if seen is None:
        return Ignored(reason=f"holds {table.unsupported[name]}: neither text nor numbers")
    if seen.is_empty:
        return Ignored(reason="every cell is missing", looked_up=frozenset({"kind"}))
    if seen.is_number:
        return _number(seen, table, name)
    if seen.is_date:
        # A time of day lies after the beginning of its day: the bound above it is the next one.
        bounds = day_number(day_of(seen.first_day)), day_number(day_of(math.ceil(seen.last_day)))
        is_lenient = seen.numbers + seen.others > 0
        return Number(
            bounds=bounds,
            date=True,
            parts=tuple(DATE_PARTS),
            missing=seen.has_missing or is_lenient,
            lenient=is_lenient,
            looked_up=_MARKS,
        )
    if seen.words is not None:
        marks = frozenset({"kind", "values", "missing"})
        return Category(values=tuple(sorted(seen.words)), missing=seen.has_missing, looked_up=marks)
    return Ignored(
        reason=f"free text or an identifier: more than {MOST_WORDS} different words "
        f"({seen.first_word} is not a number). To use it, sort its words into buckets: buckets = 256.",
        looked_up=frozenset({"kind"}),
    )


def _number(seen: _ColumnSummary, table: Table, name: str) -> Number | Integer:
    if seen.infinite:
        raise DataError(
            f"{table.label}, {seen.infinite}, column {quote(name)} holds a number that is not finite.",
            remedy="Correct the cell, or leave it empty to mark it as missing.",
        )
    is_lenient = seen.days + seen.others > 0
    if seen.is_written_whole and not is_lenient:
        bounds = int(seen.low), int(seen.high)
        return Integer(bounds=bounds, missing=seen.has_missing, looked_up=_MARKS)
    return Number(
        bounds=(float(seen.low), float(seen.high)),
        missing=seen.has_missing or is_lenient,
        lenient=is_lenient,
        whole=seen.is_whole and is_lenient,
        looked_up=_MARKS,
    )


def _label(seen: _ColumnSummary, table: Table, name: str) -> Column:
    where = f"{table.label}: the target {quote(name)}"
    marks = frozenset({"kind", "values"})
    if seen.is_empty:
        raise DataError(f"{where} is missing in every row.", remedy="Choose another target.")
    if seen.is_number and seen.words is not None:
        seen.words -= set(MAYBE_WORDS)  # among numbers, a minus is a missing cell
    if seen.is_number:
        repeats = seen.words is not None and len(seen.words) <= min(MOST_CLASSES, max(2, seen.rows // 2))
        if seen.words is not None and repeats and seen.is_whole:
            return Label(values=tuple(sorted(seen.words, key=_in_order)), looked_up=marks)
        return replace(_number(seen, table, name), missing=False)
    if seen.words is None:
        raise DataError(
            f"{where} has more than {MOST_WORDS} different words: it is free text, not a label.",
            remedy="Choose another target, or group its words into a few first.",
        )
    return Label(values=tuple(sorted(seen.words)), looked_up=marks)


def _in_order(word: str) -> tuple[float, str]:
    """Numbers by their size, and words after them."""
    try:
        return float(word.replace(",", ".")), word
    except ValueError:
        return math.inf, word
