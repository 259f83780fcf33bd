"""Whether an extractor treats each record by itself: tried on made-up records, never on private ones.

One call per record keeps records of one batch apart. What it cannot keep apart is a function with a memory:
running statistics, dropout, a cache that it fills wrongly. So some records are asked about twice, in two
orders, and the answers have to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reticent.core.errors import DataError
from reticent.features.extractor import Extractor

_ROUNDING = 1e-4  # of the length of a row: what threads may change by adding in another order
_TEXTS = ("", "a", "The quick brown fox jumps over the lazy dog.", "0 1 2 3", "à bientôt")


def require_alone(extractor: Extractor, probes: Sequence[Any] | np.ndarray) -> int:
    """Asks about records alone and again in another order; returns how many numbers a row has.

    Args:
        probes: a few records that are nobody's.

    Raises:
        DataError: an answer depends on what was asked before.

    Example:
        >>> from reticent.features.extractor import from_function
        >>> seen = []
        >>> def with_memory(record):
        ...     seen.append(float(record[0]))
        ...     return [sum(seen)]
        >>> require_alone(from_function(with_memory, name="sum", digest="3"), np.eye(3, dtype=np.float32))
        Traceback (most recent call last):
            ...
        reticent.core.errors.DataError: 'sum' says something else of a record when it is asked again after
        others: a row of features may depend on one record alone. Put it into inference mode (batch norm,
        dropout), or give a function without memory.
    """
    first = [extractor.row(probe) for probe in probes]
    backwards = [extractor.row(probe) for probe in reversed(list(probes))][::-1]
    rows = [first, backwards]
    if extractor.apply_rows is not None and isinstance(probes, np.ndarray):
        padded = np.zeros((extractor.at_once, *probes.shape[1:]), probes.dtype)
        padded[: len(probes)] = probes
        rows.append(list(extractor.apply_rows(padded)[: len(probes)]))
    for again in rows[1:]:
        for one, other in zip(first, again, strict=True):
            if one.shape != other.shape or not (
                np.linalg.norm(one - other) <= _ROUNDING * max(np.linalg.norm(one), 1e-6)
            ):
                raise DataError(
                    f"'{extractor.name}' says something else of a record when it is asked again after "
                    "others: a row of features may depend on one record alone.",
                    remedy="Put it into inference mode (batch norm, dropout), or give a function without "
                    "memory.",
                )
    return len(first[0])


def probes_like(records: Sequence[Any] | np.ndarray) -> Sequence[Any] | np.ndarray:
    """A few made-up records of the same type and shape: all that is looked at of the given ones."""
    if hasattr(records, "content"):
        return np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)
    if not isinstance(records, np.ndarray) or records.dtype.kind in "OUST":
        return _TEXTS
    rng = np.random.default_rng(0)
    shape = (4, *records.shape[1:])
    if np.issubdtype(records.dtype, np.integer):
        return rng.integers(0, 256, shape).astype(records.dtype)
    return rng.normal(size=shape).astype(records.dtype)
