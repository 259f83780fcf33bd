"""Group privacy: what a guarantee for one record says about k of them."""

from __future__ import annotations

import math

from reticent.core import checks


def pure(epsilon: float, size: int) -> float:
    """epsilon-DP for one record is (k epsilon)-DP for k.

    Example:
        >>> pure(0.5, size=3)
        1.5
    """
    checks.not_negative(epsilon=epsilon)
    checks.count(size=size)
    return size * epsilon


def approximate(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(epsilon, delta)-DP for one record, for k: delta grows by the geometric sum of e^epsilon.

    >>> "{:.7e}".format(approximate(0.5, 1e-6, 3)[1])
    '5.3670031e-06'

    Guarantee:
        (k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1)): each of the k steps from one dataset
        to the other multiplies what came before by e^epsilon and adds delta.
    """
    checks.not_negative(epsilon=epsilon, delta=delta)
    checks.count(size=size)
    if epsilon == 0:
        return 0.0, min(size * delta, 1.0)
    if size == 1 or delta == 0:
        return size * epsilon, min(delta, 1.0)
    if not size * epsilon <= 700:
        return size * epsilon, 1.0
    return size * epsilon, min(delta * (math.expm1(size * epsilon) / math.expm1(epsilon)), 1.0)


def approximate_simple(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """The form most lectures print: (k epsilon, k e^{(k-1) epsilon} delta). Looser than `approximate`.

    >>> "{:.7e}".format(approximate_simple(0.5, 1e-6, 3)[1])
    '8.1548455e-06'
    """
    checks.not_negative(epsilon=epsilon, delta=delta)
    checks.count(size=size)
    if delta == 0 or not (size - 1) * epsilon <= 700:
        return size * epsilon, 1.0 if delta > 0 else 0.0
    return size * epsilon, min(size * math.exp((size - 1) * epsilon) * delta, 1.0)
