"""How likely a Poisson batch is to exceed its capacity, for any number of examples."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from scipy.special import betainc

from reticent.accounting.loss_distribution.pairs import UNIT

_SLACK_OF_TAIL = 1e-9  # relative; a test finds the computed tail right to 1e-10
_WHOLE = 2**53  # up to here a float holds every whole number


def overfull(capacity: int, most: int, rate: float) -> float:
    """The probability that more than `capacity` of `most` records join a batch, rounded up.

    Guarantee:
        Where the special function gives what no such probability can be (NaN, or a value outside of
        `_chernoff`), it is Chernoff's bound; where that has no value either, 1. Never less than the
        smallest normal float, unless there is room for all or nobody joins.

    Example:
        >>> overfull(capacity=10, most=10, rate=0.5), f"{overfull(capacity=9, most=10, rate=0.5):.3e}"
        (0.0, '9.766e-04')
    """
    if capacity >= most or rate == 0:
        return 0.0
    try:
        # A larger n and a smaller k both make the tail heavier.
        n, others, k = (
            _to_float(most, math.inf),
            _to_float(most - capacity, math.inf),
            _to_float(capacity + 1, 0.0),
        )
    except OverflowError:
        return 1.0
    if not 0 < rate < 1:
        return 1.0
    bounds = _chernoff(k, n, rate)
    tail = float(betainc(k, others, rate))
    if 0 < tail <= 1 and bounds.log_lower <= math.log(tail) <= bounds.log_upper:
        found = tail * (1 + _SLACK_OF_TAIL)
    else:
        found = math.exp(min(0.0, bounds.log_upper))  # of NaN, `min` keeps the 0
    return min(max(found, sys.float_info.min), 1.0)


class _Bounds(NamedTuple):
    log_lower: float
    log_upper: float


def _chernoff(k: float, n: float, rate: float) -> _Bounds:
    """Bounds on ln P(K >= k) for a binomial K.

    For k above the mean: C = exp(-n KL(k/n || rate)), and C / sqrt(8 k (n - k) / n), which already bounds
    P(K = k) from below. Else 1 and 1/2: no median is below the mean, rounded down.

    Reference:
        Ash (1965), Information Theory, Lemmas 4.7.1 and 4.7.2.
    """
    mean, rest = n * rate, n - k
    if not k > mean:
        return _Bounds(-math.log(2) - 4 * UNIT, 0.0)
    first = k * math.log(k / mean)
    shrink = (k - mean) / (n * (1 - rate))
    if not rest > 0:
        second = 0.0
    elif shrink < 0.5:
        second = rest * math.log1p(-shrink)
    else:
        second = rest * math.log(rest / (n * (1 - rate)))
    error = 32 * UNIT * (k + abs(first) + abs(second))  # terms before they cancel
    gap = 0.5 * math.log(8 * k * (rest / n)) if rest > 0 else 0.0
    return _Bounds(-(first + second) - gap - error, -(first + second) + error)


def _to_float(whole: int, toward: float) -> float:
    """A float on that side of a whole number, or the number itself."""
    return float(whole) if whole <= _WHOLE else math.nextafter(float(whole), toward)
