"""A dataset: named arrays with one row per record, and the unit whose privacy is at stake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from reticent.core.errors import DataError, suggest
from reticent.data.columns import as_column, columns_of, is_array, is_table
from reticent.data.disk_rows import is_on_disk
from reticent.data.lazy_rows import LazyColumn, origin, read_all, read_rows, select, share_rows
from reticent.data.records import (
    ONE_BY_ONE,
    ONE_KIND,
    RecordReader,
    is_iterable,
    is_map_style,
    is_query,
    refuse_iterable,
)
from reticent.mechanisms.adjacency import Unit


class RowSource(Protocol):
    """What training takes rows from: a length, and rows or columns by an index."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


@dataclass(frozen=True, kw_only=True, init=False, repr=False)
class Dataset:
    """Named arrays that share their first axis: row i of each is record i.

    A memory map stays on disk until rows are taken from it, and so do the records of a source. Printing a
    dataset shows shapes only, never values.

    Args:
        arrays: for example `{"x": images, "y": labels}`. Each may be an array of NumPy or JAX, a tensor, a
            column or some columns of a table, a sparse matrix, or an array in a file. Or a whole table of
            pandas, Polars or Arrow. Or a source with a length and an index, such as a
            `torch.utils.data.Dataset`, a `datasets.Dataset` or a Grain `MapDataset`.
        users: who each record belongs to. Given, privacy is meant for a user with all their records;
            without it, for a single record.
        name: what messages call it.
        names: which columns of a table or parts of a record to take, or what to call the parts of a tuple.

    Raises:
        DataError: the rows of one array are more than those of another, a column is not of numbers, or
            records come one after the other and cannot be drawn by number.

    Example:
        >>> import numpy as np
        >>> data = Dataset({"x": np.zeros((3, 2)), "y": np.arange(3)}, name="toys")
        >>> data
        Dataset('toys', 3 rows, unit record, x: float64[3, 2], y: int64[3])
        >>> data.take([2])["y"].tolist()
        [2]
        >>> Dataset([(0.5, 1), (0.25, 0)], names=["x", "y"])
        Dataset('data', 2 rows, unit record, x: float64[2], y: int64[2])
    """

    arrays: Mapping[str, np.ndarray]
    users: np.ndarray | None = field(default=None, repr=False)
    name: str = "data"

    def __init__(
        self,
        arrays: Mapping[str, Any] | RowSource,
        *,
        users: Any = None,
        name: str = "data",
        names: Sequence[str] | None = None,
    ) -> None:
        found = _named_arrays(arrays, name, names)
        object.__setattr__(self, "arrays", found)
        object.__setattr__(self, "users", None if users is None else as_column(users, name, "users"))
        object.__setattr__(self, "name", name)
        self._check_lengths()

    def _check_lengths(self) -> None:
        if not self.arrays:
            raise DataError(
                f"Dataset '{self.name}' has no arrays.", remedy="Give at least one, such as x=features."
            )
        lengths = {key: _rows(self.name, key, array) for key, array in self.arrays.items()}
        if self.users is not None:
            lengths["users"] = _rows(self.name, "users", self.users)
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key}: {rows}" for key, rows in lengths.items())
            raise DataError(
                f"The arrays of dataset '{self.name}' differ in length ({listed}).",
                remedy="Give every array one row per record.",
            )

    @property
    def unit(self) -> Unit:
        return "record" if self.users is None else "user"

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self.arrays:
            raise DataError(f"Dataset '{self.name}' has no array '{key}'.", remedy=suggest(key, self.arrays))
        return self.arrays[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def take(self, rows: Any) -> Dataset:
        """The records at these positions, in this order. Those of a source are noted, and read later."""
        users = None if self.users is None else self.users[rows]
        return Dataset(select(self.arrays, rows), users=users, name=self.name)

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """These rows of every array, in memory; a record of a source is opened once."""
        lazy = {key: array for key, array in self.arrays.items() if isinstance(array, LazyColumn)}
        found = read_rows(lazy, rows)
        return {key: found[key] if key in found else np.asarray(self.arrays[key])[rows] for key in self}

    def load(self) -> Dataset:
        """The same records in memory, those of a source read once."""
        lazy = {key: array for key, array in self.arrays.items() if isinstance(array, LazyColumn)}
        if not lazy:
            return self
        return Dataset({**self.arrays, **read_all(lazy)}, users=self.users, name=self.name)

    @property
    def nbytes(self) -> int:
        """What all arrays take in memory, or would take."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def is_elsewhere(self) -> bool:
        """Whether rows have to be read before they can be used: from a file, or from a source."""
        return any(isinstance(array, LazyColumn) or is_on_disk(array) for array in self.arrays.values())

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee about these rows has to assume beyond a plan."""
        readers = (array.reader for array in self.arrays.values() if isinstance(array, LazyColumn))
        return (ONE_BY_ONE, ONE_KIND) if any(_is_read_by_code(reader) for reader in readers) else ()

    def __repr__(self) -> str:
        shapes = ", ".join(f"{key}: {array.dtype}{list(array.shape)}" for key, array in self.arrays.items())
        return f"Dataset('{self.name}', {len(self)} rows, unit {self.unit}, {shapes})"


def _is_read_by_code(reader: Any) -> bool:
    base, _ = origin(reader, np.zeros(0, np.int64))
    return isinstance(base, RecordReader)


def _named_arrays(data: Any, name: str, names: Sequence[str] | None) -> dict[str, Any]:
    """The arrays of named columns, of a table or of a source of records."""
    if isinstance(data, Mapping):
        return {key: as_column(value, name, key) for key, value in _choose_arrays(data, name, names).items()}
    if is_query(data):
        raise refuse_iterable(data, name)
    if is_table(data):
        return columns_of(data, name, names)
    if is_array(data):
        raise DataError(
            f"{name} must be named arrays, got {type(data).__name__}.",
            remedy=f"Name them, as the loss reads them from a row: {name}={{'x': x, 'y': y}}.",
        )
    if is_map_style(data):
        return dict(RecordReader(data, name, names).columns())
    if is_iterable(data):
        raise refuse_iterable(data, name)
    raise DataError(
        f"{name} must be named arrays, a table or a source of records, got {type(data).__name__}.",
        remedy=f"Name the arrays, as the loss reads them from a row: {name}={{'x': x, 'y': y}}.",
    )


def _choose_arrays(data: Mapping[str, Any], name: str, names: Sequence[str] | None) -> Mapping[str, Any]:
    for key in names or ():
        if key not in data:
            raise DataError(f"'{name}' has no array '{key}'.", remedy=suggest(key, data))
    return data if names is None else {key: data[key] for key in names}


def _rows(name: str, key: str, array: np.ndarray) -> int:
    if not getattr(array, "ndim", 0):
        raise DataError(
            f"Array '{key}' of dataset '{name}' has no rows: it is {type(array).__name__}.",
            remedy="Give an array whose first axis counts the records.",
        )
    return len(array)


def as_dataset(data: Dataset | Mapping[str, Any] | RowSource, name: str) -> Dataset:
    """Turns named arrays, a table or a source into a dataset; returns a dataset as it is.

    Raises:
        DataError: something else, a bare array or an iterator for example.
    """
    return data if isinstance(data, Dataset) else Dataset(data, name=name)


def have_rows_in_common(ours: Any, theirs: Any) -> bool:
    """Whether a row of one array is a row of another; where that is hard to say, whether it may be."""
    if isinstance(ours, LazyColumn) or isinstance(theirs, LazyColumn):
        both = isinstance(ours, LazyColumn) and isinstance(theirs, LazyColumn)
        return both and share_rows(ours, theirs)
    try:
        return np.shares_memory(np.asarray(ours), np.asarray(theirs), max_work=1_000_000)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True
