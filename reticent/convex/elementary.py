"""e^x and related functions, from additions, multiplications and divisions alone.

A certificate about a minimiser (`reticent.convex.minimise`) needs slopes whose error is known. How far off a
library's `exp` or `tanh` is depends on the machine; that every basic operation is rounded correctly is a
standard (IEEE 754) which all of them keep.
"""

from __future__ import annotations

import math

import numpy as np

_TERMS = {np.dtype(np.float64): 13}  # of the series: what is left out is below 2^-56 for |r| <= 0.36
_MORE_TERMS = 18  # for longer floats: 2^-80
_SMALLEST = -800.0  # below, e^x is 0
_AT_ONCE = 1 << 13  # numbers that fit into the cache of a processor
# log 2 in two parts of 32 bits, each of which times a whole number below 2^11 is exact, and the rest.
_LOG_2 = (2977044471 / 2**32, 3520035243 / 2**64, 4.275175589747649e-20)


def exp_below(x: np.ndarray) -> np.ndarray:
    """e^x for x <= 0, in the precision of x.

    Guarantee:
        The relative error is at most 16u, with u half a unit in the last place of 1, or the absolute one at
        most 2^-1074. With k = rint(x / log 2) and r = x - k log 2, |r| <= 0.36, e^x is 2^k e^r. The first
        difference is exact or below the sizes of its terms, so r is off by at most 3u; Horner's rule adds
        less than 6u, its coefficients and the rest of the series 2u, and multiplying by 2^k nothing.
    """
    found = np.empty_like(x, order="C")
    for start in range(0, x.size, _AT_ONCE):
        found.reshape(-1)[start : start + _AT_ONCE] = _exp(x.reshape(-1)[start : start + _AT_ONCE])
    return found


def _exp(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, _SMALLEST)
    k = np.rint(x * (1 / math.log(2)))
    r = x
    for part in _LOG_2:
        r = r - k * part
    terms = _TERMS.get(x.dtype, _MORE_TERMS)
    total = np.full_like(r, 1 / x.dtype.type(math.factorial(terms)))
    for term in range(terms - 1, -1, -1):
        total *= r
        total += 1 / x.dtype.type(math.factorial(term))
    return np.ldexp(total, k.astype(np.int32))


def expit(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x), off by at most 20u."""
    small = exp_below(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1 + small)
