"""A table in shards: each of several processes reads its share of a file, and nothing else of it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

if TYPE_CHECKING:
    from reticent.data.files.table import Table

ANY_LINE_END = re.compile(rb"\r\n?|\n")

_PIECE = 1 << 16  # bytes looked through at once for a line's end


def shard_of(table: Table, number: int, count: int) -> Table:
    """Shard `number` (from 0) of `count`: a contiguous part of a table, read without reading the rest.

    The shards one after the other are exactly the table. Each process computes the cuts by itself, from the
    file's size or its footer, so all must see the same file.

        Parquet         whole row groups, balanced by rows. Fewer row groups than shards are cut inside; a row
                        group that is cut is read by each of its shards, which skip what is not theirs.
        NPY, NPZ        equally many rows
        CSV, libsvm     equally many bytes, each cut moved on to the next line's end

    Where a cut of a CSV falls on a line end inside a quoted cell, the shard that ends there refuses. Those
    after it may read nonsense, so all must stop when one does. One always does: the first shard begins where
    the rows do, so it reads its quotes as they are meant and knows whether a cell is still open at its
    end; if none is, the second begins at a row's start, and so on up to the first bad cut.

    Args:
        number: from 0 to `count - 1`, such as the number of a process.

    Raises:
        DataError: there are fewer rows than shards, or the file cannot be cut (packed, UTF-16).
            Reading raises it for a cut inside a quoted cell.

    Example:
        >>> shard = shard_of(open_table("visits.parquet"), 0, 4)  # doctest: +SKIP
    """
    checks.count(count=count)
    checks.count(minimum=0, number=number)
    if number >= count:
        raise InvalidArgument(
            f"There is no shard number {number} of {count}.", remedy=f"Shards are numbered 0 to {count - 1}."
        )
    if count == 1:
        return table
    if table.known_row_count is not None and table.known_row_count < count:
        raise _too_few_error(table, table.known_row_count, count)
    shard = table.shard(number, count)
    if shard.known_row_count is None and not _has_rows(shard):
        raise _too_few_error(table, table.row_count, count)
    return shard


def row_cuts(groups: Sequence[int], count: int) -> list[int]:
    """Where to cut rows that lie in groups, 0 and the last among the cuts.

    At the ends of groups, each the nearest to an even share that leaves a group for every shard; inside
    groups only where there are fewer than shards.

    >>> row_cuts([10, 10, 10, 70, 10, 10], 3)
    [0, 30, 100, 120]
    >>> row_cuts([100], 3)
    [0, 33, 66, 100]
    """
    ends = sorted({end for end in accumulate(groups) if end})
    total = ends[-1]
    shares = [total * shard // count for shard in range(1, count)]
    if len(ends) < count:
        return [0, *shares, total]
    cuts, at = [0], -1
    for shard, share in enumerate(shares, start=1):
        after = bisect_left(ends, share)
        nearest = after - (after > 0 and share - ends[after - 1] <= ends[after] - share)
        at = min(max(nearest, at + 1), len(ends) - 1 - (count - shard))
        cuts.append(ends[at])
    return [*cuts, total]


def byte_range(
    path: Path, number: int, count: int, *, first: int, end: int, line_end: re.Pattern[bytes] = ANY_LINE_END
) -> tuple[int, int]:
    """The bytes of a shard of the lines from byte `first` to byte `end`.

    A shard begins after the first line end at or after its even share, and ends where the next begins.
    """
    cuts = [first + (end - first) * shard // count for shard in (number, number + 1)]
    begins, ends = (_after_line_end(path, cut, end, line_end) for cut in cuts)
    return (begins if number else first), (ends if number + 1 < count else end)


def line_ends_before(path: Path, end: int) -> int:
    """How many lines end before a byte of a file. Only a message needs to know: this reads all before it."""
    lines, was_return = 0, False
    with open(path, "rb") as file:
        while piece := file.read(min(_PIECE, end - file.tell())):
            lines += piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
            lines -= was_return and piece.startswith(b"\n")
            was_return = piece.endswith(b"\r")
    return lines


def _after_line_end(path: Path, at: int, end: int, line_end: re.Pattern[bytes]) -> int:
    with open(path, "rb") as file:
        file.seek(at)
        while piece := file.read(min(_PIECE, end - at)):
            found = line_end.search(piece)
            if found:
                is_split = found.end() == len(piece) and found[0] == b"\r" and file.read(1) == b"\n"
                return at + found.end() + is_split
            at += len(piece)
    return end


def cut_error(table: Table, why: str) -> DataError:
    return DataError(
        f"{table.label} is {why}, so no process can start reading in the middle of it.",
        remedy="Save it as Parquet, or as plain text in UTF-8.",
    )


def _has_rows(shard: Table) -> bool:
    return next(shard.batches(shard.names[:1]), None) is not None


def _too_few_error(table: Table, rows: int, count: int) -> DataError:
    if rows < count:
        return DataError(
            f"{table.label}: {count} processes for {rows} rows.", remedy=f"Use at most {rows} processes."
        )
    return DataError(
        f"{table.label}: {count} processes for {rows} rows, and one of them has none: rows differ too much "
        "in length.",
        remedy="Use fewer processes, or save the table as Parquet.",
    )
