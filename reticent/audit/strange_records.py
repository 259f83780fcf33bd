"""Records that bring out the worst in a machine's arithmetic: huge, cancelling, subnormal, not finite.

One array of a record is strange at a time and the others are ones, so that products of two cancel as well as
sums do. Whole numbers, such as labels, stay those of a record of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

_SIZES = (1.0, 1e8, 1e18)
_HALVES, _ALTERNATING = 2, 4  # draws of each


class Strange(NamedTuple):
    """A record, one row of each array, and what is strange about it."""

    what: str
    record: dict[str, np.ndarray]


def strange_records(data: Mapping[str, np.ndarray], *, seed: int = 0) -> list[Strange]:
    """Made from the shapes and types of the data, and from the whole numbers of the first row."""
    rng = np.random.default_rng(seed)
    floats = [key for key, array in data.items() if np.issubdtype(array.dtype, np.floating)]
    usual = {key: np.ones_like(array[:1]) if key in floats else array[:1] for key, array in data.items()}
    found = [Strange("a record of ones", usual)]
    for key in floats:
        shape, kind = data[key].shape[1:], data[key].dtype
        for what, values in _strange(shape, rng):
            with np.errstate(over="ignore"):
                row = np.asarray(values, np.float64).astype(kind)[None]
            found.append(Strange(f"{what} in '{key}'", {**usual, key: row}))
    return found


def _strange(shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    ones = np.ones(shape)
    for name, value in (
        ("zeros", 0.0),
        ("subnormal numbers", 1e-40),
        ("numbers of 3e38", 3e38),
        ("infinity", np.inf),
        ("NaN", np.nan),
    ):
        yield name, value * ones
    if ones.size > 1:
        one_bad = ones.copy()
        one_bad.reshape(-1)[-1] = np.nan
        yield "one NaN", one_bad
    for size in _SIZES:
        yield f"numbers of {size:.0e}", size * ones
        yield f"numbers of {-size:.0e}", -size * ones
        yield f"random numbers of {size:.0e}", size * rng.normal(size=shape)
        for axis, along in enumerate(shape):
            if along > 1:
                yield from _draw_cancelling(shape, axis, size, rng)


def _draw_cancelling(
    shape: tuple[int, ...], axis: int, size: float, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Numbers that cancel, or nearly, along one axis of an array."""
    places = np.arange(shape[axis])
    half = np.take(rng.uniform(1, 2, shape), places % max(len(places) // 2, 1), axis=axis)
    across = [-1 if at == axis else 1 for at in range(len(shape))]
    sign = np.where(places % 2, -1.0, 1.0).reshape(across)
    is_first = (places < len(places) // 2).reshape(across)
    yield f"opposite halves of {size:.0e}", size * np.where(is_first, half, -half)
    for _ in range(_HALVES):
        half = np.take(rng.uniform(1, 2, shape), places % max(len(places) // 2, 1), axis=axis)
        yield f"equal halves of {size:.0e}", size * half
    for _ in range(_ALTERNATING):  # the nearer they come to cancelling, the more rounding is left
        level, off = rng.uniform(1, 2), 10 ** rng.uniform(-4, -1.3)
        numbers = sign * (level - np.where(sign < 0, off, 0)) * np.ones(shape)
        yield f"alternating numbers of {size:.0e}", size * numbers
