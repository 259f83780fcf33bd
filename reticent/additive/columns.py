"""How the features of a row are grouped into columns, and the cell of each column that a row is in.

A number within [-1, 1] has 2,049 cells of equal width, and one more where it is missing. A category has one
cell per feature, and one more where none of them is 1. The cells of a row depend on that row alone.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.core.errors import InvalidArgument

NUMBER, MAY_BE_MISSING = -1, -2  # kinds of columns; a category has the number of its features instead
STEPS = 2048  # of a number's range: numbers are rounded to the nearest
NUMBER_CELLS = STEPS + 2  # the last one is for missing cells


@dataclass(frozen=True)
class Columns:
    """The columns of an encoded table, in order.

    Args:
        kinds: -1 for a number, which is one feature; -2 for a number followed by a feature that is 1 where it
            is missing; otherwise a category's number of features, of which at most one is 1.

    Example:
        >>> Columns((-1, 3)).cells_of([[0.0, 0, 1, 0], [9.0, 0, 0, 0]]).tolist()
        [[1024, 1], [2048, 3]]
    """

    kinds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.kinds or any(kind == 0 or kind < MAY_BE_MISSING for kind in self.kinds):
            raise InvalidArgument(
                f"{self.kinds} are not the kinds of columns.",
                remedy="Pass -1 for a number, -2 for one that may be missing, or how many words there are.",
            )

    @classmethod
    def of_numbers(cls, count: int) -> Columns:
        """The columns of a table that holds this many numbers."""
        return cls((NUMBER,) * count)

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many features each column has."""
        return tuple(kind if kind > 0 else -kind for kind in self.kinds)

    @property
    def features(self) -> int:
        return sum(self.widths)

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has."""
        return tuple(kind + 1 if kind > 0 else NUMBER_CELLS for kind in self.kinds)

    @property
    def cells(self) -> int:
        return sum(self.sizes)

    @functools.cached_property
    def firsts(self) -> np.ndarray:
        """Where the cells of each column begin among all cells."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int32)

    def is_number(self, column: int) -> bool:
        return self.kinds[column] < 0

    def cells_of(self, x: Any, module: Any = np) -> Any:
        """The cell of each column that a row is in: int32, of shape (rows, columns).

        Args:
            x: features of shape (rows, features). NaN is missing, and infinity is the end of the range.
            module: `numpy`, or `jax.numpy` inside a model.
        """
        x, found, at = module.asarray(x), [], 0
        for kind, width in zip(self.kinds, self.widths, strict=True):
            part, at = x[:, at : at + width], at + width
            if kind > 0:
                is_one = part > 0.5
                place = module.minimum((is_one * module.arange(kind)).sum(axis=1), kind - 1)
                found.append(module.where(is_one.any(axis=1), place, kind))
                continue
            number = part[:, 0]
            is_missing = module.isnan(number)
            if kind == MAY_BE_MISSING:
                is_missing = is_missing | (part[:, 1] > 0.5)
            inside = module.clip(module.where(is_missing, 0.0, number), -1.0, 1.0)
            cell = module.rint((inside + 1.0) * (STEPS / 2)).astype("int32")
            found.append(module.where(is_missing, STEPS + 1, cell))
        return module.stack(found, axis=1).astype("int32")
