"""Which line of a table names its columns, and which lines above it are a title.

The first lines decide together: a name shows by being unlike what stands below it. A line is a title if it
has too few cells for a row, and the lines after it agree on how many cells a row has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from reticent.data.files.cell_signs import is_quantity
from reticent.data.kinds import MISSING_MARKERS

_MOST_TITLE_LINES = 20
_RARE = 20  # one line in so many is unlike the others

Row = Sequence[str | None]


class TableHead(NamedTuple):
    """The columns of a table, and what stands above its first row."""

    names: tuple[str, ...]
    title: int  # rows above the header
    has_header: bool
    is_in_doubt: bool  # nothing tells whether the first row is a header


def find_head(rows: Sequence[Row], declared: bool | None, expected: Collection[str]) -> TableHead:
    """The head of a table from its first rows.

    Args:
        declared: whether somebody says that there is a header.
        expected: names that somebody gave: where nothing else tells, a row that has them all is a header.
    """
    title = _title_length(rows, declared)
    first, rest = [cell or "" for cell in rows[title]], rows[title + 1 :]
    likely = looks_like_header(first, rest) if declared is None else declared
    if likely is None and expected and set(expected) <= set(first):
        likely = True
    width = len(first)
    names = tuple(first) if likely else tuple(f"column_{i}" for i in range(1, width + 1))
    return TableHead(names, title, bool(likely), likely is None)


def looks_like_header(first: Row, rest: Sequence[Row]) -> bool | None:
    """Whether a line holds names: no numbers, and unlike the lines below; None where nothing tells.

    Among words, a name shows where nearly all of those below repeat: a first row would have one of them.
    """
    if not any(first) or any(cell in MISSING_MARKERS[1:] or is_quantity(cell or "") for cell in first):
        return False
    below = [
        [cell for row in rest if i < len(row) and (cell := row[i] or "") not in MISSING_MARKERS]
        for i in range(len(first))
    ]
    if any(map(_is_mostly_numbers, below)):
        return True
    if any(
        column.count(cell) > len(column) / _RARE for cell, column in zip(first, below, strict=True) if cell
    ):
        return False
    return True if any(map(_repeats, below)) else None


def _repeats(column: list[str]) -> bool:
    """Whether nearly every row has a word that others have too: a first row without one would be rare."""
    times = Counter(column).values()
    return len(times) <= len(column) / 2 and sum(count == 1 for count in times) <= len(column) / _RARE


def _is_mostly_numbers(column: list[str]) -> bool:
    numbers = sum(is_quantity(cell) for cell in column[:_RARE])
    return numbers > 0 and numbers >= 0.8 * len(column[:_RARE])


def _title_length(rows: Sequence[Row], declared: bool | None) -> int:
    """How many rows come before the header, or before the first row where there is none."""
    widths = Counter(map(len, rows))
    usual, times = widths.most_common(1)[0]
    if usual < 2 or times < 0.9 * (len(rows) - _MOST_TITLE_LINES):
        return 0
    length = 0
    while length < min(_MOST_TITLE_LINES, len(rows) - 2) and _is_short(rows[length], usual):
        length += 1
    if all(len(row) != usual for row in rows[:length]):
        return length
    # As wide as a row, but nearly empty: a title only if what follows names the columns.
    has_names = declared or (declared is None and looks_like_header(rows[length], rows[length + 1 :]))
    return length if has_names else 0


def _is_short(row: Row, usual: int) -> bool:
    filled = sum(bool(cell) for cell in row)
    return filled <= (1 if len(row) == usual else usual / 2) and (len(row) != usual or usual > 2)
