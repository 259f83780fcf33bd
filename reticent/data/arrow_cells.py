"""The cells of an Arrow column: which are missing, and the others as numbers, dates or words.

How a cell is read depends on that cell and on what is public about its file, never on other cells. Numbers
may be written as people write them:

    41,896.15   41 896.15   41'896.15     grouped by three digits
    1.234,56    41 896,15                 the same where the file has a decimal comma
    $5   € 5   USD 5   5 EUR   12.5%      with a currency or a percent sign, which are dropped
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute as _compute

from reticent.data.buckets import bucket_of
from reticent.data.kinds import CURRENCY

compute: Any = _compute  # Arrow creates its functions on import, where no type checker can see them


class Reading(NamedTuple):
    """How the numbers and dates of a file are written. All of it is public.

    Attributes:
        decimal: the sign before the decimals, "." or ",".
        thousands: "." if 1.234 is a thousand and more in a file with a decimal comma; else "". All other
            groups, such as 1,234 in a file with a decimal point, 1.234,5 or 1 234, can mean nothing else.
        day_first: whether 01/02/2024 is the first of February.
        is_date: the cells are dates, and their numbers are days since 2000.
        has_truth: true and false are read as 1 and 0.
    """

    decimal: str = "."
    thousands: str = ""
    day_first: bool = False
    is_date: bool = False
    has_truth: bool = False


PLAIN = Reading()

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_MARKER = re.compile(_NUMBER)
_PLAIN_NUMBER = {".": _NUMBER, ",": r"^[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?$"}
_GAPS = " \u00a0\u2009\u202f"  # blanks, some of which do not break a line
_MAYBE_NUMBER = rf"^[+-]?{CURRENCY}?[{_GAPS}]?[+-]?[\d.,][\d.,'’{_GAPS}]*(?:%|{CURRENCY})?$"
_POINT_GROUPS = r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?$"
_CERTAIN_POINT_GROUPS = r"^[+-]?[1-9]\d{0,2}(?:(?:\.\d{3})+,\d*|(?:\.\d{3}){2,})$"


def is_text(column: pa.Array) -> bool:
    return pa.types.is_string(column.type)


def missing_cells(column: pa.Array, markers: Collection[str]) -> np.ndarray:
    """Which cells say "not known": nulls, and the markers.

    In a column of numbers, these are markers that write a number, and a float's NaN if "nan" is one.

    >>> missing_cells(pa.array([-999, 5]), ["", "-999"]).tolist()
    [True, False]
    """
    if is_text(column):
        marked = compute.is_in(column, value_set=pa.array(list(markers), type=pa.string()))
    else:
        written = [float(marker) for marker in markers if _MARKER.fullmatch(marker)]
        numbers = compute.cast(column, pa.float64(), safe=False)
        marked = compute.is_in(numbers, value_set=pa.array(written, pa.float64()))
        if {"nan", "NaN"} & set(markers):
            marked = compute.or_kleene(marked, compute.is_nan(numbers))
    return compute.or_kleene(marked, compute.is_null(column)).to_numpy(zero_copy_only=False)


def as_numbers(column: pa.Array, missing: np.ndarray, reading: Reading = PLAIN) -> np.ndarray:
    """The cells as float64, NaN where they are missing; dates as days since 2000, NaN where not a date.

    Raises:
        pa.ArrowInvalid: a cell of text is not a number; `first_failing` says which.
    """
    if reading.is_date:
        from reticent.data.date_cells import as_days

        return as_days(_without_missing(column, missing), day_first=reading.day_first)
    # Most columns are written plainly. Of one that is not, a plain cell reads the same by the longer way.
    try:
        if reading.thousands:
            raise pa.ArrowInvalid("points group digits, and would be read as decimals")
        return _cast(_with_point(_without_missing(column, missing), reading))
    except pa.ArrowInvalid:
        return _cast(number_text(column, missing, reading))


def unreadable_cells(column: pa.Array, missing: np.ndarray, reading: Reading = PLAIN) -> np.ndarray:
    """Which cells are present but not finite numbers, or not dates."""
    try:
        found = as_numbers(column, missing, reading)
    except pa.ArrowInvalid:
        text = number_text(column, missing, reading)
        reads = compute.match_substring_regex(text, _NUMBER).fill_null(False)
        is_number = reads.to_numpy(zero_copy_only=False)
        found = as_numbers(column, missing | ~is_number, reading)
    return ~np.isfinite(found) & ~missing


def number_text(column: pa.Array, missing: np.ndarray, reading: Reading = PLAIN) -> pa.Array:
    """The cells as they are parsed: missing ones null, without groups and currency, with a decimal point."""
    column = _without_missing(column, missing)
    if not is_text(column):
        return column
    if reading.has_truth:
        for word, digit in (("true", "1"), ("false", "0")):
            column = compute.replace_substring_regex(column, f"(?i)^{word}$", digit)
    odd = compute.invert(compute.match_substring_regex(column, _PLAIN_NUMBER[reading.decimal]))
    odd = compute.and_(odd, compute.match_substring_regex(column, _MAYBE_NUMBER))
    if reading.thousands:
        odd = compute.or_(odd, compute.match_substring_regex(column, _POINT_GROUPS))
    odd = odd.fill_null(False)
    if compute.any(odd).as_py():
        column = compute.replace_with_mask(column, odd, _without_signs(column.filter(odd), reading))
    return _with_point(column, reading)


def as_words(column: pa.Array) -> pa.Array:
    """The cells as text. Whole numbers are written without a point, whatever type they are stored in.

    >>> as_words(pa.array([1.0, 2.5])).to_pylist()
    ['1', '2.5']
    """
    return column if is_text(column) else compute.cast(column, pa.string())


def bucket_codes(column: pa.Array, count: int, *, ignores_case: bool) -> np.ndarray:
    """The bucket of each cell of a column; any of them for one that is null.

    >>> bucket_codes(pa.array(["Bonn", None, "bonn"]), 64, ignores_case=False).tolist()[0]
    61
    """
    coded = compute.fill_null(as_words(column), "").dictionary_encode()
    words = (word.lower() if ignores_case else word for word in coded.dictionary.to_pylist())
    found = np.array([bucket_of(word, count) for word in words], np.int64)
    return found[coded.indices.to_numpy(zero_copy_only=False)]


def first_failing(column: pa.Array, kind: pa.DataType) -> int:
    """The position of the first cell that cannot be cast to a type, given that one cannot."""
    low, high = 0, len(column)  # the first failing cell is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            compute.cast(column.slice(low, middle - low), kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _cast(column: pa.Array) -> np.ndarray:
    return compute.cast(column, pa.float64(), safe=is_text(column)).to_numpy(zero_copy_only=False)


def _without_missing(column: pa.Array, missing: np.ndarray) -> pa.Array:
    if not missing.any():
        return column
    return compute.if_else(pa.array(missing), pa.scalar(None, column.type), column)


def _with_point(column: pa.Array, reading: Reading) -> pa.Array:
    if reading.decimal == "," and is_text(column):
        return compute.replace_substring(column, ",", ".")
    return column


def _without_signs(cells: pa.Array, reading: Reading) -> pa.Array:
    """Cells without currency and percent signs, and without the signs that group digits by three."""
    before = rf"^([+-]?){CURRENCY}[{_GAPS}]?([+-]?[\d.,])"
    cells = compute.replace_substring_regex(cells, before, r"\1\2")
    cells = compute.replace_substring_regex(cells, rf"([\d.,])[{_GAPS}]?(?:%|{CURRENCY})$", r"\1")
    others = [*dict.fromkeys(_GAPS), "'", "’"]
    for sign in [*others, "," if reading.decimal == "." else "."]:
        groups = rf"^[+-]?[1-9]\d{{0,2}}(?:[{sign}]\d{{3}})+(?:[{reading.decimal}]\d*)?$"
        if sign == "." and not reading.thousands:
            groups = _CERTAIN_POINT_GROUPS
        matches = compute.match_substring_regex(cells, groups)
        cells = compute.if_else(matches, compute.replace_substring(cells, sign, ""), cells)
    return cells
