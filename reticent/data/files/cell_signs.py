"""How numbers and dates are written in a text file: as most cells in its first lines show.

`1,5` has a decimal comma, `41,896.15` a decimal point. `41,896` and `41.896` may be either: they count only
where nearly nothing else does, and then a warning says how they are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from reticent.data.kinds import CURRENCY

_RARE = 20  # one cell in so many is unlike the others
_FEW = 100  # of so many lines one may be somebody's slip
_LONGEST = 40  # characters of a cell that may be a number or a date
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+|\d{1,3}([.,]\d{3})+([.,]\d*)?)([eE][+-]?\d+)?", re.ASCII)
_BEFORE = re.compile(rf"^([+-]?){CURRENCY}[ \u00a0]?")
_AFTER = re.compile(rf"[ \u00a0]?(?:%|{CURRENCY})$")
_GROUP_OR_DECIMALS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_GAP = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f'’](?=\d{3})", re.ASCII)
_DATE = re.compile(
    r"(?:\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?:[T ]\d{2}:\d{2}.*)?", re.ASCII
)
_DAY_AND_MONTH = re.compile(r"(\d{1,2})[-/](\d{1,2})[-/]\d{4}(?:[T ]\d{2}:\d{2}.*)?", re.ASCII)


class CellSigns(NamedTuple):
    """The signs, and of each whether it was decided without anything that tells."""

    decimal: str = "."
    thousands: str = ""
    day_first: bool = False
    is_decimal_in_doubt: bool = False
    is_day_in_doubt: bool = False


def detect_signs(cells: Counter[str], delimiter: str) -> CellSigns:
    """The signs of most cells; a decimal point, and the month before the day, where nothing tells."""
    decimal, thousands, is_decimal_in_doubt = _number_signs(cells, delimiter)
    day_first, is_day_in_doubt = _date_order(cells)
    return CellSigns(decimal, thousands, day_first, is_decimal_in_doubt, is_day_in_doubt)


def is_comma_an_exception(rows: Sequence[Sequence[str]]) -> bool:
    """Whether so few of many lines have a number with a comma that the line of one record could decide."""
    if len(rows) < _RARE:
        return False
    telling = sum(any(_has_comma(cell) for cell in row) for row in rows)
    return telling < max(2, len(rows) / _FEW)


def _has_comma(cell: str) -> bool:
    return "," in cell and len(cell) <= _LONGEST and _plain(cell) is not None


def is_quantity(cell: str) -> bool:
    """Whether a cell of the first lines is written as a number, with whatever signs, or as a date."""
    return len(cell) <= _LONGEST and (_plain(cell) is not None or _DATE.fullmatch(cell) is not None)


def _number_signs(cells: Counter[str], delimiter: str) -> tuple[str, str, bool]:
    sure, unsure = Counter[str](), Counter[str]()  # by the decimal sign that a number has
    numbers = 0
    for cell, times in cells.items():
        if len(cell) <= _LONGEST and (number := _plain(cell)) is not None:
            numbers += times
            if _GROUP_OR_DECIMALS.fullmatch(number):
                unsure["," if "," in number else "."] += times
            elif sign := _decimal_sign(number):
                sure[sign] += times
    if delimiter == "," and _RARE * sure[","] < numbers:  # a quoted cell or two do not tell
        del sure[","]
    if sure and _RARE * sure.total() >= unsure.total():
        decimal = "," if sure[","] > sure["."] else "."
        groups = decimal == "," and unsure["."] > _RARE * sure["."]
        return decimal, "." if groups else "", False
    if not unsure:
        return ".", "", False
    decimal = "," if unsure[","] > unsure["."] and delimiter != "," else "."
    return decimal, "", delimiter != "," or unsure["."] > 0


def _plain(cell: str) -> str | None:
    """A cell without currency, percent sign and gaps between digits, if it is a number then."""
    bare = cell
    if not (cell[:1].isdigit() and cell[-1:].isdigit()):
        bare = _AFTER.sub("", _BEFORE.sub(r"\1", cell, count=1))
    bare = _GAP.sub("", bare)
    return bare if _NUMBER.fullmatch(bare) else None


def _decimal_sign(number: str) -> str:
    """The decimal sign that a number shows: the last of two signs, and never one that comes twice."""
    signs = [sign for sign in number if sign in ".,"]
    if not signs:
        return ""
    if len(set(signs)) == 2:
        return signs[-1] if signs.count(signs[-1]) == 1 else ""
    if len(signs) == 1:
        return signs[0]
    return "," if signs[0] == "." else "."  # 1.234.567 has groups of points


def _date_order(cells: Counter[str]) -> tuple[bool, bool]:
    """Whether the day comes before the month in most dates like 31/01/2024, and whether none tells."""
    votes, has_dates = Counter[bool](), False
    for cell, times in cells.items():
        if len(cell) <= _LONGEST and (found := _DAY_AND_MONTH.fullmatch(cell)):
            first, second = int(found[1]), int(found[2])
            has_dates = True
            if first != second and max(first, second) > 12 >= min(first, second):
                votes[first > 12] += times
    return votes[True] > votes[False], has_dates and not votes
