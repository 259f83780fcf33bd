"""Which public records to ask about: looks at public records alone, so it costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.core import checks


def at_random(pool: int, queries: int, *, seed: int | np.random.Generator | None = None) -> np.ndarray:
    """So many rows of the pool, each at most once, in random order."""
    checks.count(pool=pool, queries=queries)
    return np.random.default_rng(seed).permutation(pool)[:queries]


def far_apart(features: Any, queries: int, *, seed: int | np.random.Generator | None = None) -> np.ndarray:
    """Rows that cover the pool: each is drawn with probability proportional to its squared distance from
    those before it.

    Reference:
        Arthur and Vassilvitskii (2007), k-means++: the advantages of careful seeding, Section 2.2.
    """
    rows = np.asarray(features, np.float32).reshape(len(features), -1)
    checks.count(queries=queries)
    source = np.random.default_rng(seed)
    if queries >= len(rows):
        return source.permutation(len(rows))
    lengths = np.square(rows).sum(axis=1)
    chosen = [int(source.integers(len(rows)))]
    apart = np.full(len(rows), np.inf, np.float32)
    while len(chosen) < queries:
        last = chosen[-1]
        apart = np.minimum(apart, np.maximum(lengths + lengths[last] - 2 * rows @ rows[last], 0))
        apart[last] = 0
        total = apart.sum(dtype=np.float64)
        if total <= 0:  # only copies of what was chosen are left
            left = np.setdiff1d(np.arange(len(rows)), chosen)
            return np.append(chosen, source.permutation(left)[: queries - len(chosen)])
        place = source.random() * total
        chosen.append(int(np.searchsorted(np.cumsum(apart, dtype=np.float64), place, side="right")))
    return np.asarray(chosen)
