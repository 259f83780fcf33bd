"""Columns whose rows are read when they are asked for: sparse matrices, arrays in files, records of a source.

To whoever asks for its shape and kind, such a column is an array. Its rows are read by their numbers, and the
columns of one source are read together, so that a record is opened once for all of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.errors import DataError, InvalidArgument

_AT_ONCE = 4096  # rows that are read in one call where all are wanted


class RowReader(Protocol):
    """Something that finds rows by their numbers."""

    def __len__(self) -> int: ...

    def read(self, rows: np.ndarray, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """These rows of these columns, in this order."""
        ...


class LazyColumn:
    """One column of a reader: the shape and the kind of an array, and rows when they are asked for.

    Args:
        shape: of one row.
    """

    def __init__(self, reader: RowReader, key: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.reader, self.key, self.dtype = reader, key, np.dtype(dtype)
        self.shape = (len(reader), *shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """What all rows would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: ArrayLike) -> np.ndarray:
        numbers = row_numbers(rows, len(self))
        found = self.reader.read(np.atleast_1d(numbers), [self.key])[self.key]
        return found if numbers.ndim else found[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = read_all({self.key: self})[self.key]
        return found if dtype is None else found.astype(dtype)

    def with_reader(self, reader: RowReader) -> LazyColumn:
        """The same column of another reader, which has the same columns."""
        return LazyColumn(reader, self.key, self.shape[1:], self.dtype)


class Subset:
    """Some of the rows of a reader. Nothing is read before somebody asks for a row."""

    def __init__(self, reader: RowReader, numbers: np.ndarray) -> None:
        self._reader, self._numbers = origin(reader, numbers)

    @property
    def origin(self) -> tuple[RowReader, np.ndarray]:
        return self._reader, self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def read(self, rows: np.ndarray, keys: Sequence[str]) -> dict[str, np.ndarray]:
        return self._reader.read(self._numbers[rows], keys)


class SparseReader:
    """The rows of a scipy matrix, dense when they are asked for.

    Raises:
        DataError: an entry lies outside the matrix; made dense, it would stand in the row of another record.
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix.tocsr()
        try:
            self._matrix.check_format(full_check=True)
        except ValueError as error:
            raise DataError(
                f"The sparse matrix has entries that lie outside it: {error}.",
                remedy="Check its indices against its shape.",
            ) from error

    def __len__(self) -> int:
        return self._matrix.shape[0]

    def read(self, rows: np.ndarray, keys: Sequence[str]) -> dict[str, np.ndarray]:
        dense: np.ndarray = self._matrix[rows].toarray()
        return dict.fromkeys(keys, dense)


class ArrayReader:
    """The rows of an array that lies elsewhere: in an HDF5 file or a Zarr store, for example.

    Such arrays are asked in rising order and for no row twice; HDF5 answers no other question.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.shape[0]

    def read(self, rows: np.ndarray, keys: Sequence[str]) -> dict[str, np.ndarray]:
        wanted, places = np.unique(rows, return_inverse=True)
        by_rows = getattr(self._array, "oindex", self._array)  # what Zarr calls an index of rows
        found = np.asarray(by_rows[wanted]) if len(wanted) else np.asarray(self._array[:0])
        return dict.fromkeys(keys, found[places])


def row_numbers(rows: ArrayLike, count: int) -> np.ndarray:
    """The numbers of the rows that an index of an array stands for; no axis for a single one.

    >>> row_numbers(slice(-2, None), 5).tolist(), row_numbers([True, False], 2).tolist()
    ([3, 4], [0])
    """
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    numbers = np.asarray(rows)
    if numbers.dtype == bool and numbers.shape == (count,):
        return np.flatnonzero(numbers)
    if numbers.size == 0:
        return np.zeros(0, np.int64)
    if numbers.dtype.kind not in "iu" or numbers.ndim > 1:
        raise InvalidArgument(
            f"Rows are {numbers.dtype}{list(numbers.shape)}, not a list of whole numbers.",
            remedy="Pass the rows' numbers, a slice, or a truth value for each row.",
        )
    numbers = np.where(numbers < 0, numbers + count, numbers.astype(np.int64))
    if numbers.min() < 0 or numbers.max() >= count:
        raise InvalidArgument(
            f"A row was asked for that is not there: there are {count}.",
            remedy="Pass numbers from 0 to one less than that.",
        )
    return numbers


def origin(reader: RowReader, numbers: np.ndarray) -> tuple[RowReader, np.ndarray]:
    """Where rows come from in the end, and their numbers there."""
    if isinstance(reader, Subset):
        base, own = reader.origin
        return base, own[numbers]
    return reader, numbers


def share_rows(ours: LazyColumn, theirs: LazyColumn) -> bool:
    """Whether a row of one is a row of the other."""
    base, numbers = origin(ours.reader, np.arange(len(ours)))
    other, others = origin(theirs.reader, np.arange(len(theirs)))
    return base is other and bool(np.isin(numbers, others).any())


def select(arrays: Mapping[str, Any], rows: ArrayLike) -> dict[str, Any]:
    """Some rows of each array; of lazy columns they are noted and not read."""
    subsets: dict[int, Subset] = {}
    chosen: dict[str, Any] = {}
    for key, array in arrays.items():
        if isinstance(array, LazyColumn):
            name = id(array.reader)
            if name not in subsets:
                subsets[name] = Subset(array.reader, row_numbers(rows, len(array)))
            chosen[key] = array.with_reader(subsets[name])
        else:
            chosen[key] = array[rows]
    return chosen


def read_rows(columns: Mapping[str, LazyColumn], rows: np.ndarray) -> dict[str, np.ndarray]:
    """These rows of lazy columns; those of one reader in one call."""
    found: dict[str, np.ndarray] = {}
    for reader in _distinct(column.reader for column in columns.values()):
        names = {key: column.key for key, column in columns.items() if column.reader is reader}
        read = reader.read(rows, sorted(set(names.values())))
        found |= {key: read[inner] for key, inner in names.items()}
    return found


def read_all(columns: Mapping[str, LazyColumn]) -> dict[str, np.ndarray]:
    """All rows of lazy columns of one length, in memory."""
    out = {key: np.empty(column.shape, column.dtype) for key, column in columns.items()}
    count = max((len(column) for column in columns.values()), default=0)
    for start in range(0, count, _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, count))
        for key, found in read_rows(columns, rows).items():
            out[key][rows] = found
    return out


def _distinct(readers: Iterable[RowReader]) -> list[RowReader]:
    return list({id(reader): reader for reader in readers}.values())
