"""Who teaches whom: every record is put into exactly one shard, and each shard has its own teacher."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

_FEWER = "Ask for fewer teachers"
_OWN_STREAM = 8051


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Disjoint sets of records, one a teacher. Says who is where: never to be published.

    Args:
        shard_of: (rows,) the shard of every record.
        teachers: how many shards there are.
        capacity: room for the records of a shard; those beyond teach nobody. A public number: if it were the
            size of the largest shard, a record there would change how sums are rounded for every teacher.
    """

    shard_of: np.ndarray
    teachers: int
    capacity: int

    @cached_property
    def sizes(self) -> np.ndarray:
        """(teachers,) how many records each has."""
        return np.bincount(self.shard_of, minlength=self.teachers)

    @cached_property
    def indices(self) -> np.ndarray:
        """(teachers, capacity) int32: the records of every shard; record 0 where not `is_real`."""
        padded = np.zeros((self.teachers, self.capacity), np.int32)
        ordered = np.argsort(self.shard_of, kind="stable")
        ends = np.cumsum(self.sizes)
        for shard, (start, end) in enumerate(zip(ends - self.sizes, ends, strict=True)):
            own = ordered[start:end][: self.capacity]
            padded[shard, : len(own)] = own
        return padded

    @cached_property
    def is_real(self) -> np.ndarray:
        """(teachers, capacity) bool: False where a shorter shard was padded."""
        return np.arange(self.capacity) < self.sizes[:, None]

    def __iter__(self) -> Iterator[np.ndarray]:
        """The records of each shard, in turn."""
        for rows, is_real in zip(self.indices, self.is_real, strict=True):
            yield rows[is_real]

    def require_classes(self, y: Any) -> None:
        """Refuses labels of which some shard holds one class only: its teacher could not but vote for it.

        Raises:
            DataError: names the shard. There may be one label less or more than records, too.
        """
        y = np.asarray(y)
        if y.shape != self.shard_of.shape:
            raise DataError(
                f"{len(self.shard_of)} records were divided, and there are labels of shape {y.shape}.",
                remedy="Pass one label a record, in the same order.",
            )
        for shard, rows in enumerate(self):
            if (y[rows] == y[rows[0]]).all():
                raise DataError(
                    f"Shard {shard} of {self.teachers} has {len(rows)} records, all of one class.",
                    remedy=f"{_FEWER}, so that each sees several classes.",
                )


def partition(
    rows: int, teachers: int, *, seed: int | np.random.Generator | None = None, users: Any = None
) -> Shards:
    """Puts every record, or every user with all records, into a shard by a coin of its own.

    The coins are independent and uniform, so the sizes of shards differ a little. A permutation cut into
    equal parts would look tidier and break the proof: without one record all that come after it move up, over
    the ends of their shards, and many teachers change. Labels are not looked at, so the shards are not
    stratified: that would use private labels to place other people's records.

    Args:
        seed: of the coins, or their generator. They protect nobody, and may be known.
        users: (rows,) whose each record is. A user's records stay together: then the unit that is protected
            is a user.

    Guarantee:
        To add or remove a record (a user) changes one shard, and no other record's place in distribution: the
        votes of at most one teacher change.

    Raises:
        InvalidArgument: fewer than two teachers, or more than there are records (users).
        DataError: a shard came out empty.
    """
    checks.count(rows=rows)
    checks.count(teachers=teachers, minimum=2)
    units, unit_of = rows, np.arange(rows)
    if users is not None:
        named, unit_of = np.unique(np.asarray(users), return_inverse=True)
        units = len(named)
        if unit_of.shape != (rows,):
            raise InvalidArgument(
                f"There are {rows} records, and users of shape {np.shape(users)}.",
                remedy="Pass one user a record.",
            )
    what = "records" if users is None else "users"
    if teachers > units:
        raise InvalidArgument(
            f"{teachers} teachers cannot share {units} {what}.",
            remedy=f"{_FEWER}: {max(2, units // 50)}, say.",
        )
    if isinstance(seed, int):  # made-up data drawn with the same seed would have the coins in them
        seed = np.random.default_rng([seed, _OWN_STREAM])
    coins = np.random.default_rng(seed).integers(teachers, size=units)
    # Eight deviations above the mean: never reached by records, and by the records of users rarely.
    mean = rows / teachers
    capacity = math.ceil((1 if users is None else 2) * (mean + 8 * math.sqrt(mean) + 8))
    shards = Shards(shard_of=coins[unit_of].astype(np.int32), teachers=teachers, capacity=min(capacity, rows))
    empty = np.flatnonzero(shards.sizes == 0)
    if len(empty):
        raise DataError(
            f"Shard {empty[0]} of {teachers} is empty, and {len(empty) - 1} more: "
            f"{units} {what} are too few for so many teachers.",
            remedy=f"{_FEWER}: {max(2, units // 50)}, say.",
        )
    return shards
