"""Days as numbers: those since the beginning of 2000, in which columns of dates are encoded."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np

from reticent.core.errors import DomainError

DAY_ZERO = datetime.date(2000, 1, 1)  # from which days are counted
DATE_PARTS: dict[str, tuple[str, ...]] = {  # of a day, that may be features beside it
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
}


def day_number(day: datetime.date) -> float:
    """The days from the beginning of 2000 to the beginning of a day.

    >>> day_number(datetime.date(2000, 2, 1))
    31.0
    """
    return float((day - DAY_ZERO).days)


def day_of(number: float) -> datetime.date:
    """The day in which a number of days since 2000 lies, between the years 1 and 9999.

    >>> str(day_of(31.5))
    '2000-02-01'
    """
    least, most = day_number(datetime.date.min), day_number(datetime.date.max)
    return DAY_ZERO + datetime.timedelta(days=math.floor(min(max(number, least), most)))


def part_codes(days: np.ndarray, part: str) -> np.ndarray:
    """Which month or weekday each day is, counted from 0.

    >>> part_codes(np.array([0.0, 31.5]), "month").tolist(), part_codes(np.array([0.0]), "weekday").tolist()
    ([0, 1], [5])
    """
    since = np.floor(days).astype(np.int64)
    if part == "weekday":
        return (since + DAY_ZERO.weekday()) % 7
    months = (np.datetime64(DAY_ZERO) + since).astype("datetime64[M]").astype(np.int64)
    return months % 12


def parse_day(value: Any, *, where: str) -> datetime.date:
    """A day from a date, or from text such as 2024-01-31.

    Raises:
        DomainError: it is neither.
    """
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        return datetime.date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise DomainError(
            f"{where}: {str(value)[:40]!r} is not a day.", remedy="Write it like 2024-01-31, without a time."
        ) from None
