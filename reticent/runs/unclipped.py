"""Held-out numbers as they are in the table, before bounds clip them: a model is scored against these.

Training sees clipped numbers only. A score against clipped targets would hide every row outside the bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from reticent.data.domain import Domain, Integer, Number
from reticent.runs.users import RowSplit


class HeldOutNumbers(NamedTuple):
    """What a process saw in its held-out rows. Private, like the rows.

    Args:
        targets: one per held-out row that has a target; None where classes are predicted.
        outside, present: by column, how many cells lie outside the bounds, and how many there are.
    """

    targets: np.ndarray | None = None
    outside: Mapping[str, int] = {}
    present: Mapping[str, int] = {}


NO_NUMBERS = HeldOutNumbers()


class Unclipped:
    """Collects the numbers of held-out rows while a table is encoded: `see` is called with every batch.

    Args:
        first: how many rows of other processes come before those of this table.
    """

    def __init__(self, domain: Domain, split: RowSplit, *, first: int) -> None:
        self.outside: Counter[str] = Counter()
        self.present: Counter[str] = Counter()
        self._domain, self._split, self._first = domain, split, first
        self._targets: list[np.ndarray] = []

    def see(self, row: int, name: str, numbers: np.ndarray, missing: np.ndarray) -> None:
        """Numbers of a column from this row on; see `encoding.OnNumbers`."""
        is_held_out = self._split.is_held_out(self._first + row, len(numbers))
        column = self._domain.columns[name]
        assert isinstance(column, (Number, Integer))
        assert column.bounds is not None
        low, high = column.bounds
        known = is_held_out & ~missing
        self.present[name] += int(np.count_nonzero(known))
        self.outside[name] += int(np.count_nonzero(known & ((numbers < low) | (numbers > high))))
        if name == self._domain.target:
            self._targets.append(np.where(missing, np.nan, numbers)[is_held_out])

    def take_targets(self) -> np.ndarray | None:
        """The targets of the held-out rows seen since the last call, in their order; None for classes."""
        if not isinstance(self._domain.columns[self._domain.target or ""], (Number, Integer)):
            return None
        found = np.concatenate([np.zeros(0), *self._targets])
        self._targets.clear()
        return found
