"""Shards: every record belongs to exactly one, and each shard has its own teacher."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument

_OWN_STREAM = 8051
_STEP = 8  # of capacities


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Disjoint sets of records, one per teacher. Private: it says which record is where.

    Args:
        shard_of: (rows,) the shard of every record.
        teachers: how many shards there are.
        capacity: room for the records of a shard; others are not used. A public number: XLA rounds sums
            by the shape of their terms, so a capacity that follows from the records lets one of them change
            every teacher.
        order: (rows,) records of a shard stand in ascending order of this; in that of the table without it.
    """

    shard_of: np.ndarray
    teachers: int
    capacity: int
    order: np.ndarray | None = None

    @cached_property
    def sizes(self) -> np.ndarray:
        """(teachers,) how many records each was given."""
        return np.bincount(self.shard_of, minlength=self.teachers)

    @cached_property
    def indices(self) -> np.ndarray:
        """(teachers, capacity) int32: the records of every shard; the number of rows where not `is_real`."""
        padded = np.full((self.teachers, self.capacity), len(self.shard_of), np.int32)
        order = np.arange(len(self.shard_of)) if self.order is None else self.order
        ordered = np.lexsort((order, self.shard_of))
        ends = np.cumsum(self.sizes)
        for shard, (start, end) in enumerate(zip(ends - self.sizes, ends, strict=True)):
            own = ordered[start:end][: self.capacity]
            padded[shard, : len(own)] = own
        return padded

    @cached_property
    def is_real(self) -> np.ndarray:
        """(teachers, capacity) bool: False where a shorter shard was padded."""
        return np.arange(self.capacity) < self.sizes[:, None]

    def gather(self, records: np.ndarray, teachers: Any = slice(None)) -> np.ndarray:
        """(teachers, capacity, ...) the records of these shards. Padding is zeros, which nobody owns."""
        indices, is_real = self.indices[teachers], self.is_real[teachers]
        found = np.zeros((*is_real.shape, *records.shape[1:]), records.dtype)
        found[is_real] = records[indices[is_real]]
        return found

    def __iter__(self) -> Iterator[np.ndarray]:
        """The records of each shard, in turn."""
        for rows, is_real in zip(self.indices, self.is_real, strict=True):
            yield rows[is_real]


def partition(
    rows: int,
    teachers: int,
    *,
    examples: int | None = None,
    seed: int | np.random.Generator | None = None,
    content: Sequence[np.ndarray] | None = None,
    users: Any = None,
) -> Shards:
    """Assigns every record, or every user with all records, to a shard by an independent coin.

    The coins are independent and uniform, so the sizes of shards differ a little, and a shard can be empty.
    A permutation cut into equal parts would look tidier and break the proof: without one record all
    later ones move up, some into another shard, and many teachers change. Labels are not looked at,
    so the shards are not stratified: that would use private labels to place other people's records.

    Args:
        rows: how many records there are.
        examples: the declared, public number of records, from which the room of a shard follows. Records that
            find no room teach nobody. Without it the number of rows is taken for public.
        seed: of the coins, or their generator.
        content: arrays with one row per record. The coin of a record is a keyed hash of its row of each, and
            records of a shard are ordered by their coins. Equal records have different coins.
        users: (rows,) whose each record is. A user's records stay together: then the unit that is protected
            is a user. The coin of a user is a keyed hash of the name.

    Guarantee:
        For the same `examples`: a record (a user) that is added, removed or replaced changes one shard. The
        others hold the same records in the same order, in arrays of the same shape.

        | coins by | added or removed | replaced |
        |---|---|---|
        | content | whoever knows the seed | in distribution: the seed is secret |
        | users | whoever knows the seed | whoever knows the seed |
        | neither: the place among all rows | in distribution: the seed is secret | whoever knows the seed |

        "In distribution" is enough for differential privacy: coins can be exchanged so that it holds, and the
        exchanged ones are as likely.

    Raises:
        InvalidArgument: fewer than two teachers, or more than there are examples.

    Example:
        >>> shards = partition(1000, 10, seed=0)
        >>> int(shards.sizes.sum()), shards.indices.shape
        (1000, (10, 192))
    """
    checks.count(rows=rows, minimum=0)
    capacity = shard_capacity(
        rows if examples is None else examples, teachers, are_together=users is not None
    )
    if isinstance(seed, int):  # made-up data drawn with the same seed would have the coins in them
        seed = np.random.default_rng([seed, _OWN_STREAM])
    source = np.random.default_rng(seed)
    order = None
    if users is not None:
        names = np.asarray(users)
        _require_rows(rows, users=names)
        coins = _keyed_hashes(source, [repr(name).encode() for name in names.tolist()])
    elif content is not None:
        _require_rows(rows, **{f"content[{number}]": array for number, array in enumerate(content)})
        coins = order = _keyed_hashes(source, _make_unique(_bytes_of(rows, content)))
    else:
        coins = source.integers(teachers, size=rows, dtype=np.uint64)
    shard_of = (coins % np.uint64(teachers)).astype(np.int32)
    return Shards(shard_of=shard_of, teachers=teachers, capacity=capacity, order=order)


def shard_capacity(examples: int, teachers: int, *, are_together: bool = False) -> int:
    """Room for the records of a shard, from public numbers alone.

    Eight deviations above the mean: never reached by records that were declared, and by those of users, who
    keep theirs together, rarely. It grows in steps, so that a slightly different number has the same room.

    Raises:
        InvalidArgument: fewer than two teachers, or more than there are examples.
    """
    checks.count(examples=examples)
    checks.count(teachers=teachers, minimum=2)
    if teachers > examples:
        raise InvalidArgument(
            f"{teachers} teachers cannot share {examples} records.",
            remedy=f"Use fewer teachers, such as {max(2, examples // 50)}.",
        )
    mean = examples / teachers
    wanted = (2 if are_together else 1) * (mean + 8 * math.sqrt(mean) + 8)
    return math.ceil(min(wanted, examples) / _STEP) * _STEP


def _require_rows(rows: int, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if np.ndim(array) < 1 or len(array) != rows or (array.dtype.hasobject and name != "users"):
            raise InvalidArgument(
                f"There are {rows} records, and {name} of shape {np.shape(array)} and type {array.dtype}.",
                remedy="Pass one row of numbers per record, or one user per record.",
            )


def _bytes_of(rows: int, content: Sequence[np.ndarray]) -> list[bytes]:
    parts = [np.ascontiguousarray(array) for array in content]
    return [b"".join(part[row].tobytes() for part in parts) for row in range(rows)]


def _make_unique(names: Sequence[bytes]) -> list[bytes]:
    """Equal names with a number each. Without one of them the last number is gone, whichever it was."""
    seen: Counter[bytes] = Counter()
    found = []
    for name in names:
        found.append(seen[name].to_bytes(8, "big") + name)
        seen[name] += 1
    return found


def _keyed_hashes(source: np.random.Generator, names: Sequence[bytes]) -> np.ndarray:
    """(names,) uint64: independent and uniform without the key; equal for equal names."""
    key = source.bytes(32)
    digests = b"".join(hashlib.blake2b(name, key=key, digest_size=8).digest() for name in names)
    return np.frombuffer(digests, np.uint64)
