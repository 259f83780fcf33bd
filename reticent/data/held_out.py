"""Which rows of a table are held out: each by its own secret coin.

Coins come from one secret seed, by the number of a row, so that several processes that read parts of a table
agree without talking, and so that a later command finds the same rows again. They are drawn block by block:
to know about some rows is to draw the blocks they lie in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream, step_key

BLOCK = 1 << 16  # rows
SEED_BYTES = 16
_STEP = 2**31 - 1  # the last one of its stream; preparation takes the first


@dataclass(frozen=True, kw_only=True)
class Split:
    """Every row, or every user, is held out with probability `share`, independently of all others.

    Args:
        share: from 0 up to, not including, 1; rounded down to a multiple of 2^-64.
        seed: of the coins, 128 bits. Secret: it is stored apart from what is released.

    Guarantee:
        What is private for every set of rows it may be trained on stays private, at the same cost and under
        the same adjacency. Let D' be D without one row, and let each other row carry the same coin in both.
        Coins are independent and alike, so those of D' have the law that they should have. For every outcome
        the two training sets are equal, if the row is held out, or differ in that row alone: the outputs then
        obey P(S) <= e^epsilon Q(S) + delta, in both directions. Averaged over the coins, which are
        independent of the data, the inequality still holds, for it is linear in P and Q. Replacing a row is
        the same with one coin for both versions. Coins that are known would prove nothing, for they go with
        the numbers of rows: every row behind the missing one would have another coin.

    Example:
        >>> split = Split(share=0.2, seed=0)
        >>> int(split.is_held_out(500_000_000, 100_000).sum())
        19751
        >>> split
        Split(share=0.2)
    """

    share: float
    seed: int = field(repr=False)

    def __post_init__(self) -> None:
        require_share(self.share)
        checks.count(minimum=0, seed=self.seed)
        if not (self.seed < 1 << 8 * SEED_BYTES):
            raise InvalidArgument(
                f"The seed of a split has at most {8 * SEED_BYTES} bits.", remedy="Draw one: Split.draw."
            )

    @classmethod
    def draw(cls, share: float, keys: Keys) -> Split:
        """Draws a new split, from keys that have drawn none before."""
        root = keys.take(Stream.PREPARATION, steps=range(_STEP, _STEP + 1))
        words = np.asarray(jax.random.key_data(step_key(root, _STEP))).astype("<u4")
        return cls(share=share, seed=int.from_bytes(words.tobytes(), "little"))

    def is_held_out(self, first: int, count: int) -> np.ndarray:
        """A mask for the rows from `first` to `first + count - 1`: (count,) bool."""
        return np.concatenate([np.zeros(0, bool), *self._pieces(first, count)])

    def count_trained_on(self, first: int, count: int) -> int:
        """How many of these rows are not held out. Private, as the coins are."""
        return count - sum(int(np.count_nonzero(piece)) for piece in self._pieces(first, count))

    def of_users(self, users: np.ndarray) -> np.ndarray:
        """A mask for rows that belong to users, (rows,) bool: one coin for all the rows of a user."""
        names, whose = np.unique(users, return_inverse=True)
        return self.is_held_out(0, len(names))[whose]

    def _pieces(self, first: int, count: int) -> Iterator[np.ndarray]:
        checks.count(minimum=0, first=first, count=count)
        for block in range(first // BLOCK, -(-(first + count) // BLOCK)):
            start = block * BLOCK
            yield _draw_block(self, block)[max(first - start, 0) : first + count - start]


def expected_rows(rows: int, share: float) -> int:
    """How many rows are expected to be left to train on: public if the number of rows is.

    >>> expected_rows(1000, 0.2)
    800
    """
    require_share(share)
    return rows - round(share * rows)


def require_share(share: float) -> None:
    """
    Raises:
        InvalidArgument: the share is negative, or leaves no rows to train on.
    """
    if not (0 <= share < 1):
        raise InvalidArgument(
            f"{share:g} is not a share of the rows to hold out.",
            remedy="Pass a number from 0 to below 1, such as 0.2.",
        )


@lru_cache(maxsize=4)  # neighbouring batches ask for the same block again
def _draw_block(split: Split, block: int) -> np.ndarray:
    """Which rows of a block are held out: whole-number comparisons with 64 random bits."""
    is_held_out = _coins(split.seed, block) < np.uint64(int(split.share * 2.0**64))
    is_held_out.flags.writeable = False
    return is_held_out


def _coins(seed: int, block: int) -> np.ndarray:
    """One coin per row of a block: raw output of Philox, which is the same in every version of NumPy."""
    return np.random.Philox(key=seed, counter=block << 64).random_raw(BLOCK)
