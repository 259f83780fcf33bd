"""Tables for drawing from a fixed law by one look-up: Walker's alias method, in whole numbers.

A draw takes a cell of the table by 13 bits, then compares up to 83 more bits with the cell's threshold: below
it the draw is the cell's own value, else the cell's alias. Every draw does the same work, so its time tells
nothing about its value.

Reference:
    Walker (1977), An efficient method for generating discrete random variables with general distributions.
    Vose (1991), A linear algorithm for generating random numbers with a given distribution.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np

INDEX_BITS = 13
FIRST_BITS = 32 - INDEX_BITS  # of the threshold that stand beside the index in one word
CELLS = 1 << INDEX_BITS
HALF = CELLS // 2  # cell i stands for the value i - HALF
_THRESHOLD_BITS = FIRST_BITS + 64
_CELL = 1 << _THRESHOLD_BITS  # the mass of a cell; all masses of a table add up to CELLS of them

DEVIATION = 400  # of the table of normals: its ends are 10.24 deviations away


class AliasTable(NamedTuple):
    """The cells of a table as uint32.

    Args:
        first: the alias in the upper 13 bits, the first 19 bits of the threshold in the lower.
        second, third: the next 32 bits of the threshold each, for words that agree so far.
    """

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray


@functools.cache
def normal_masses() -> tuple[int, ...]:
    """P(k) in units of 2^-96, for the whole numbers k from -4096 to 4095: proportional to e^(-k^2 / 2 400^2).

    Guarantee:
        Off the law on all whole numbers by less than 2^-78 in total variation: 2^-79 for what lies beyond
        the ends, 2^-84 for rounding the masses.
    """
    with localcontext() as context:
        context.prec = 80
        ratio = (Decimal(-1) / (2 * DEVIATION**2)).exp()
        weights, weight, step = [], Decimal(1), ratio
        for _ in range(HALF + 1):
            weights.append(weight)
            weight, step = weight * step, step * ratio * ratio  # (k + 1)^2 - k^2 = 2k + 1
        total = 2 * sum(weights[1:HALF]) + weights[0] + weights[HALF]
        scale = Decimal(CELLS * _CELL) / total
        masses = [int((weight * scale).to_integral_value()) for weight in weights]
    law = [masses[abs(cell - HALF)] for cell in range(CELLS)]
    law[HALF] += CELLS * _CELL - sum(law)  # what rounding left over
    return tuple(law)


@functools.cache
def normal_table() -> AliasTable:
    return alias_table(normal_masses())


def alias_table(masses: Sequence[int]) -> AliasTable:
    """The table of a law given in units of 2^-96, exactly."""
    if len(masses) != CELLS or sum(masses) != CELLS * _CELL or min(masses) < 0:
        raise AssertionError("a law has 8192 masses that add up to 2^96")
    return _pack(*_find_aliases(masses, _CELL), FIRST_BITS)


def _find_aliases(masses: Sequence[int], cell_mass: int) -> tuple[list[int], list[int]]:
    """The alias and the threshold of each cell; all masses together fill the cells."""
    left = list(masses)
    alias, threshold = list(range(len(left))), [cell_mass - 1] * len(left)  # a whole cell is its own alias
    small = [cell for cell, mass in enumerate(left) if mass < cell_mass]
    large = [cell for cell, mass in enumerate(left) if mass >= cell_mass]
    while small:
        poor, rich = small.pop(), large[-1]
        alias[poor], threshold[poor] = rich, left[poor]
        left[rich] -= cell_mass - left[poor]
        if left[rich] < cell_mass:
            small.append(large.pop())
    return alias, threshold


def _pack(alias: Sequence[int], threshold: Sequence[int], first_bits: int) -> AliasTable:
    words = [(t >> 64, (t >> 32) & 0xFFFFFFFF, t & 0xFFFFFFFF) for t in threshold]
    first, second, third = (np.array(part, np.uint64) for part in zip(*words, strict=True))
    packed = (np.array(alias, np.uint64) << np.uint64(first_bits)) | first
    return AliasTable(*(part.astype(np.uint32) for part in (packed, second, third)))


ROUNDING = Decimal("1.6")  # the deviation of rounding by chance
FRACTION_BITS = 8
OUTCOME_BITS = 5  # of the whole numbers that a fraction is rounded to: from FEWEST on
FEWEST = -15
OUTCOME_FIRST_BITS = 32 - OUTCOME_BITS


@functools.cache
def rounding_masses(fraction: int) -> tuple[int, ...]:
    """P(k) in units of 2^-96, for the whole numbers k from -15 to 16: a normal law around fraction / 256.

    Guarantee:
        Off the law on all whole numbers by less than 2^-73 in total variation: what lies beyond the ends is
        16 or more away, ten deviations.
    """
    outcomes = range(FEWEST, FEWEST + (1 << OUTCOME_BITS))
    with localcontext() as context:
        context.prec = 80
        wide, slope = 2 * ROUNDING**2, (Decimal(fraction) / (1 << FRACTION_BITS) / ROUNDING**2).exp()
        # e^(-(k - c)^2 / 2 r^2) is e^(-k^2 / 2 r^2) times the k-th power of e^(c / r^2), times what all have
        # in common.
        weights = [_bell(abs(k), wide) * slope**k for k in outcomes]
        scale = Decimal(1 << 96) / sum(weights)
        masses = [int((weight * scale).to_integral_value()) for weight in weights]
    masses[-FEWEST] += (1 << 96) - sum(masses)  # what rounding left over
    return tuple(masses)


@functools.cache
def _bell(distance: int, wide: Decimal) -> Decimal:
    return (-(distance**2) / wide).exp()


@functools.cache
def rounding_table() -> AliasTable:
    """The tables of all fractions, one after the other: the cell of outcome o and fraction f is 32 f + o."""
    alias: list[int] = []
    threshold: list[int] = []
    for fraction in range(1 << FRACTION_BITS):
        own_alias, own_threshold = _find_aliases(rounding_masses(fraction), 1 << (96 - OUTCOME_BITS))
        alias += own_alias
        threshold += own_threshold
    return _pack(alias, threshold, OUTCOME_FIRST_BITS)
