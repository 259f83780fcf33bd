"""Rows as numbers, by a domain.

What a row becomes depends on that row and on the domain, on nothing else: no mean, no maximum, no
list of words is taken from the data. So encoding by a public domain costs no privacy, and a record
moves only its own row.

    number, integer     clipped to the bounds, scaled to [-1, 1]; 0 where missing
    a date              a number of days; its month and its weekday, where the domain has them among its
                        features, one feature each, 1 where the day is in it
    a target            a class counted from 0, or -1 for none; a number, or NaN for none
    category            one feature a word, 1 where the cell is that word; one more for any other word;
                        where the words are ordered, one feature from 0 to 1 for all of them; where they
                        are sorted into buckets, one feature a bucket
    a text, an image    the numbers that a public model made of it, cut to length 1
    missing cells       a feature of their own, 1 where the cell is missing; where the domain has none for
                        them, the typical number of the column, or its words in their shares
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Literal, NoReturn

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError, DomainError
from reticent.core.observer import OnProgress
from reticent.core.postgres import name_of_place
from reticent.data.arrow_cells import (
    Reading,
    as_numbers,
    as_words,
    bucket_codes,
    compute,
    first_failing,
    missing_cells,
    number_text,
    unreadable_cells,
)
from reticent.data.cell_advice import advise_on_number
from reticent.data.dataset import Dataset
from reticent.data.dates import DATE_PARTS, part_codes
from reticent.data.domain import Category, Column, Domain, Featured, Integer, Label, Number
from reticent.data.files import RowBatch, Table
from reticent.data.files.made import made_rows
from reticent.data.kinds import classes_of, markers_for, quote
from reticent.data.row_files import RowsInFile, blank_rows

_BLOCK = 16 << 20  # bytes of features that are filled at once

Oddity = Literal["missing", "not a number", "outside the bounds", "another word"]
OddCells = Counter[tuple[str, Oddity]]  # how many cells of a column are so

# Is shown the number of the first row, a column's name, its numbers before clipping, and which are missing.
OnNumbers = Callable[[int, str, np.ndarray, np.ndarray], None]

NO_CLASS = -1  # of a row whose label is missing, or none of the classes, where the domain is lenient


def encode(
    table: Table,
    domain: Domain,
    *,
    target: str | None = None,
    into: str | os.PathLike[str] | None = None,
    on_progress: OnProgress = lambda done: None,
    odd: OddCells | None = None,
    on_numbers: OnNumbers | None = None,
) -> Dataset:
    """Encodes a table as arrays: `x` float32 (rows, features), and `y` (rows,) if there is a target.

    `y` holds int32 classes in the order of the label's values, or a numeric target as float32, clipped
    to its bounds and in its own units. Rows are counted first and then streamed, so memory stays close
    to the size of the arrays themselves, or to that of some rows if they go `into` a folder. This does not
    check that the domain is public: training on the result does (`domain.require_public()`).

    Args:
        target: another target than the domain's.
        into: a folder; the arrays are written there as `x.npy` and `y.npy`, and memory-mapped.
        on_progress: called with the fraction done, from 0 to 1.
        odd: receives how many cells of each feature were not what training expects; see `OddCells`.
        on_numbers: called with the numbers of each column before they are clipped, target included.

    Edge cases:
        a number outside the bounds        clipped to them
        bounds of a single value           a feature of zeros
        a missing cell                     a feature of its own if the domain declares missing; else the
                                           typical number or the prior of the words; else DataError
        a word that is not declared        the feature of other words if the domain has one; else the prior
                                           of the words; else DataError
        NaN, infinity, text for a number   DataError, or missing if the column is lenient

    Raises:
        DomainError: a column has no declared bounds or values.
        DataError: a cell is not what the domain says; the message names file, line and column.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from reticent.data import Label, Number, open_table
        >>> path = Path(tempfile.mkdtemp()) / "t.csv"
        >>> _ = path.write_text("age,sick\\n25,no\\n150,yes\\n")
        >>> columns = {"age": Number(bounds=(0, 100)), "sick": Label(values=("no", "yes"))}
        >>> rows = encode(open_table(path), Domain(columns=columns, target="sick"))
        >>> rows["x"].tolist(), rows["y"].tolist()  # from 0 to 100 is from -1 to 1; 150 is clipped
        ([[-0.5], [1.0]], [0, 1])
    """
    if target is not None:
        table.require([target])
        domain = domain.with_target(target)
    encoder = Encoder(domain, on_numbers=on_numbers)
    table.require(encoder.columns)
    with ExitStack() as unfinished:
        shape = (table.row_count, len(encoder.feature_names))
        x = blank_rows(table, shape, np.float32, into, "x", unfinished)
        outputs, y = {"x": x}, None
        if domain.target is not None:
            kind = np.int32 if isinstance(domain.columns[domain.target], Label) else np.float32
            y = outputs["y"] = blank_rows(table, (table.row_count,), kind, into, "y", unfinished)
        _fill_all(encoder, table, x, y, on_progress)
        if odd is not None:
            odd.update(encoder.odd)
        for output in outputs.values():
            if isinstance(output, RowsInFile):
                output.finish()
        unfinished.pop_all()
    arrays = {
        name: output.publish() if isinstance(output, RowsInFile) else output
        for name, output in outputs.items()
    }
    return Dataset(arrays=arrays, name=name_of_place(table.label))


def has_target(y: np.ndarray) -> np.ndarray:
    """Which rows have a class or a number to learn.

    Example:
        >>> has_target(np.array([0.5, np.nan])).tolist()
        [True, False]
    """
    return ~np.isnan(y) if np.issubdtype(y.dtype, np.floating) else y > NO_CLASS


def feature_names(domain: Domain) -> tuple[str, ...]:
    """What each column of `x` stands for.

    >>> feature_names(Domain(columns={"age": Number(bounds=(0, 99)), "job": Category(values=("a", "b"))}))
    ('age', 'job = a', 'job = b', 'job = (other)')
    """
    return Encoder(domain).feature_names


class Encoder:
    """The function from rows to numbers that a domain defines.

    Attributes:
        feature_names: one per column of `x`.
        columns: the names of the table's columns that are read, the target among them.
        odd: how many cells of each feature were missing, unreadable, out of bounds, or words of no feature.

    Raises:
        DomainError: a column has no declared bounds or values, or no column is a feature.
    """

    def __init__(self, domain: Domain, *, on_numbers: OnNumbers | None = None) -> None:
        self.domain = domain
        self._on_numbers = on_numbers or (lambda *seen: None)
        self.odd: OddCells = Counter()
        domain.require_declared()
        self._features = {
            name: column
            for name, column in domain.columns.items()
            if name != domain.target and isinstance(column, (Number, Integer, Category, Featured))
        }
        if not self._features:
            raise DomainError(
                f"{domain.source}: no column is a feature.", remedy="Declare a number, integer or category."
            )
        names = {name: _names_of(name, column) for name, column in self._features.items()}
        self.feature_names = tuple(feature for group in names.values() for feature in group)
        self.columns = tuple(n for n in domain.columns if n in self._features or n == domain.target)

    def fill(self, rows: RowBatch, table: Table, x: np.ndarray, y: np.ndarray | None) -> None:
        """Writes a batch of rows into blank arrays of their length."""
        at = 0
        for name, column in self._features.items():
            if isinstance(column, Featured):
                x[:, at : at + column.width] = made_rows(rows, table, name, column)
                at += column.width
                continue
            cells = ColumnCells(rows, table, self.domain, name)
            width = len(_names_of(name, column))
            own = width - len(_part_names(name, column))
            features = x[:, at : at + own]  # (rows, features of this column)
            parts = x[:, at + own : at + width]
            at += width
            self._note(name, "missing", cells.missing)
            self._note(name, "not a number", cells.forgive(column))
            if column.missing:
                features[cells.missing, -1] = 1
            elif cells.missing.any() and not _has_fallback(column):
                cells.refuse_missing()
            if isinstance(column, Category):
                self._fill_category(column, cells, features)
            else:
                self._fill_number(column, cells, features[:, 0])
                _fill_parts(column, cells, parts)
        if y is not None and self.domain.target is not None:
            y[:] = self._targets(ColumnCells(rows, table, self.domain, self.domain.target))

    def _note(self, name: str, what: Oddity, which: np.ndarray) -> None:
        if count := int(np.count_nonzero(which)):
            self.odd[name, what] += count

    def _fill_number(self, column: Number | Integer, cells: ColumnCells, feature: np.ndarray) -> None:
        found, (low, high) = cells.numbers(column), _bounds(column)
        self._on_numbers(cells.first, cells.name, found, cells.missing)
        self._note(cells.name, "outside the bounds", ~cells.missing & ((found < low) | (found > high)))
        typical = None if column.missing else getattr(column, "typical", None)
        absent = 0 if typical is None else _scale(np.array([float(typical)]), column)[0]
        feature[:] = np.where(cells.missing, absent, _scale(found, column))

    def _fill_category(self, column: Category, cells: ColumnCells, features: np.ndarray) -> None:
        words = column.values or ()
        if column.ordered:
            apart = np.zeros((len(features), len(words) + column.other), features.dtype)
            self._fill_category(replace(column, ordered=False), cells, apart)
            features[:, 0] = apart[:, : len(words)] @ np.linspace(0, 1, len(words), dtype=features.dtype)
            features[:, 1 : 1 + column.other] = apart[:, len(words) :]
            return
        may_be_other = column.other or column.prior is not None
        codes = cells.codes(words, may_be_other=may_be_other, buckets=column.buckets)
        is_other = ~cells.missing & (codes == len(words))
        self._note(cells.name, "another word", is_other)
        has_feature = ~cells.missing & (column.other | ~is_other)
        present = np.flatnonzero(has_feature)
        features[present, codes[present]] = 1
        if column.prior is not None:
            untold = ~has_feature & ~(column.missing & cells.missing)
            features[np.flatnonzero(untold), : len(words)] = column.prior

    def _targets(self, cells: ColumnCells) -> np.ndarray:
        column = self.domain.columns[cells.name]
        cells.forgive(column)
        is_lenient = getattr(column, "lenient", False)
        if cells.missing.any() and not is_lenient:
            cells.refuse_missing()
        if isinstance(column, Label):
            codes = cells.codes(column.values or (), may_be_other=column.other or is_lenient)
            has_class = ~cells.missing & (codes < len(classes_of(column)))
            return np.where(has_class, codes, NO_CLASS)
        assert isinstance(column, (Number, Integer))  # the domain allows no other target
        numbers = cells.numbers(column)
        self._on_numbers(cells.first, cells.name, numbers, cells.missing)
        return np.where(cells.missing, np.nan, np.clip(numbers, *_bounds(column)))


class ColumnCells:
    """The cells of one column in one batch, and the errors about them."""

    def __init__(self, rows: RowBatch, table: Table, domain: Domain, name: str) -> None:
        self.name = name
        self._column, self._ignores_case = rows.batch.column(name), domain.ignore_case
        self.first = rows.first
        self._table = table
        markers = markers_for(domain.columns[name], domain.missing_markers)
        self.missing = missing_cells(self._column, markers)
        self._forgiven = np.zeros(len(self.missing), bool)

    def _reading(self, column: Column) -> Reading:
        return self._table.dialect.reading._replace(has_truth=True, is_date=getattr(column, "date", False))

    def forgive(self, column: Column) -> np.ndarray:
        """Counts cells that are not numbers as missing, where the domain says so; returns which."""
        if isinstance(column, Number) and column.lenient:
            self._forgiven = unreadable_cells(self._column, self.missing, self._reading(column))
            self.missing = self.missing | self._forgiven
        return self._forgiven

    def numbers(self, column: Number | Integer) -> np.ndarray:
        """The cells as float64, 0 where missing; each of them finite."""
        reading = self._reading(column)
        try:
            found = as_numbers(self._column, self.missing, reading)
        except pa.ArrowInvalid:
            row = first_failing(number_text(self._column, self.missing, reading), pa.float64())
            written = self._table.dialect.describe_format()
            advice = advise_on_number(self._column[row].as_py(), reading, written)
            self._refuse(row, "is not a number", advice)
        wrong = ~np.isfinite(found) & ~self.missing
        if wrong.any():
            what = "is not a date" if reading.is_date else "is not a finite number"
            self._refuse(int(wrong.argmax()), what)
        found = np.where(self.missing, 0.0, found)
        if isinstance(column, Integer) and (found != np.floor(found)).any():
            row = int((found != np.floor(found)).argmax())
            self._refuse(row, "is not a whole number", 'Correct the cell, or declare kind = "number".')
        return found

    def codes(self, values: tuple[str, ...], *, may_be_other: bool, buckets: int | None = None) -> np.ndarray:
        """The position of each cell among the values, or its bucket; one past the last for any other word."""
        if buckets is not None:
            return bucket_codes(self._column, buckets, ignores_case=self._ignores_case)
        known, cells = pa.array(values, type=pa.string()), as_words(self._column)
        if self._ignores_case:
            known, cells = compute.utf8_lower(known), compute.utf8_lower(cells)
        found = compute.index_in(cells, value_set=known)
        codes = found.fill_null(len(values)).to_numpy()
        unknown = (codes == len(values)) & ~self.missing
        if not may_be_other and unknown.any():
            what = f"is none of the {len(values)} declared values"
            self._refuse(int(unknown.argmax()), what, "Declare it in the domain, or correct the cell.")
        return codes

    def refuse_missing(self) -> NoReturn:
        row = int(self.missing.argmax())
        remedy = "Declare missing = true for this column, or remove the row."
        said = "cannot be read, so it counts as missing" if self._forgiven[row] else "is missing"
        self._refuse(row, f"{said}, and the domain does not expect that", remedy)

    def _refuse(
        self, row: int, what: str, remedy: str = "Correct the cell, or list it in missing_markers."
    ) -> NoReturn:
        cell = self._column[row].as_py()
        shown = "the cell" if cell is None or cell == "" else quote(cell)
        where = f"{self._table.label}, {self._table.place(self.first + row)}, column {quote(self.name)}"
        raise DataError(f"{where}: {shown} {what}.", remedy=remedy)


def _fill_all(
    encoder: Encoder,
    table: Table,
    x: np.ndarray | RowsInFile,
    y: np.ndarray | RowsInFile | None,
    on_progress: OnProgress,
) -> None:
    filled, step = 0, max(1, _BLOCK // (4 * len(encoder.feature_names)))
    for batch in table.batches(encoder.columns):
        for at in range(0, batch.batch.num_rows, step):
            rows = RowBatch(batch.first + at, batch.batch.slice(at, step), batch.done)
            filled = rows.first + rows.batch.num_rows
            if filled <= len(x):
                here = slice(rows.first, filled)
                blocks = x[here], None if y is None else y[here]
                encoder.fill(rows, table, *blocks)
                for output, block in zip((x, y), blocks, strict=True):
                    if isinstance(output, RowsInFile) and block is not None:
                        output.write(block)
        on_progress(batch.done)
    if filled != len(x):
        raise DataError(f"{table.label} changed while it was read.", remedy="Try again once it is complete.")


def _has_fallback(column: Column) -> bool:
    """Whether a missing cell of this column counts as something that all rows have in part."""
    return getattr(column, "typical", None) is not None or getattr(column, "prior", None) is not None


def _scale(numbers: np.ndarray, column: Number | Integer) -> np.ndarray:
    low, high = _bounds(column)
    middle, half = low / 2 + high / 2, high / 2 - low / 2  # halved first: their sum may overflow
    if half == 0:
        return np.zeros_like(numbers)
    return np.clip((np.clip(numbers, low, high) - middle) / half, -1, 1)


def _bounds(column: Number | Integer) -> tuple[float, float]:
    assert column.bounds is not None  # checked when the encoder was made
    return float(column.bounds[0]), float(column.bounds[1])


def _names_of(name: str, column: Column) -> list[str]:
    if isinstance(column, Featured):
        return [f"{name} ({number})" for number in range(1, column.width + 1)]
    if isinstance(column, Category):
        names = [name] if column.ordered else [f"{name} = {value}" for value in column.values or ()]
        names += [f"{name} = (other)"] * column.other
    else:
        names = [name]
    return names + [f"{name} = (missing)"] * getattr(column, "missing", False) + _part_names(name, column)


def _part_names(name: str, column: Column) -> list[str]:
    """The features of the month and the weekday of a date."""
    parts = column.parts if isinstance(column, Number) else ()
    return [f"{name} ({part}) = {value}" for part in parts for value in DATE_PARTS[part]]


def _fill_parts(column: Number | Integer, cells: ColumnCells, features: np.ndarray) -> None:
    """Marks the month and the weekday of each date; those of a missing one are not known."""
    at, present = 0, np.flatnonzero(~cells.missing)
    for part in column.parts if isinstance(column, Number) else ():
        codes = part_codes(cells.numbers(column), part)
        features[present, at + codes[present]] = 1
        at += len(DATE_PARTS[part])
