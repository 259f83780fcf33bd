"""The cells of an Arrow column: which are missing, and the others as numbers or as words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as _compute

compute: Any = _compute  # Arrow creates its functions on import, where no type checker can see them

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def is_text(column: pa.Array) -> bool:
    return pa.types.is_string(column.type)


def missing_cells(column: pa.Array, markers: Collection[str]) -> np.ndarray:
    """Which cells say "not known": nulls, the markers, and a float's NaN if "nan" is a marker."""
    if is_text(column):
        marked = compute.is_in(column, value_set=pa.array(list(markers), type=pa.string()))
    elif pa.types.is_floating(column.type) and {"nan", "NaN"} & set(markers):
        marked = compute.is_nan(column)
    else:
        marked = compute.is_null(column)
    return compute.or_kleene(marked, compute.is_null(column)).to_numpy(zero_copy_only=False)


def as_numbers(column: pa.Array, missing: np.ndarray, *, decimal: str) -> np.ndarray:
    """The cells as float64, NaN where they are missing.

    Raises:
        pa.ArrowInvalid: a cell of text is not a number; `first_failing` says which.
    """
    return compute.cast(
        number_text(column, missing, decimal=decimal), pa.float64(), safe=is_text(column)
    ).to_numpy(zero_copy_only=False)


def unreadable_cells(column: pa.Array, missing: np.ndarray, *, decimal: str) -> np.ndarray:
    """Which cells are present but not finite numbers."""
    try:
        found = as_numbers(column, missing, decimal=decimal)
    except pa.ArrowInvalid:
        text = number_text(column, missing, decimal=decimal)
        reads = compute.match_substring_regex(text, _NUMBER).fill_null(False)
        is_number = reads.to_numpy(zero_copy_only=False)
        found = as_numbers(column, missing | ~is_number, decimal=decimal)
    return ~np.isfinite(found) & ~missing


def number_text(column: pa.Array, missing: np.ndarray, *, decimal: str) -> pa.Array:
    """The cells as they are parsed: missing ones null, and a point for the decimal comma."""
    if missing.any():
        column = compute.if_else(pa.array(missing), pa.scalar(None, column.type), column)
    if decimal == "," and is_text(column):
        column = compute.replace_substring(column, ",", ".")
    return column


def as_words(column: pa.Array) -> pa.Array:
    """The cells as text. Whole numbers are written without a point, whatever type they are stored in.

    >>> as_words(pa.array([1.0, 2.5])).to_pylist()
    ['1', '2.5']
    """
    return column if is_text(column) else compute.cast(column, pa.string())


def first_failing(column: pa.Array, kind: pa.DataType) -> int:
    """The position of the first cell that cannot be cast to a type, given that one cannot."""
    low, high = 0, len(column)  # the first failing cell is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            compute.cast(column.slice(low, middle - low), kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
