"""Rows as numbers, by a domain.

What a row becomes depends on that row and on the domain, on nothing else: no mean, no maximum, no
list of words is taken from the data. So encoding by a public domain costs no privacy, and a record
moves only its own row.

    number, integer     clipped to the bounds, scaled to [-1, 1]; 0 where missing
    a target            a class counted from 0, or -1 for none; a number, or NaN for none
    category            one feature a word, 1 where the cell is that word; one more for any other word
    missing cells       a feature of their own, 1 where the cell is missing
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError, DomainError
from reticent.core.files import open_new
from reticent.core.observer import OnProgress
from reticent.data.arrow_cells import (
    as_numbers,
    as_words,
    compute,
    first_failing,
    missing_cells,
    number_text,
    unreadable_cells,
)
from reticent.data.dataset import Dataset
from reticent.data.domain import Category, Column, Domain, Integer, Label, Number
from reticent.data.files import RowBatch, Table
from reticent.data.kinds import classes_of, quote

_BLOCK = 16 << 20  # bytes of features that are filled at once

NO_CLASS = -1  # of a row whose label is missing, or none of the classes, where the domain is lenient


def encode(
    table: Table,
    domain: Domain,
    *,
    target: str | None = None,
    into: str | os.PathLike[str] | None = None,
    on_progress: OnProgress = lambda done: None,
    forgiven: Counter[str] | None = None,
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
        forgiven: receives how many cells of each feature were not numbers and counted as missing.

    Edge cases:
        a number outside the bounds        clipped to them
        bounds of a single value           a feature of zeros
        a missing cell                     a feature of its own if the domain declares missing; else DataError
        a word that is not declared        the feature of other words if the domain has one; else DataError
        NaN, infinity, text for a number   DataError, or missing if the column is lenient

    Raises:
        DomainError: a column has no declared bounds or values.
        DataError: a cell is not what the domain says; the message names file, line and column.
    """
    if target is not None:
        table.require([target])
        domain = domain.with_target(target)
    encoder = Encoder(domain)
    table.require(encoder.columns)
    with ExitStack() as unfinished:
        x = _blank(table, (table.row_count, len(encoder.feature_names)), np.float32, into, "x", unfinished)
        outputs, y = {"x": x}, None
        if domain.target is not None:
            kind = np.int32 if isinstance(domain.columns[domain.target], Label) else np.float32
            y = outputs["y"] = _blank(table, (table.row_count,), kind, into, "y", unfinished)
        _fill_all(encoder, table, x, y, on_progress)
        if forgiven is not None:
            forgiven.update(encoder.forgiven)
        for output in outputs.values():
            if isinstance(output, _RowsInFile):
                output.finish()
        unfinished.pop_all()
    arrays = {name: out.publish() if isinstance(out, _RowsInFile) else out for name, out in outputs.items()}
    return Dataset(arrays=arrays, name=table.path.name)


def has_target(y: np.ndarray) -> np.ndarray:
    """Which rows have a class or a number to learn."""
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
        forgiven: how many cells of each feature were not numbers and counted as missing.

    Raises:
        DomainError: a column has no declared bounds or values, or no column is a feature.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.forgiven: Counter[str] = Counter()
        _require_declared(domain)
        self._features = {
            name: column
            for name, column in domain.columns.items()
            if name != domain.target and isinstance(column, (Number, Integer, Category))
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
            cells = ColumnCells(rows, table, self.domain, name)
            if count := cells.forgive(column):
                self.forgiven[name] += count
            width = len(_names_of(name, column))
            features = x[:, at : at + width]  # (rows, features of this column)
            at += width
            if column.missing:
                features[cells.missing, -1] = 1
            elif cells.missing.any():
                cells.refuse_missing()
            if isinstance(column, Category):
                _fill_category(column, cells, features)
            else:
                features[:, 0] = np.where(cells.missing, 0, _scale(cells.numbers(column), column))
        if y is not None and self.domain.target is not None:
            y[:] = self._targets(ColumnCells(rows, table, self.domain, self.domain.target))

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
        return np.where(cells.missing, np.nan, np.clip(cells.numbers(column), *_bounds(column)))


class ColumnCells:
    """The cells of one column in one batch, and the errors about them."""

    def __init__(self, rows: RowBatch, table: Table, domain: Domain, name: str) -> None:
        self.name = name
        self._column = rows.batch.column(name)
        self._first = rows.first
        self._table = table
        self.missing = missing_cells(self._column, domain.missing_markers)

    def forgive(self, column: Column) -> int:
        """Counts cells that are not numbers as missing, where the domain says so; returns how many."""
        if not isinstance(column, Number) or not column.lenient:
            return 0
        wrong = unreadable_cells(self._column, self.missing, decimal=self._table.dialect.decimal)
        before, self.missing = self.missing, self.missing | wrong
        return int(np.count_nonzero(self.missing) - np.count_nonzero(before))

    def numbers(self, column: Number | Integer) -> np.ndarray:
        """The cells as float64, 0 where missing; each of them finite."""
        decimal = self._table.dialect.decimal
        try:
            found = as_numbers(self._column, self.missing, decimal=decimal)
        except pa.ArrowInvalid:
            text = number_text(self._column, self.missing, decimal=decimal)
            self._refuse(first_failing(text, pa.float64()), "is not a number")
        wrong = ~np.isfinite(found) & ~self.missing
        if wrong.any():
            self._refuse(int(wrong.argmax()), "is not a finite number")
        found = np.where(self.missing, 0.0, found)
        if isinstance(column, Integer) and (found != np.floor(found)).any():
            row = int((found != np.floor(found)).argmax())
            self._refuse(row, "is not a whole number", 'Correct the cell, or declare kind = "number".')
        return found

    def codes(self, values: tuple[str, ...], *, may_be_other: bool) -> np.ndarray:
        """The position of each cell among the values; one past the last for any other word."""
        known = pa.array(values, type=pa.string())
        found = compute.index_in(as_words(self._column), value_set=known)
        codes = found.fill_null(len(values)).to_numpy()
        unknown = (codes == len(values)) & ~self.missing
        if not may_be_other and unknown.any():
            what = f"is none of the {len(values)} declared values"
            self._refuse(int(unknown.argmax()), what, "Declare it in the domain, or correct the cell.")
        return codes

    def refuse_missing(self) -> NoReturn:
        row = int(self.missing.argmax())
        remedy = "Declare missing = true for this column, or remove the row."
        self._refuse(row, "is missing, and the domain does not expect that", remedy)

    def _refuse(
        self, row: int, what: str, remedy: str = "Correct the cell, or list it in missing_markers."
    ) -> NoReturn:
        cell = self._column[row].as_py()
        shown = "the cell" if cell is None or cell == "" else quote(cell)
        where = f"{self._table.path}, {self._table.place(self._first + row)}, column {quote(self.name)}"
        raise DataError(f"{where}: {shown} {what}.", remedy=remedy)


def _fill_all(
    encoder: Encoder,
    table: Table,
    x: np.ndarray | _RowsInFile,
    y: np.ndarray | _RowsInFile | None,
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
                    if isinstance(output, _RowsInFile) and block is not None:
                        output.write(block)
        on_progress(batch.done)
    if filled != len(x):
        raise DataError(f"{table.path} changed while it was read.", remedy="Try again once it is complete.")


def _fill_category(column: Category, cells: ColumnCells, features: np.ndarray) -> None:
    codes = cells.codes(column.values or (), may_be_other=column.other)
    present = np.flatnonzero(~cells.missing)
    features[present, codes[present]] = 1


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
    if isinstance(column, Category):
        names = [f"{name} = {value}" for value in column.values or ()]
        names += [f"{name} = (other)"] * column.other
    else:
        names = [name]
    return names + [f"{name} = (missing)"] * getattr(column, "missing", False)


def _require_declared(domain: Domain) -> None:
    pending = domain.undeclared()
    if pending:
        what = " and ".join(sorted({key.rpartition(".")[2] for key in pending}))
        names = [key.rpartition(".")[0] for key in pending]
        raise DomainError(
            f"Cannot encode: {len(pending)} of {len(domain.columns)} columns of {domain.source} "
            f"have no declared {what} ({', '.join(names)}).",
            remedy="Declare them in a domain file (reticent domain TABLE -o FILE), "
            "or let a part of the budget find them: --prepare private.",
        )


def _blank(
    table: Table, shape: tuple[int, ...], kind: type, into: object, name: str, unfinished: ExitStack
) -> np.ndarray | _RowsInFile:
    """Zeros in memory, or an unfinished file that is removed if anything fails."""
    try:
        if into is None:
            return np.zeros(shape, dtype=kind)
        path = Path(str(into)) / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        output = _RowsInFile(path, shape, kind)
        unfinished.callback(output.discard)
        return output
    except (MemoryError, OSError, ValueError) as error:
        size = int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize
        raise DataError(
            f"{table.path} needs {size / 1e9:.3g} GB once it is encoded, and does not fit.",
            remedy="Encode it into a folder on a larger disk (into=...), or ignore some columns.",
        ) from error


class _RowsInFile:
    """An array that is written into a file from its first row to its last.

    It is written and not mapped: the pages of a map would count as this process's memory, and a disk that
    is full would end the process with a signal.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], kind: type) -> None:
        self._path, self._partial = path, path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        self._shape, self._kind = shape, kind
        self._file = open_new(self._partial)
        header = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Zeros for these rows, to be filled and written."""
        return np.zeros((rows.stop - rows.start, *self._shape[1:]), dtype=self._kind)

    def write(self, rows: np.ndarray) -> None:
        with self._report_failure():
            self._file.write(rows.data)

    def finish(self) -> None:
        with self._report_failure():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        with suppress(OSError):  # what could not be written cannot be written at closing either
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def publish(self) -> np.ndarray:
        os.replace(self._partial, self._path)
        return np.load(self._path, mmap_mode="r")

    @contextmanager
    def _report_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"Cannot write {self._path}: {error.strerror}.",
                remedy="Encode into a folder on another disk.",
            ) from error
