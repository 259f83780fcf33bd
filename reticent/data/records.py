"""Map-style sources: anything that has a length and gives its record number i.

`torch.utils.data.Dataset`, `datasets.Dataset` of Hugging Face, a Grain `MapDataset` or data source, a list of
records. Private batches are drawn by number, each record by a coin of its own. So a source that only gives
its records one after the other cannot be used, and the refusal says what to do instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from reticent.core.errors import DataError
from reticent.data.columns import as_column, library_of
from reticent.data.lazy_rows import LazyColumn

ONE_BY_ONE = "each record of the source is read from one record of the data, and from nobody else's"
ONE_KIND = "every record of the source can be read, and their shape and kind are public"

_Columns = dict[str, np.ndarray]
_Read = Callable[[np.ndarray], _Columns]


class RecordReader:
    """Records of a map-style source by their numbers, as rows of named arrays.

    Every part has the shape and kind that it has in the first record. A record that differs is an error.

    Args:
        names: which parts of a record to take, or what to call the parts of a tuple.
    """

    def __init__(self, source: Any, name: str, names: Sequence[str] | None = None) -> None:
        self._name, self._length = name, _length_of(source, name)
        self._names = None if names is None else tuple(names)
        self._read = self._in_columns(source) if _is_hugging_face(source) else self._one_by_one(source)
        self._like: _Columns = {}
        self._like = self._read(np.zeros(1, np.int64))
        self._names = tuple(self._like)  # every record has the parts of the first

    def __len__(self) -> int:
        return self._length

    def columns(self) -> dict[str, LazyColumn]:
        return {key: LazyColumn(self, key, array.shape[1:], array.dtype) for key, array in self._like.items()}

    def read(self, rows: np.ndarray, keys: Sequence[str]) -> _Columns:
        if not len(rows):
            return {key: self._like[key][:0] for key in keys}
        found = self._read(rows)
        return {key: found[key] for key in keys}

    def _one_by_one(self, source: Any) -> _Read:
        many = getattr(source, "__getitems__", None)  # of torch: many records in one call

        def read(rows: np.ndarray) -> _Columns:
            numbers = rows.tolist()
            records = (source[number] for number in numbers) if many is None else many(numbers)
            # Each is copied before the next is asked for: a source may hand out one buffer again and again.
            found = [self._parts(record, number) for record, number in zip(records, numbers, strict=True)]
            return {key: np.stack([parts[key] for parts in found]) for key in found[0]}

        return read

    def _in_columns(self, source: Any) -> _Read:
        """Reads a `datasets.Dataset`, which gives many records as columns. A format somebody set is kept."""
        if source.format["type"] is None:
            source = source.with_format("numpy")

        def read(rows: np.ndarray) -> _Columns:
            columns = self._name_parts(source[rows.tolist()], int(rows[0]))
            where = f"among the records {rows.min()} to {rows.max()}"
            found = {key: self._numbers(value, key) for key, value in columns.items()}
            return {key: self._as_first(array, key, where, (len(rows),)) for key, array in found.items()}

        return read

    def _parts(self, record: Any, row: int) -> _Columns:
        """A copy of the parts of one record, each brought to its kind without a look at other records."""
        named = {key: self._numbers(value, key) for key, value in self._name_parts(record, row).items()}
        return {key: self._as_first(array, key, f"in record {row}") for key, array in named.items()}

    def _as_first(self, array: np.ndarray, key: str, where: str, rows: tuple[int, ...] = ()) -> np.ndarray:
        """A copy, with the shape and kind of the first record."""
        if not self._like:
            return array.copy()
        like = self._like[key]
        if array.shape != rows + like.shape[1:] or not np.can_cast(array.dtype, like.dtype, "same_kind"):
            raise DataError(
                f"Part '{key}' is {array.dtype}{list(array.shape[len(rows) :])} {where} of '{self._name}', "
                f"and {like.dtype}{list(like.shape[1:])} in the first record.",
                remedy="Bring all records to one shape and kind.",
            )
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is infinite, and no warning
            return array.astype(like.dtype)

    def _name_parts(self, record: Any, row: int) -> Mapping[str, Any]:
        """A record, or many in columns, as named parts."""
        if isinstance(record, Mapping):
            if missing := [key for key in self._names or () if key not in record]:
                raise DataError(
                    f"Record {row} of '{self._name}' has no part '{missing[0]}'.",
                    remedy=f"Its parts: {', '.join(map(str, record))}.",
                )
            return {key: record[key] for key in (self._names or record)}
        if isinstance(record, tuple | list) and self._names is not None and len(record) == len(self._names):
            return dict(zip(self._names, record, strict=True))
        if isinstance(record, tuple | list):
            example = ", ".join(f"'{key}'" for key in ("x", "y", "z", *"abcdefgh")[: len(record)])
            raise DataError(
                f"Record {row} of '{self._name}' has {len(record)} parts without names.",
                remedy=f"Name them as the loss reads them: rt.Dataset(source, names=[{example}]).",
            )
        what = "is filtered out" if record is None else f"is {type(record).__name__}, without named parts"
        raise DataError(
            f"Record {row} of '{self._name}' {what}.",
            remedy="Give a source whose every record is a dict of arrays, or a tuple with names=[...].",
        )

    def _numbers(self, value: Any, key: str) -> np.ndarray:
        array = np.asarray(as_column(value, self._name, key))
        if array.dtype.kind in "OUSMmV" and array.dtype.name != "bfloat16":
            raise DataError(
                f"Part '{key}' of the records of '{self._name}' is not an array of numbers: it is text, "
                "a date, or of a different length in each record.",
                remedy="Take the others with names=[...], or turn it into numbers of one shape.",
            )
        return array


def refuse_iterable(source: Any, name: str) -> DataError:
    """Why a source that gives its records one after the other cannot be drawn from, and what to do."""
    if is_query(source):
        return DataError(f"{name} is a query that was not run.", remedy="Pass query.collect().")
    if library_of(source) == "torch" and hasattr(source, "dataset"):
        remedy = f"Pass what it loads from: {type(source).__name__}.dataset. reticent reads ahead by itself."
    elif library_of(source) == "tensorflow":
        remedy = "Collect it once: list(dataset.as_numpy_iterator()), or write its records to a memory map."
    else:
        remedy = (
            "Pass something with a length and an index, such as a list, or write the records to a memory map "
            "once: numpy.lib.format.open_memmap."
        )
    return DataError(
        f"{name} is {type(source).__name__}, which gives records one after the other. Private batches are "
        "drawn by number, each record by a coin of its own: that is what the guarantee counts on, and "
        "shuffling a stream does not replace it.",
        remedy=remedy,
    )


def is_query(source: Any) -> bool:
    """Whether it is a frame of Polars whose rows are not computed yet."""
    return library_of(source) == "polars" and type(source).__name__ == "LazyFrame"


def is_map_style(source: Any) -> bool:
    """Whether it has a length and an index; a stream of torch inherits an index that only raises."""
    has_both = hasattr(type(source), "__len__") and hasattr(type(source), "__getitem__")
    return has_both and not _is_stream(source) and not isinstance(source, str | bytes)


def is_iterable(source: Any) -> bool:
    known = library_of(source) in {"torch", "grain", "datasets"} or _is_stream(source)
    return (isinstance(source, Iterable) and not isinstance(source, str | bytes)) or known


def _is_stream(source: Any) -> bool:
    return any(parent.__name__ == "IterableDataset" for parent in type(source).__mro__)


def _length_of(source: Any, name: str) -> int:
    count = len(source)
    if count == 0:
        raise DataError(f"'{name}' has no records.", remedy="Give at least one.")
    if count >= sys.maxsize:
        raise DataError(
            f"'{name}' repeats endlessly, and a record that comes twice counts twice.",
            remedy="Leave out repeat(): the plan says how often records are drawn.",
        )
    return count


def _is_hugging_face(source: Any) -> bool:
    return library_of(source) == "datasets" and hasattr(source, "with_format")
