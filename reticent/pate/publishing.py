"""A private number with noise in proportion to its smooth sensitivity, in whole numbers on a public grid.

How much noise there is is private as well, so the grid follows from a public bound and not from it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from reticent.core import checks
from reticent.core.alias import DEVIATION
from reticent.mechanisms.vectors import squares
from reticent.mechanisms.whole import draw_from_table, power_of_two, require_finite

SLOWER = 1 - 2.0**-20  # times beta: what is smooth at this rate is smooth at beta after rounding
_FLOOR = 2.0**-20  # of the public bound: added to every smooth sensitivity
_STEPS = DEVIATION * 2.0**34  # of the grid, in a deviation of the noise at the floor
_BASES = 7  # of the squares that make up a variance of up to 2^108 times the table's
_SHORT = 13  # by which squares may be short, and one for cutting
_ROUNDING = 1 + 2.0**-40


def add_floor(smooth: float, most: float) -> float:
    """A smooth sensitivity and a little more: what the noise is in proportion to.

    A number that is added to all, and an end that is the same for all, leave it as smooth as it was. What is
    added covers that values are rounded to the grid, and that costs are computed in floats.
    """
    checks.positive(most=most)
    checks.not_negative(smooth=smooth)
    return min(smooth, most) + _FLOOR * most


def grid_of(most: float, sigma: float) -> float:
    """The public step."""
    return power_of_two(_FLOOR * most * sigma / _STEPS)


def add_smooth_noise(
    source: np.random.Generator, value: float, smooth: float, *, sigma: float, most: float
) -> float:
    """The value on the grid with discrete normal noise of `sigma` times `smooth`.

    Args:
        smooth: from `add_floor`, with what is smooth at `SLOWER` times beta.
        most: a public bound on every smooth sensitivity.

    Guarantee:
        Up to 2^-64, post-processing of real Gaussian noise around the value on the grid, whose deviation is
        at least sigma times `smooth` and more by less than one part in 2^39: see `whole_normals`, and
        `squares` for a variance that no public number determines. As many words are drawn whatever it is.
    """
    checks.positive(sigma=sigma, smooth=smooth)
    step = grid_of(most, sigma)
    steps = Fraction(sigma) * Fraction(smooth) * Fraction(_ROUNDING) / Fraction(step)
    coefficients = squares(math.floor(steps * steps / DEVIATION**2) + _SHORT, _BASES)
    drawn = draw_from_table(source, len(coefficients)).tolist()
    noise = sum(coefficient * one for coefficient, one in zip(coefficients, drawn, strict=True))
    return float(round(Fraction(float(require_finite(value))) / Fraction(step)) + noise) * step
