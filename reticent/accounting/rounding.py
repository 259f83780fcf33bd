"""Decimal numbers that are printed, rounded to the safe side.

A float stands for the shortest decimal that reads back as it: 1e-5 is printed as 1e-05. Read back as a float,
what is printed is never on the wrong side of the number it stands for.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Literal

Side = Literal["up", "down"]

_MOST_DIGITS = 400  # of a float, before and behind the point


def to_places(value: float, places: int, side: Side) -> Decimal:
    """To so many digits behind the point.

    Example:
        >>> str(to_places(1.23401, 3, "up")), str(to_places(1.23401, 3, "down"))
        ('1.235', '1.234')
    """
    return _quantize(value, Decimal(1).scaleb(-places), side)


def to_digits(value: float, digits: int, side: Side) -> float:
    """To so many significant digits; 0 and what is not finite stay as they are.

    >>> to_digits(1.0000049e-5, 6, "up"), to_digits(1e-5, 6, "up"), to_digits(9.899000000000001, 4, "up")
    (1.00001e-05, 1e-05, 9.9)
    """
    if value == 0 or not math.isfinite(value):
        return value
    leading = Decimal(repr(float(value))).adjusted()
    return float(_quantize(value, Decimal(1).scaleb(leading + 1 - digits), side))


def at_most(value: float, digits: int = 4) -> str:
    """An upper bound as it is printed: never below the number it stands for.

    >>> at_most(2.99911), at_most(1e-5), at_most(12345.6), at_most(math.inf)
    ('3', '1e-05', '12350', 'inf')
    """
    return _plain_digits(to_digits(value, digits, "up"), digits)


def at_least(value: float, digits: int = 3) -> str:
    """A lower bound as it is printed: never above the number it stands for.

    >>> at_least(1.119), at_least(0.0)
    ('1.11', '0')
    """
    return _plain_digits(to_digits(value, digits, "down"), digits)


def _plain_digits(rounded: float, digits: int) -> str:
    is_long = 10**digits <= abs(rounded) < 1e9
    return f"{rounded:.0f}" if is_long else f"{rounded:.{digits}g}"


def _quantize(value: float, quantum: Decimal, side: Side) -> Decimal:
    with localcontext() as context:
        context.prec = _MOST_DIGITS
        rounding = ROUND_CEILING if side == "up" else ROUND_FLOOR
        return Decimal(repr(float(value))).quantize(quantum, rounding=rounding)
