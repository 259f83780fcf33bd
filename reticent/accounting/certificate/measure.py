"""Losses on a lattice as whole numbers, composed exactly and rounded up.

Every mass is a whole multiple of 2^-bits, never less than the true one. What an epsilon costs,

    delta = sum of mass(x) (1 - e^(epsilon - x)) over the losses x > epsilon, and the mass of infinite losses,

grows when mass is added and when mass moves to a larger loss. So an upper bound stays one when masses are
rounded up, when what lies left of the lattice moves to its first point, and when what lies right of it counts
as infinite. Products of polynomials with whole coefficients are exact: no transform is rounded.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from reticent.accounting.certificate.balls import Ball, BallPair, Undecided, ball_of

MOST_POINTS = 2**22  # of a composed lattice


class TooLarge(ArithmeticError):
    """A lattice has more points than anybody wants to wait for."""


class Cells(NamedTuple):
    """The losses offset + i spacing for i from `first` to `last`."""

    spacing: Fraction
    offset: Fraction
    first: int
    last: int


class LossMeasure(NamedTuple):
    """P masses of the lattice points from `first` on, and of an infinite loss, in units of 2^-bits.

    masses: a polynomial with whole coefficients: a product of two adds up independent losses, and is exact.
    """

    first: int
    masses: Any
    infinite: Any


def round_up(pair: BallPair, cells: Cells, bits: int) -> LossMeasure:
    """One release on the lattice: the mass of every cell goes to its ends, so that P and Q masses are kept.

    Between the losses l and l + h let P and Q have masses p and q. Then `upper` at l + h and `lower` at l
    with upper + lower = p and upper e^-h + lower = q e^l is the chord of a convex function: above it
    everywhere (Doroshenko et al. 2022).
    """
    from flint import fmpz_poly

    edges = [ball_of(cells.offset + i * cells.spacing) for i in range(cells.first, cells.last + 1)]
    shrink = (-ball_of(cells.spacing)).exp()
    found = pair.split(edges[0])
    masses, infinite = [found.p_below], found.p_above
    for low, high in pairwise(edges):
        before, found = found, pair.split(high)
        p = _between(before.p_below, found.p_below, before.p_above, found.p_above)
        q = _between(before.q_below, found.q_below, before.q_above, found.q_above)
        grown = q * low.exp()
        masses[-1] += (grown - shrink * p) / (1 - shrink)
        masses.append((p - grown) / (1 - shrink))
        infinite = found.p_above
    return LossMeasure(cells.first, fmpz_poly([_ceil(mass, bits) for mass in masses]), _ceil(infinite, bits))


def power(base: LossMeasure, times: int, bits: int, cut: int) -> LossMeasure:
    """The sum of `times` independent losses, by repeated squaring.

    cut: about how much mass may move to the first point, and how much to infinity.
    """
    result, copies = base, 1
    for digit in bin(times)[3:]:
        result, copies = multiply(result, result, bits), 2 * copies
        if digit == "1":
            result, copies = multiply(result, base, bits), copies + 1
        share = 128 * (times // copies + 1)  # this often what is cut now is counted later
        result = _trim(result, cut // share)
    return result


def multiply(one: LossMeasure, other: LossMeasure, bits: int) -> LossMeasure:
    """The sum of two independent losses."""
    from flint import fmpz, fmpz_poly

    if len(one.masses) + len(other.masses) > MOST_POINTS:
        raise TooLarge
    whole = fmpz(2) ** bits
    product = one.masses * other.masses
    # However the quotients are rounded, one more is not less than the true one.
    masses = product // whole + fmpz_poly([1] * len(product))
    infinite = one.infinite * (other.masses(1) + other.infinite) + one.masses(1) * other.infinite
    return LossMeasure(one.first + other.first, masses, infinite // whole + 1)


def delta_at(measure: LossMeasure, spacing: Fraction, offset: Fraction, epsilon: Fraction, bits: int) -> Ball:
    """What an epsilon costs."""
    start = max(0, (epsilon - offset) // spacing + 1 - measure.first)
    above = measure.masses.coeffs()[start:]
    shrink = (-ball_of(spacing)).exp()
    first_loss = offset + (measure.first + start) * spacing
    shrunk = ball_of(Fraction(0))
    for mass in reversed(above):  # Horner: the sum of mass_i shrink^i
        shrunk = shrunk * shrink + mass
    shrunk *= ball_of(epsilon - first_loss).exp()
    return (sum(above) + measure.infinite - shrunk) / 2**bits


def _trim(measure: LossMeasure, cut: int) -> LossMeasure:
    """The same without long empty ends: what is cut off left moves to the first point, right to infinity."""
    masses, last = measure.masses, len(measure.masses) - 1
    start, moved = 0, 0
    while start < last and moved + masses[start] <= cut:
        moved += masses[start]
        start += 1
    lost = 0
    while last > start and lost + masses[last] <= cut:
        lost += masses[last]
        last -= 1
    kept = masses.truncate(last + 1).right_shift(start) + moved
    return LossMeasure(measure.first + start, kept, measure.infinite + lost)


def _between(below: Ball, below_next: Ball, above: Ball, above_next: Ball) -> Ball:
    """The mass between two edges, as the difference of the two smaller numbers."""
    return below_next - below if below_next < 0.5 else above - above_next


def _ceil(mass: Ball, bits: int) -> Any:
    if not mass.is_finite():
        raise Undecided
    return (mass * 2**bits).upper().ceil().unique_fmpz()
