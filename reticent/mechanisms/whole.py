"""Noise in whole numbers on a public grid: what is released is true of the bits, not only of real numbers.

A float with float noise on it has holes, ends and roundings that differ between neighbours. Here a value is
moved to whole multiples of a public step, noise of a discrete law is added in whole numbers, and only the
result becomes a float again, which is post-processing.

    sampler          its law                          random bits per number   off its law by less than
    whole_normals    e^(-k^2 / 2 deviation^2)         128 per level            2^-64
    whole_laplace    e^(-|k| / scale)                 160 per bit              2^-70
    choose           e^exponent                       256                      2^-90, to 2^60 candidates
                     (`choosing`)
    flip             a coin                           80                       2^-80

Noise of density e^(-epsilon |x| / max_norm) on a whole vector is in `vectors`. "Off" is total variation.
Every draw does the same work and takes the same number of random words, whatever comes of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.alias import DEVIATION, FIRST_BITS, HALF, normal_table
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.choosing import choose as choose

Shape = int | Sequence[int]

_MOST_LEVELS = 6  # what 64 bits hold
_FARTHEST = 1 << 51  # steps from zero up to which a quotient of floats is off by a quarter step at most
_FARTHEST_EXACT = 1 << 61  # where steps are powers of two or values whole, and quotients exact
_FINE = 2.0**-10  # by how much the rounding of values may widen the noise before more levels are taken
_PARTS = 1 << 16  # of a deviation of whole values: the grid is that fine, or finer
_MOST_PARTS = 1 << 50  # of one, so that 1 / (1 / parts) is whole again

_WORD, _TIE = 64, 16  # bits: a word is compared first, and where it ties another 16
_TAIL = 64  # scales: a geometric number beyond has probability e^-64 < 2^-92


def deviation_of(levels: int) -> float:
    """The deviation of the numbers that `whole_normals` draws: 400, 1.0e5, 2.6e7, 6.7e9, ..."""
    checks.count(levels=levels)
    if levels > _MOST_LEVELS:
        raise InvalidArgument(
            f"levels={levels} does not fit into 64 bits.", remedy=f"Use at most {_MOST_LEVELS}."
        )
    return DEVIATION * math.sqrt(sum(1 << (16 * level) for level in range(levels)))


def whole_normals(source: np.random.Generator, shape: Shape, *, levels: int = 3) -> np.ndarray:
    """Draws from the discrete normal law of deviation `deviation_of(levels)` around 0, as int64.

    X = X0 + 256 X1 + 65536 X2 + ..., each by one look-up in a table of deviation s = 400.

    Guarantee:
        Off the law by less than 2^-64: each table by 2^-78, each addition by 2^-67.

        The sum over all whole z of the N(c, t^2) density at z is within e(t) = 2 sum_m e^(-2 pi^2 t^2 m^2) of
        1, for every real c (Poisson). For Y of deviation D, P(Y + b X = x) sums e^(-z^2 / 2 s^2)
        e^(-(x - b z)^2 / 2 D^2) over z, which is e^(-x^2 / 2 (D^2 + b^2 s^2)) times a normal density in z of
        deviation t = s D / sqrt(D^2 + b^2 s^2). So the law is discrete normal up to a factor of
        (1 + e(t)) / (1 - e(t)). Here t > 1.5624 and e(t) < 2^-68 at every level.

        Around a whole k it is worth a real Gaussian release: drawing y from N(k, S^2 - t^2), and then a
        whole number by the discrete normal of deviation t around y, gives it up to another such factor.
        With t = 1.5625 that Gaussian is narrower than S by one part in 2^(16 levels + 1): callers here widen
        by twice that, or by 2^-50 where floats need more.
    """
    deviation_of(levels)
    total = np.zeros(shape, np.int64)
    for level in range(levels):
        total += draw_from_table(source, shape) << (8 * level)
    return total


def add_whole_normals(
    source: np.random.Generator,
    values: ArrayLike,
    *,
    max_norm: float,
    deviation: float,
    are_whole: bool = False,
) -> np.ndarray:
    """The values on their grid, with whole normals of at least `deviation`, as float64.

    Args:
        values: values farther than 2^51 steps from zero are clipped to there: some 10^7
            deviations or more.
        max_norm: how far neighbours' values may be apart, in L2.
        are_whole: values are counts; then the grid is 1/m for a whole m, and nothing is rounded.

    Guarantee:
        Costs no more than real Gaussian noise of `deviation` on values of that sensitivity, up to 2^-64 per
        number. Rounding moves each value by at most 3/4 of a step (1/2, and 1/4 for the quotient), so that
        neighbours are at most max_norm + 3/2 sqrt(size) steps apart; the noise is widened in proportion.

    Raises:
        InvalidArgument: a value is not finite, or not whole where it should be.
    """
    values = require_finite(values, are_whole=are_whole)
    levels, step = normal_grid(values.size, max_norm=max_norm, deviation=deviation, are_whole=are_whole)
    drawn = whole_normals(source, values.shape, levels=levels)
    if are_whole:
        return (_times(values, round(1 / step)) + drawn) / round(1 / step)
    with np.errstate(over="ignore"):
        steps = np.clip(np.rint(values / step), -_FARTHEST, _FARTHEST)
    return (steps.astype(np.int64) + drawn) * step


def normal_grid(
    size: int, *, max_norm: float, deviation: float, are_whole: bool = False
) -> tuple[int, float]:
    """The levels and the step with which `add_whole_normals` works: public, like all that they depend on."""
    checks.positive(max_norm=max_norm, deviation=deviation)
    if are_whole:
        levels, parts = parts_of_one(deviation)
        return levels, 1 / parts
    rounding = 1.5 * math.sqrt(size) * deviation / max_norm
    levels = _levels_for(rounding / _FINE)
    # S step = deviation (1 + 3/2 sqrt(size) step / max_norm), solved for the step
    step = deviation * _smooth(levels) / (deviation_of(levels) - rounding * _smooth(levels))
    if not 1e-300 < step < 1e280:
        raise _too_wide(deviation)
    return levels, step


def parts_of_one(deviation: float, *, fine: int = _PARTS) -> tuple[int, int]:
    """The levels and the m of a grid 1/m, with `fine` or more steps in a deviation.

    The noise has deviation deviation_of(levels) / m: no less than asked for, and hardly more.
    """
    checks.positive(deviation=deviation)
    levels = _levels_for(fine * deviation)
    parts = min(int(deviation_of(levels) / (deviation * _smooth(levels))), _MOST_PARTS)
    if not parts >= 1:
        raise _too_wide(deviation)
    return levels, parts


def whole_laplace(source: np.random.Generator, shape: Shape, scale: float) -> np.ndarray:
    """Draws from P(k) ~ e^(-|k| / scale) as int64: the difference of two geometric numbers.

    Guarantee:
        Off the law by less than 2^-70. The binary digits of a geometric number with ratio q = e^(-1 / scale)
        are independent, since q^k is the product of q^(2^i) over the digits of k that are 1: digit i is 1
        with probability q^(2^i) / (1 + q^(2^i)). Each is a comparison of 80 random bits with a threshold,
        off by 2^-80; numbers of 64 scales or more do not occur, which is off by 2^-92.
    """
    checks.positive(scale=scale)
    if not scale <= 2.0**54:
        raise _too_wide(scale)
    thresholds = digits_of(float(scale))
    pair = np.zeros((2, *_dimensions(shape)), np.int64)
    for digit, threshold in enumerate(thresholds):
        pair += is_below(source, threshold, pair.shape).astype(np.int64) << digit
    return pair[0] - pair[1]


def add_whole_laplace(
    source: np.random.Generator,
    values: ArrayLike,
    *,
    max_norm: float,
    scale: float,
    are_whole: bool = False,
) -> np.ndarray:
    """The values on their grid, a power of two, with whole Laplace noise of at least `scale`, as float64.

    Args:
        values: values farther than 2^61 steps from zero are clipped to there.
        max_norm: how far neighbours' values may be apart, in L1.
        are_whole: values are counts; then nothing is rounded.

    Guarantee:
        Pure epsilon max_norm / scale, up to 2^-70 per number. Rounding moves each value by at most half a
        step, so that neighbours are at most max_norm + size steps apart; the noise is widened in proportion.

    Raises:
        InvalidArgument: a value is not finite, or not whole where it should be.
    """
    values = require_finite(values, are_whole=are_whole)
    step, steps = laplace_grid(values.size, max_norm=max_norm, scale=scale, are_whole=are_whole)
    return (to_grid(values, step) + whole_laplace(source, values.shape, steps)) * step


def laplace_grid(size: int, *, max_norm: float, scale: float, are_whole: bool = False) -> tuple[float, float]:
    """The step with which `add_whole_laplace` works, and the scale of its noise in steps."""
    checks.positive(max_norm=max_norm, scale=scale)
    if are_whole:
        step = min(power_of_two(scale / 2**20), 1.0)
        return step, scale / step * (1 + 2.0**-50)
    wanted = min(scale / 2**20, max_norm / (2**13 * max(size, 1)))
    step = power_of_two(max(wanted, scale / 2**48))
    return step, scale / step * (1 + size * step / max_norm) * (1 + 2.0**-50)


def to_grid(values: ArrayLike, step: float) -> Int[np.ndarray, "*shape"]:
    """Values as whole multiples of a step that is a power of two: each moves by at most half a step.

    The quotient is exact, so that a value's place depends on nothing but the value.

    Example:
        >>> to_grid([0.3, -0.8], step=0.25).tolist()
        [1, -3]
    """
    values = require_finite(values)
    with np.errstate(over="ignore"):
        steps = np.clip(np.rint(values / step), -_FARTHEST_EXACT, _FARTHEST_EXACT)
    return steps.astype(np.int64)


def power_of_two(most: float) -> float:
    """The largest power of two that is not above `most`, for a step.

    Example:
        >>> power_of_two(0.3), power_of_two(1.0)
        (0.25, 1.0)
    """
    checks.positive(step=most)
    exponent = math.frexp(most)[1] - 1
    if not -900 <= exponent <= 900:
        raise _too_wide(most)
    return math.ldexp(1.0, exponent)


def flip(source: np.random.Generator, probability: float, shape: Shape) -> np.ndarray:
    """Coins that are True with this probability, off by less than 2^-80 each.

    Example:
        >>> source = np.random.default_rng(0)
        >>> flip(source, 1.0, 3).tolist(), flip(source, 0.0, 3).tolist()
        ([True, True, True], [False, False, False])
    """
    checks.probability(probability=probability)
    threshold = int(Fraction(probability) * (1 << (_WORD + _TIE)))
    return is_below(source, threshold, shape) | (probability == 1)


def draw_below(source: np.random.Generator, most: int, shape: Shape) -> np.ndarray:
    """Whole numbers from 0 to `most` - 1, all equally likely, as int64.

    96 random bits times `most`, without the fraction: off by less than most / 2^96.
    """
    checks.count(most=most)
    if most >= 1 << 31:
        raise InvalidArgument(f"most={most} is too large.", remedy="Use fewer than 2^31.")
    word, more = _words(source, shape), _words(source, shape) >> np.uint64(32)
    high, low = word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)
    factor, half = np.uint64(most), np.uint64(32)
    carried = (low * factor + (more * factor >> half)) >> half
    return ((high * factor + carried) >> half).astype(np.int64)


def draw_from_table(source: np.random.Generator, shape: Shape) -> np.ndarray:
    """Discrete normals of deviation 400: a cell by 13 bits, and 83 bits compared with its threshold."""
    table = normal_table()
    word, last = _words(source, shape), _words(source, shape) >> np.uint64(32)
    cell = (word >> np.uint64(64 - 13)).astype(np.int64)
    packed = table.first[cell].astype(np.uint64)
    alias = (packed >> np.uint64(FIRST_BITS)).astype(np.int64)
    first = packed & np.uint64((1 << FIRST_BITS) - 1)
    threshold = (first << np.uint64(32)) | table.second[cell].astype(np.uint64)
    coin = word & np.uint64((1 << 51) - 1)
    is_own = (coin < threshold) | ((coin == threshold) & (last < table.third[cell].astype(np.uint64)))
    return np.where(is_own, cell, alias) - HALF


@functools.lru_cache(maxsize=256)
def digits_of(scale: float) -> tuple[int, ...]:
    """In units of 2^-80, for each binary digit of a geometric number the probability that it is 1."""
    digits = max(math.ceil(math.log2(_TAIL * scale)), 1)
    with localcontext() as context:
        context.prec = 60
        exponents = [min(Decimal(1 << digit) / Decimal(scale), Decimal(200)) for digit in range(digits)]
        return tuple(int(Decimal(1 << (_WORD + _TIE)) / (1 + exponent.exp())) for exponent in exponents)


def is_below(source: np.random.Generator, threshold: int, shape: Shape) -> np.ndarray:
    """Whether 80 random bits are below the threshold."""
    word, tie = _words(source, shape), source.integers(0, 1 << _TIE, shape, dtype=np.uint16)
    threshold = min(threshold, (1 << (_WORD + _TIE)) - 1)
    high, low = np.uint64(threshold >> _TIE), np.uint16(threshold & ((1 << _TIE) - 1))
    return (word < high) | ((word == high) & (tie < low))


def _words(source: np.random.Generator, shape: Shape) -> np.ndarray:
    return source.integers(0, 1 << _WORD, shape, dtype=np.uint64)


def require_finite(values: ArrayLike, *, are_whole: bool = False) -> Float[np.ndarray, "*shape"]:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise InvalidArgument(
            f"Noise cannot hide what is not a number: {array.dtype} values of shape {array.shape}.",
            remedy="Clip the records first, so that every sum is finite.",
        )
    if are_whole and array.dtype.kind == "f" and np.any(array != np.rint(array)):
        raise InvalidArgument(
            "These values are declared whole, and some are not.", remedy="Leave out are_whole."
        )
    return array.astype(np.float64)


def _times(values: np.ndarray, parts: int) -> np.ndarray:
    """Whole values in units of 1 / parts, as int64."""
    limit = _FARTHEST_EXACT // parts
    return np.clip(values, -float(limit), float(limit)).astype(np.int64) * np.int64(parts)


def _levels_for(deviation: float) -> int:
    """The fewest levels with at least this deviation, or as many as there are."""
    fitting = (levels for levels in range(1, _MOST_LEVELS) if deviation_of(levels) >= deviation)
    return next(fitting, _MOST_LEVELS)


def _smooth(levels: int) -> float:
    return 1 + max(2.0 ** (-16 * levels), 2.0**-50)


def _dimensions(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int | np.integer) else tuple(shape)


def _too_wide(scale: float) -> InvalidArgument:
    return InvalidArgument(
        f"Noise of {scale:g} does not fit into 64 bits on any grid that would hold the values.",
        remedy="Use less noise, or values of an ordinary size.",
    )
