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
    """A whole number of at least `minimum`; 3.0 is accepted by nobody, so that 3.5 never is either."""
    for name, value in values.items():
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        _require(is_whole and value >= minimum, name, value, f"a whole number of at least {minimum}")


def one_of(choices: Iterable[str], **values: str) -> None:
    known = list(choices)
    for name, value in values.items():
        if value not in known:
            raise InvalidArgument(f"{name}={value!r} is not known.", remedy=suggest(str(value), known))


def _is_finite(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _require(holds: bool, name: str, value: Any, what: str) -> None:
    if not holds:
        raise InvalidArgument(f"{name} must be {what}, got {value!r}.", remedy=f"Pass another {name}.")
