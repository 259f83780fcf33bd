"""A dataset: named arrays with one row per record, and the unit whose privacy is at stake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from reticent.core.errors import DataError, suggest

Unit = Literal["record", "user"]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Named arrays that share their first axis: row i of each is record i.

    Arrays are kept as they are given, so a memory map stays on disk until rows are taken from it.
    Printing a dataset shows shapes only, never values.

    Args:
        arrays: for example `{"x": images, "y": labels}`.
        users: who each record belongs to. Given, privacy is meant for a user with all their records;
            without it, for a single record.
        name: what messages call it.

    Example:
        >>> import numpy as np
        >>> data = Dataset(arrays={"x": np.zeros((3, 2)), "y": np.arange(3)}, name="toys")
        >>> data
        Dataset('toys', 3 rows, unit record, x: float64[3, 2], y: int64[3])
        >>> data.take([2])["y"].tolist()
        [2]
    """

    arrays: Mapping[str, np.ndarray]
    users: np.ndarray | None = field(default=None, repr=False)
    name: str = "data"

    def __post_init__(self) -> None:
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

    def take(self, rows: np.ndarray | slice) -> Dataset:
        """The records at these positions, in this order."""
        users = None if self.users is None else self.users[rows]
        arrays = {key: array[rows] for key, array in self.arrays.items()}
        return Dataset(arrays=arrays, users=users, name=self.name)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{key}: {array.dtype}{list(array.shape)}" for key, array in self.arrays.items())
        return f"Dataset('{self.name}', {len(self)} rows, unit {self.unit}, {shapes})"


def _rows(name: str, key: str, array: np.ndarray) -> int:
    if not getattr(array, "ndim", 0):
        raise DataError(
            f"Array '{key}' of dataset '{name}' has no rows: it is {type(array).__name__}.",
            remedy="Give an array whose first axis counts the records.",
        )
    return len(array)


def as_dataset(data: Dataset | Mapping[str, np.ndarray], name: str) -> Dataset:
    """Turns named arrays into a dataset; returns a dataset as it is.

    Raises:
        DataError: something else, a bare array for example.
    """
    if not isinstance(data, Dataset | Mapping):
        raise DataError(
            f"{name} must be named arrays, got {type(data).__name__}.",
            remedy=f"Name them, as the loss reads them from a row: {name}={{'x': x, 'y': y}}.",
        )
    return data if isinstance(data, Dataset) else Dataset(arrays=dict(data), name=name)
