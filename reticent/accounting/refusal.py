"""What is not a number is not a bound: it counts as infinite.

Comparisons that decide about privacy are written so that NaN refuses: `not x <= limit`, never `x > limit`.
`min` and `max`, which keep or drop NaN by the order of their arguments, are given numbers only.
"""

from __future__ import annotations

import math

import numpy as np


def or_infinite(bound: float) -> float:
    """An upper bound on an epsilon, a divergence or a delta; infinity where it is not a bound.

    >>> or_infinite(1.5), or_infinite(math.nan), or_infinite(-1.0)
    (1.5, inf, inf)
    """
    return bound if bound >= 0 else math.inf


def smallest(bounds: np.ndarray) -> float:
    """The best of several valid upper bounds, never below 0. Those that are not numbers claim nothing.

    Example:
        >>> smallest(np.array([3.0, 1.5, math.nan])), smallest(np.array([math.nan]))
        (1.5, inf)
    """
    usable = bounds[~np.isnan(bounds)]
    return max(float(usable.min()), 0.0) if len(usable) else math.inf
