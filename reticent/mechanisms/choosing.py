"""A choice among several by weights that are whole numbers: what the exponential mechanism needs."""

from __future__ import annotations

import functools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.errors import InvalidArgument

_CUT = 96  # bits behind the point of an exponent
_WEIGHT = 160  # and of a weight
_BYTES = 13  # of an exponent: one before the point, since e^-256 is below 2^-160
_CHOICE = 256  # bits that decide between weights


def choose(source: np.random.Generator, exponents: Any) -> int:
    """The index of one exponent, with probability proportional to e^exponent; minus infinity is never chosen.

    Guarantee:
        Off the law by less than 2^-90, for up to 2^60 candidates. Exponents are cut after 96 bits behind the
        point. A weight is the product of 13 factors from a table, in whole numbers with 160 bits behind the
        point, and off by less than 2^-155. 256 random bits, as a fraction of the sum of all weights, are
        compared with every partial sum.

    Example:
        >>> choose(np.random.default_rng(0), [-math.inf, 0.0, -math.inf])
        1
    """
    exponents = np.asarray(exponents, np.float64)
    if exponents.ndim != 1 or not len(exponents) or not np.all(exponents < math.inf):
        raise InvalidArgument(
            f"Exponents of shape {exponents.shape} are not a list of candidates, or one is not a number.",
            remedy="Pass a list of finite exponents (minus infinity for what may not be chosen).",
        )
    finite = np.maximum(exponents, -1e200)
    if not finite.max() > -1e200:
        raise InvalidArgument("No candidate can be chosen.", remedy="Give at least one a finite exponent.")
    cut = [_cut(exponent) for exponent in finite.tolist()]
    largest = max(cut)
    return int(_pick(source, np.array([[_weight(largest - one) for one in cut]], dtype=object))[0])


def choose_whole(
    source: np.random.Generator, scores: ArrayLike, unit: Fraction, *, most: int | None = None
) -> np.ndarray:
    """For each row of whole scores the index of one, with probability proportional to e^(unit * score).

    `choose` for exponents that no float holds exactly. A row is the last axis.

    Args:
        most: scores of a row are known to be no farther apart: then there are so few weights that all of
            them are computed once, which is faster for many rows.
    """
    scores = np.asarray(scores)
    if scores.dtype.kind not in "iu" or not scores.shape or not scores.shape[-1]:
        raise InvalidArgument(
            f"Scores of {scores.dtype} and shape {scores.shape} are not rows of whole numbers.",
            remedy="Move them to a grid first.",
        )
    top, bottom = (unit * (1 << _CUT)).as_integer_ratio()
    rows = scores.reshape(-1, scores.shape[-1]).astype(object)
    behind = rows.max(axis=1, keepdims=True) - rows if len(rows) else rows
    if most is None:
        weights = np.asarray(np.frompyfunc(lambda score: _weight(score * top // bottom), 1, 1)(behind))
    else:
        all_of_them = np.array([_weight(score * top // bottom) for score in range(most + 1)], dtype=object)
        weights = all_of_them[behind.astype(np.int64)]
    return _pick(source, weights).reshape(scores.shape[:-1])


def _cut(exponent: float) -> int:
    """In units of 2^-96."""
    numerator, denominator = exponent.as_integer_ratio()
    return (numerator << _CUT) // denominator


def _pick(source: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """For each row of whole weights the index of one."""
    words = source.integers(0, 1 << 64, (len(weights), _CHOICE // 64), dtype=np.uint64).astype(object)
    place = sum(words[:, i] << (64 * i) for i in range(_CHOICE // 64)) * weights.sum(axis=1)
    partial = np.cumsum(weights, axis=1)[:, :-1] << _CHOICE
    return (partial <= place[:, None]).sum(axis=1).astype(np.int64)


def _weight(amount: int) -> int:
    """e^-y in units of 2^-160, for y in units of 2^-96: one factor for each byte of y."""
    tables = _factors()
    is_far = amount >> (8 * _BYTES) > 0
    amount = min(amount, (1 << (8 * _BYTES)) - 1)
    weight = 1 << _WEIGHT
    for table in tables:
        weight = weight * table[amount & 255] >> _WEIGHT
        amount >>= 8
    return 0 if is_far else weight


@functools.cache
def _factors() -> tuple[tuple[int, ...], ...]:
    """e^(-byte 256^place / 2^96), in units of 2^-160."""
    with localcontext() as context:
        context.prec = 70
        return tuple(
            tuple(
                int((Decimal(-byte * 256**place) / (1 << _CUT)).exp() * (1 << _WEIGHT)) for byte in range(256)
            )
            for place in range(_BYTES)
        )
