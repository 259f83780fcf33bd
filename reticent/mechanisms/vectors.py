"""Noise on a whole vector with density e^(-rate |x|), L2 norm, in whole numbers on a public grid.

That density is a mixture of normal ones: with a variance V drawn from Gamma((d + 1) / 2, rate^2 / 2), normals
of variance V in d dimensions have it, since the integral of V^(-1/2) e^(-r^2 / 2V - rate^2 V / 2) over V is
proportional to e^(-rate r). So V is drawn first, to 70 bits, and then whole normals of that variance.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.alias import DEVIATION
from reticent.mechanisms.whole import (
    digits_of,
    draw_from_table,
    is_below,
    power_of_two,
    require_finite,
    whole_normals,
)

_BITS = 72  # behind the point of an exponential number
_VARIANCE = 68  # bits of the variance, in units of 400^2 squared steps, where V is of its usual size
_BASES, _SQUARES = 5, 6  # whole numbers whose squares add up to that variance


def add_whole_vector_laplace(
    source: np.random.Generator, values: ArrayLike, *, max_norm: float, epsilon: float
) -> np.ndarray:
    """The values on a grid, with noise of density e^(-epsilon |x| / max_norm), as float64.

    Args:
        values: all of the vector, of any shape.
        max_norm: how far neighbours' vectors may be apart, in L2.

    Guarantee:
        `epsilon`-DP, up to 2^-60 per number in total variation. Rounding moves each value by at most half a
        step, so that neighbours are at most max_norm + sqrt(d) steps apart; the noise is widened in
        proportion. Given V, the noise is discrete normal: off post-processing of the real normal noise by
        2^-64 per number, as in `whole_normals`. A variance that is off V by a factor 1 + x costs
        sqrt(d) |x| / 2 (Pinsker's inequality), and x is 10 / 2^68 for squares that do not quite add up
        and 2^-72 for the digits of V, times how much smaller than usual V came out: at most thrice in the
        mean in two or more dimensions, 45 times in one.
    """
    checks.positive(max_norm=max_norm, epsilon=epsilon)
    values = require_finite(values)
    step = vector_grid(values.size, max_norm=max_norm, epsilon=epsilon)
    rate = rate_in_steps(values.size, step, max_norm=max_norm, epsilon=epsilon)
    # In units of the table's variance, rounded up so that it is never 0.
    variance = 2 * _gamma(source, values.size) / (rate * rate * DEVIATION**2)
    noise = np.zeros(values.shape, np.int64)
    for coefficient in squares(math.floor(variance) + 1):
        noise += draw_from_table(source, values.shape) * np.int64(coefficient)
    with np.errstate(over="ignore"):
        steps = np.clip(np.rint(values / step), -(2.0**1000), 2.0**1000)
    places = zip(steps.ravel().tolist(), noise.ravel().tolist(), strict=True)
    return np.array([float(int(place) + moved) for place, moved in places]).reshape(values.shape) * step


def vector_grid(size: int, *, max_norm: float, epsilon: float) -> float:
    """The step: the usual length of the noise on a number, over 2^42 or more."""
    usual = math.sqrt(size + 1) * max_norm / epsilon
    return power_of_two(usual / (DEVIATION * 2.0 ** (_VARIANCE / 2)))


def rate_in_steps(size: int, step: float, *, max_norm: float, epsilon: float) -> Fraction:
    """How fast the density falls with each step: epsilon over how many neighbours may be apart."""
    return Fraction(epsilon) / (Fraction(max_norm) / Fraction(step) + math.isqrt(size) + 1)


def squares(total: int, bases: int = _BASES) -> list[int]:
    """`bases` + 6 whole numbers whose squares add up to `total`, or to less by at most 12 (8 for five bases).

    Args:
        total: below 65536^bases, for seven bases or fewer.

    First 1, 256, 256^2, ... as far as they fit, then the roots of what is left. So no number is more than 256
    times the root of the squares before it: adding up normals of these deviations stays smooth, as in
    `whole_normals`. What does not fit is 0, and is drawn all the same.
    """
    if not total < 65536**bases:
        raise AssertionError(f"{bases} bases cannot reach {total} smoothly")
    found = []
    for base in range(bases):
        found.append(256**base if total >= 65536**base else 0)
        total -= found[-1] ** 2
    for _ in range(_SQUARES):
        found.append(math.isqrt(total))
        total -= found[-1] ** 2
    return found


def _gamma(source: np.random.Generator, size: int) -> Fraction:
    """A number of the law Gamma((size + 1) / 2), to 72 bits behind the point.

    The sum of exponential numbers, and half a squared normal one where `size` is even. Cut after 72 bits, an
    exponential number is geometric with ratio e^(-2^-72), and so has independent binary digits.
    """
    total = 0
    for digit, threshold in enumerate(digits_of(2.0**_BITS)):
        total += int(is_below(source, threshold, (size + 1) // 2).sum()) << digit
    found = Fraction(total, 1 << _BITS)
    if size % 2 == 0:
        high, low = (int(number) for number in whole_normals(source, 2, levels=6))
        deviation = DEVIATION**2 * sum(65536**level for level in range(12))
        found += Fraction(((high << 48) + low) ** 2, 2 * deviation)
    return found
