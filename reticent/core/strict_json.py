"""JSON that a stranger may have written: what comes back is plain, finite and shallow, or nothing does.

Python's reader takes NaN, whole numbers of any size, the same name twice, half of a character and nesting up
to the limit of its stack. Each of them is an error somewhere behind it. Here they are errors of the file.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

_DEEPEST = 100  # lists and objects within each other; what reticent writes has less than 20
_MOST_PARTS = 1 << 20  # lists, objects and names: each takes far more memory than its characters
_LARGEST = 2**63 - 1
_HALF = re.compile("[\ud800-\udfff]")


def parse(content: bytes | str) -> Any:
    """Reads JSON strictly.

    Raises:
        ValueError: it is not UTF-8 or not JSON, gives a name twice, holds a number that is not finite or a
            whole one beyond 64 bits, half of a character, more than 100 levels, or more than a million lists,
            objects and names. The message is a phrase for the error of whoever knows the file.

    Example:
        >>> parse('{"epsilon": 1.0, "epsilon": 9.0}')
        Traceback (most recent call last):
            ...
        ValueError: 'epsilon' is there twice
    """
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        if _HALF.search(text):
            raise ValueError("it holds half of a character")
        if sum(text.count(mark) for mark in "[{:") > _MOST_PARTS:
            raise ValueError(f"it holds more than {_MOST_PARTS:,} lists, objects and names")
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_whole,
            parse_float=_real,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _require_shallow(found)
    if "\\ud" in text.lower():
        _require_whole_characters(found)
    return found


def parse_object(content: bytes | str) -> dict[str, Any]:
    """Reads a JSON object strictly.

    Raises:
        ValueError: as `parse`, or it is not an object.
    """
    found = parse(content)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{twice[:60]!r} is there twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > _LARGEST:
        raise ValueError(f"the number {digits[:20]}... is too large")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _refuse_constant(word: str) -> None:
    raise ValueError(f"JSON has no {word}")


def _require_shallow(value: Any) -> None:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_DEEPEST):
        below = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        level = [item for item in below if isinstance(item, (dict, list))]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _require_whole_characters(found: Any) -> None:
    """Half of a pair of UTF-16 can be written as an escape, and no file and no terminal takes it."""
    waiting = [found]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and _HALF.search(value):
            raise ValueError("it holds half of a character")
