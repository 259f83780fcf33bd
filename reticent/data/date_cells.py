"""Dates and times in cells, as days since the beginning of 2000.

    2024-01-31   2024/01/31   31.01.2024      read the same in every file
    01/31/2024   31/01/2024   31-01-2024      the month first, unless the format of the file says otherwise
    2024-01-31T10:00:00Z   31.01.2024 10:00   with a time; an offset is converted to UTC

How a cell is read depends on that cell and on the format of its file, not on other cells.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from reticent.data.arrow_cells import compute
from reticent.data.dates import DAY_ZERO

_TIME = (
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r" ?(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_YEAR_FIRST = r"^(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})" + _TIME + "$"
_DAY_FIRST = r"^(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})" + _TIME + "$"
_EITHER = r"^(?P<a>\d{1,2})[-/](?P<b>\d{1,2})[-/](?P<year>\d{4})" + _TIME + "$"


def as_days(column: pa.Array, *, day_first: bool) -> np.ndarray:
    """Days since 2000 as float64, with the time of day as a fraction; NaN for what is not a date.

    >>> as_days(pa.array(["2000-01-02", "03.01.2000 12:00", "2000-02-30"]), day_first=False).tolist()
    [1.0, 2.5, nan]
    """
    days = np.full(len(column), np.nan)
    if not pa.types.is_string(column.type):
        return days
    either = _EITHER.replace("<a>", "<day>" if day_first else "<month>")
    either = either.replace("<b>", "<month>" if day_first else "<day>")
    for pattern in (_YEAR_FIRST, _DAY_FIRST, either):
        parts = compute.extract_regex(column, pattern)
        found = parts.is_valid().to_numpy(zero_copy_only=False)
        if found.any():
            days[found] = _days(parts.filter(pa.array(found)))
    return days


def _days(parts: pa.StructArray) -> np.ndarray:
    year, month, day, hour, minute = (
        _number(parts, name, pa.int64()) for name in ("year", "month", "day", "hour", "minute")
    )
    second = _number(parts, "second", pa.float64())
    is_date = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    is_date &= (hour < 24) & (minute < 60) & (second < 61)
    months = ((year - 1970) * 12 + np.where(is_date, month, 1) - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]")
    length = ((months + 1).astype("datetime64[D]") - first).astype(int)
    is_date &= day <= length
    since = (first - np.datetime64(DAY_ZERO)).astype(float) + day - 1
    since += (hour * 3600 + minute * 60 + second - _offset(parts)) / 86400
    return np.where(is_date, since, np.nan)


def _number(parts: pa.StructArray, name: str, kind: pa.DataType) -> np.ndarray:
    text = parts.field(name)
    return compute.cast(compute.if_else(compute.equal(text, ""), "0", text), kind).to_numpy()


def _offset(parts: pa.StructArray) -> np.ndarray:
    """Seconds that a time zone is ahead of UTC."""
    zones = parts.field("zone").to_pylist()
    known = {zone: _seconds(zone) for zone in set(zones)}
    return np.array([known[zone] for zone in zones], float)


def _seconds(zone: str) -> int:
    if zone in ("", "Z", "UTC"):
        return 0
    size = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -size if zone[0] == "-" else size
