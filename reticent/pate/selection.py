"""Which public records to ask about: chosen from public data alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.core import checks


def choose(features: Any, count: int, *, seed: int = 0) -> np.ndarray:
    """Rows of the pool, by chance: (count,), each once."""
    checks.count(count=count)
    return np.random.default_rng(seed).permutation(len(features))[:count]
