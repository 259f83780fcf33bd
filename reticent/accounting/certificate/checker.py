"""Proves the bound of a certificate, from the certificate alone.

    1  every release has a dominating pair (P, Q), seen through its loss ln(dP/dQ)     releases, balls
    2  its losses are rounded up to a lattice, its masses to multiples of 2^-bits     measure.round_up
    3  the losses of all releases are added up: products of whole polynomials         measure.power, multiply
    4  delta = sum of mass(x) (1 - e^(epsilon - x)) over x > epsilon                  measure.delta_at

Real numbers are balls that hold their true values; everything else is whole numbers, rounded up. A bound
holds if the whole ball of delta lies below the delta of the claim, with the records removed and with them
added. No choice of lattice or bits makes a wrong claim pass: they decide how tight the result is.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Literal

from reticent.accounting.certificate import measure
from reticent.accounting.certificate.balls import Ball, BallPair, Undecided, ball_of, load_flint
from reticent.accounting.certificate.certificate import Certificate
from reticent.core.errors import Unproven

GUARD_BITS = 96  # of the balls, beyond those of the masses
_TRIM_BITS = 30  # what is cut off at the ends of a lattice is so much smaller than delta

Direction = Literal["removed", "added"]
Delta = Callable[[float], Ball]  # what an epsilon costs, in one direction


def check(certificate: Certificate) -> None:
    """Proves the claim of a certificate, or raises.

    Guarantee:
        Where it returns, every mechanism whose releases are those of the event is (epsilon, delta)-DP for
        such neighbours, by the theorems of section 2 of docs/accounting.md and arithmetic that is rounded
        outwards. Beyond this folder one has to believe Python, FLINT, and that the run released what the
        event says.

    Raises:
        Unproven: the claim does not follow.
        Unavailable: python-flint is not installed.
    """
    flint = load_flint()
    with flint.ctx.workprec(certificate.bits + GUARD_BITS):
        try:
            if follows_from_claims(certificate):
                return
            for side in sides(certificate):
                delta = compose(certificate, side)
                if not delta(certificate.epsilon) <= left(certificate):
                    raise _refusal(certificate, f"delta is larger there, with the record {side}")
        except Undecided:
            raise _refusal(certificate, "its numbers have too few bits") from None
        except measure.TooLarge:
            raise _refusal(certificate, "its lattice is too large") from None


def left(certificate: Certificate, epsilon: float | None = None) -> Ball:
    """What samplers leave of delta: within total variation D of their laws, they take (1 + e^epsilon) D."""
    at = ball_of(certificate.epsilon if epsilon is None else epsilon)
    return ball_of(certificate.delta) - (1 + at.exp()) * ball_of(certificate.distance)


def follows_from_claims(certificate: Certificate) -> bool:
    """Basic composition: where all was proved elsewhere, epsilons and deltas may be added up."""
    claims = certificate.released.claims()
    return (
        claims is not None
        and bool(claims[0] <= ball_of(certificate.epsilon))
        and bool(claims[1] <= left(certificate))
    )


def sides(certificate: Certificate) -> tuple[Direction, ...]:
    """The releases with the records removed, and with them added unless both look the same."""
    releases = certificate.released.releases()
    return ("removed",) if all(item.removed is item.added for item in releases) else ("removed", "added")


def compose(certificate: Certificate, side: Direction) -> Delta:
    """An upper bound on delta, in one direction."""
    releases = certificate.released.releases()
    pairs = [item.removed if side == "removed" else item.added for item in releases]
    lattice = certificate.removed if side == "removed" else certificate.added
    if not releases:
        return lambda epsilon: ball_of(0)
    if len(releases) == 1 and releases[0].times == 1:
        return lambda epsilon: _delta_of_one(pairs[0], epsilon)
    bits, cells = certificate.bits, lattice.cells()
    if len(cells) != len(releases):
        raise _refusal(certificate, f"it has {len(cells)} spans for {len(releases)} kinds of release")
    cut = (int(Fraction(certificate.delta) * 2**bits) >> _TRIM_BITS) // len(releases)
    parts = [
        measure.power(measure.round_up(pair, cell, bits), release.times, bits, cut)
        for release, pair, cell in zip(releases, pairs, cells, strict=True)
    ]
    composed = reduce(lambda one, other: measure.multiply(one, other, bits), parts)
    offset = sum((item.times * cell.offset for item, cell in zip(releases, cells, strict=True)), Fraction(0))
    return lambda epsilon: measure.delta_at(composed, cells[0].spacing, offset, Fraction(epsilon), bits)


def _delta_of_one(pair: BallPair, epsilon: float) -> Ball:
    """A single release needs no lattice: delta is P - e^epsilon Q of the losses above epsilon."""
    edge = ball_of(epsilon)
    found = pair.split(edge)
    return found.p_above - edge.exp() * found.q_above


def _refusal(certificate: Certificate, why: str) -> Unproven:
    return Unproven(
        f"The certificate does not prove an epsilon of {certificate.epsilon!r} at a delta of "
        f"{certificate.delta!r}: {why}.",
        remedy="Do not rely on it. A new one comes from reticent account --certify FILE.",
    )
