"""Checks of arguments whose keyword becomes the message.

    positive(noise_multiplier=sigma)    # noise_multiplier must be a positive number, got -1.0.

Each takes any number of `name=value` pairs and raises `InvalidArgument` for the first that fails.
NaN fails every check.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

from reticent.core.errors import InvalidArgument, suggest

_SHOWN = 60  # characters of a value that a message may quote


def positive(**values: float) -> None:
    for name, value in values.items():
        _require(_is_finite(value) and value > 0, name, value, "a positive number")


def not_negative(**values: float) -> None:
    for name, value in values.items():
        _require(_is_finite(value) and value >= 0, name, value, "zero or a positive number")


def finite(**values: float) -> None:
    for name, value in values.items():
        _require(_is_finite(value), name, value, "a finite number")


def probability(**values: float) -> None:
    for name, value in values.items():
        _require(_is_finite(value) and 0 <= value <= 1, name, value, "a probability between 0 and 1")


def inside_unit(**values: float) -> None:
    """Strictly between 0 and 1, as a delta is."""
    for name, value in values.items():
        _require(_is_finite(value) and 0 < value < 1, name, value, "strictly between 0 and 1")


def count(*, minimum: int = 1, **values: int) -> None:
    """A whole number of at least `minimum`; 3.0 is refused too, so that 3.5 always is.

    Example:
        >>> count(steps=3)
        >>> count(steps=3.0)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: steps must be a whole number of at least 1, got 3.0. ...
    """
    for name, value in values.items():
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        _require(is_whole and value >= minimum, name, value, f"a whole number of at least {minimum}")


def one_of(choices: Iterable[str], **values: str) -> None:
    known = list(choices)
    for name, value in values.items():
        if value not in known:
            wanted = value if isinstance(value, str) else ""
            raise InvalidArgument(f"{name}={_quote(value)} is not known.", remedy=suggest(wanted, known))


def _is_finite(value: Any) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


def _require(holds: bool, name: str, value: Any, what: str) -> None:
    if not holds:
        raise InvalidArgument(f"{name} must be {what}, got {_quote(value)}.", remedy=f"Pass another {name}.")


def _quote(value: Any) -> str:
    """The value on one line of a sentence, cut where it is long."""
    if isinstance(value, numbers.Number | str):
        value = getattr(value, "item", lambda: value)()  # NumPy writes 2.0 as np.float64(2.0)
    try:
        shown = " ".join(repr(value).split())
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a very large number"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
