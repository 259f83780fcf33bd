"""Values read from JSON, each checked to be what it should be, and numbers that JSON does not have.

Numbers that are not finite are written as "inf", "-inf" and "nan". What is wrong raises TypeError or
ValueError, for the reader of a whole file to say which file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Unreadable(Exception):
    """A value of `run.json` that is not what it should be; `folder.read_record` says so in words."""


class OtherVersion(Unreadable):
    """A record that another version of reticent wrote, or nobody."""


def finite(value: Any) -> Any:
    """The same with text for numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def number(value: Any) -> float:
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is not a count")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r} is not a list")
    return tuple(map(text, value))


def shape(value: Any) -> tuple[int, ...]:
    return tuple(map(count, value))


def mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is not an object")
    return dict(value)


def one_of(known: tuple[Any, ...], value: Any) -> Any:
    if value not in known:
        raise ValueError(f"{value!r} is not one of {known}")
    return value


def or_none(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)


def plain_words(value: Any) -> str:
    """The name of an analysis: a stranger's may not look like a sentence of ours."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z ,-]{0,80}", found := text(value)):
        raise ValueError(f"{found!r} is not the name of an accountant")
    return found


def one_line(value: str) -> str:
    """A text without line ends."""
    if len(value.splitlines()) != 1:
        raise ValueError("an assumption takes several lines")
    return value
