"""Finding where a monotone condition starts to hold, always from the side that is safe."""

from __future__ import annotations

from collections.abc import Callable


def bisect(holds: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-14) -> float:
    """The smallest value in [low, high] at which `holds` is true, given that it stays true above it.

    Returns a value at which it was seen to hold (or `high`), never one at which it was not.

    Example:
        >>> round(bisect(lambda x: x * x >= 2, 0.0, 2.0), 6)
        1.414214
    """
    while high - low > relative * max(abs(high), 1e-300):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def smallest_count(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number in (low, high] at which `holds`, given that it stays true above it.

    Example:
        >>> smallest_count(lambda n: n * n >= 50, 0, 50)
        8
    """
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
