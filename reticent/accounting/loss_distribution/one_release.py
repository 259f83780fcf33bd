"""The epsilon of a single release: read off its pair, without a lattice.

delta is P - e^epsilon Q of the losses above epsilon, which a pair knows to nearly all digits.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.accounting.loss_distribution.pairs import UNIT, Pair
from reticent.accounting.search import bisect

_FARTHEST = 700.0  # e^epsilon has no float far beyond it: Q is left out
_ENOUGH = 1e-10  # relative


def upper_of_one(pair: Pair, delta: float) -> float:
    """The smallest certified epsilon at `delta`; infinity when there is none."""
    top = _top(pair)

    def is_enough(epsilon: float) -> bool:
        return _delta(pair, epsilon, is_upper=True) <= delta

    if is_enough(0.0):
        return 0.0
    return bisect(is_enough, 0.0, top, relative=_ENOUGH) if is_enough(top) else math.inf


def lower_of_one(pair: Pair, delta: float) -> float:
    """An epsilon that the release certainly exceeds or equals at `delta`."""
    low, high = 0.0, _top(pair)
    if not _delta(pair, 1e-12, is_upper=False) >= delta:
        return 0.0
    while high - low > _ENOUGH * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _delta(pair, middle, is_upper=False) >= delta:
            low = middle
        else:
            high = middle
    return low


def _top(pair: Pair) -> float:
    return max(pair.span()[1], 1e-300) * (1 + 1e-9)


def _delta(pair: Pair, epsilon: float, *, is_upper: bool) -> float:
    """What an epsilon costs, rounded up or down: section 3.6 of docs/accounting.md."""
    p, q, p_error, q_error = (float(part[-1]) for part in pair.masses(np.array([epsilon])))
    if epsilon > _FARTHEST:
        return p + p_error if is_upper else -math.inf
    grown = math.exp(epsilon)
    error = p_error + grown * q_error + 32 * UNIT * (1 + epsilon) * (p + grown * q)
    found = p - grown * q
    return found + error if is_upper else found - error
