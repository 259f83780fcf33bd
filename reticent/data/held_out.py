"""Which rows of a table are held out, decided by public numbers alone.

Whoever reads a part of a table, on whichever machine, must come to the same answer as everybody else, and
a table may have more rows than any machine has memory for. So rows are cut into blocks, and each block draws
its own held-out rows from the seed and its number: to know about some rows is to draw the blocks they lie in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument

BLOCK = 1 << 16  # rows


class Split(NamedTuple):
    """Exactly `held_out` of `rows` rows, spread evenly over the table.

    Nothing about the data enters: the number of rows, the number held out and the seed are public, and a
    row's fate does not depend on what is in it.

    Guarantee:
        Block [s, e) holds out floor(e*h/n) - floor(s*h/n) rows, whatever the seed, and each set of that many
        rows in it is equally likely (up to chance ties of 48 random bits). The bits are raw output of
        PCG64, which stays the same from one NumPy to the next.

    Example:
        >>> split = Split(rows=1_000_000_000, held_out=10_000, seed=0)
        >>> int(split.is_held_out(500_000_000, 100_000).sum())
        2
        >>> split.before(1_000_000_000)
        999990000
    """

    rows: int
    held_out: int
    seed: int

    def is_held_out(self, first: int, count: int) -> np.ndarray:
        """A mask for the rows from `first` to `first + count - 1`: (count,) bool."""
        self._check()
        checks.count(minimum=0, first=first, count=count)
        if first + count > self.rows:
            raise InvalidArgument(
                f"Rows {first} to {first + count} were asked for, and there are {self.rows}.",
                remedy="Ask for rows that the split was made for.",
            )
        mask = np.zeros(count, dtype=bool)
        for block in range(first // BLOCK, -(-(first + count) // BLOCK)):
            start = block * BLOCK
            low, high = max(first, start), min(first + count, start + BLOCK)
            mask[low - first : high - first] = _drawn(self, block)[low - start : high - start]
        return mask

    def before(self, row: int) -> int:
        """How many of the rows before this one are trained on; `before(rows)` counts all of them."""
        self._check()
        checks.count(minimum=0, row=row)
        if row > self.rows:
            raise InvalidArgument(
                f"Row {row} was asked for, and there are {self.rows}.",
                remedy="Ask for a row that the split was made for.",
            )
        block, inside = divmod(int(row), BLOCK)
        held_out = self._held_out_before(block)
        if inside:
            held_out += int(np.count_nonzero(_drawn(self, block)[:inside]))
        return int(row) - held_out

    def _held_out_before(self, block: int) -> int:
        return min(block * BLOCK, int(self.rows)) * int(self.held_out) // max(1, int(self.rows))

    def _check(self) -> None:
        checks.count(minimum=0, rows=self.rows, held_out=self.held_out, seed=self.seed)
        if self.held_out > self.rows:
            raise InvalidArgument(
                f"Cannot hold out {self.held_out} of {self.rows} rows.", remedy="Hold out fewer rows."
            )


@lru_cache(maxsize=4)  # neighbouring batches ask for the same block again
def _drawn(split: Split, block: int) -> np.ndarray:
    """Which rows of a block are held out: those with the smallest keys."""
    size = min(BLOCK, split.rows - block * BLOCK)
    held_out = split._held_out_before(block + 1) - split._held_out_before(block)
    mask = np.zeros(size, dtype=bool)
    if held_out:
        # A row's own number in the lowest 16 bits: no two keys are equal, so exactly so many are drawn.
        random = np.random.PCG64([split.seed, block]).random_raw(size) >> np.uint64(16) << np.uint64(16)
        keys = random | np.arange(size, dtype=np.uint64)
        mask = keys <= np.partition(keys, held_out - 1)[held_out - 1]
    return mask
