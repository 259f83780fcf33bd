"""Compiled programs that are kept for the next run of the same kind, which need not wait for a compiler.

A program is known by what it was compiled from. Functions cannot be compared, so whoever trains names them
(`Execution.program`); runs without a name compile anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

_MOST = 16  # programs; the one that was used longest ago goes first

_kept: OrderedDict[Hashable, Any] = OrderedDict()


def kept(key: Hashable | None, make: Callable[[], Any]) -> Any:
    """What was made under this key before, or what `make` gives now; without a key, nothing is kept.

    >>> kept("two", lambda: [2]) is kept("two", lambda: [2])
    True
    >>> kept(None, lambda: [2]) is kept(None, lambda: [2])
    False
    """
    if key is None:
        return make()
    if key not in _kept:
        _kept[key] = make()
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def forget() -> None:
    """Drops all programs."""
    _kept.clear()
