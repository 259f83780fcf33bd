"""Finds a certificate: the bound of the fast accountant, and the lattice on which it is proved again.

What is chosen here decides how close to the truth the proved bound is. Whether it holds, `check` decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from reticent.accounting.certificate.balls import Undecided, load_flint
from reticent.accounting.certificate.certificate import NO_LATTICE, Certificate, LossLattice, Span
from reticent.accounting.certificate.checker import (
    GUARD_BITS,
    Direction,
    check,
    compose,
    follows_from_claims,
    left,
    sides,
)
from reticent.accounting.certificate.measure import TooLarge
from reticent.accounting.certificate.releases import Released
from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.distribution import (
    RELATIVE_WIDTH,
    RepeatedPair,
    discretise,
)
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.loss_distribution.pairs import GaussianPair
from reticent.accounting.rounding import at_most
from reticent.accounting.search import bisect
from reticent.core.errors import Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

# A coarse lattice is enough for the easier direction; the next are the fast accountant's. The last one is for
# brackets that stay wide, where the accountant's own lattice is none of these.
_WIDTHS = (32 * RELATIVE_WIDTH, *(RELATIVE_WIDTH / finer for finer in (1, 10, 40, 160)))
_SPARE_BITS = 60  # so that rounding of millions of masses is a billionth of delta
_FARTHEST = 1.5  # times the epsilon that was asked for: a proved one that is larger is of no use


def prove(
    event: Event,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
    *,
    group: int = 1,
    distance: float = 0.0,
) -> Certificate:
    """A certificate of `epsilon`, or of the smallest larger one that can be proved.

    Args:
        distance: of the samplers of all noise from their laws, in total variation; delta pays for it.

    Raises:
        Unproven: no finite epsilon can be proved.
        Unavailable: python-flint is not installed.

    Example:
        >>> from reticent.accounting.certificate import check, prove
        >>> from reticent.mechanisms.events import Gaussian
        >>> certificate = prove(Gaussian(noise_multiplier=2.0), 1.994, delta=1e-5)
        >>> check(certificate)
        >>> certificate.epsilon
        1.994
    """
    flint = load_flint()
    if not math.isfinite(epsilon):
        raise Unproven("An infinite epsilon promises nothing.", remedy="Add noise, or take fewer steps.")
    counts = Released(event, adjacency, group).counts()
    draft = Certificate(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        group=group,
        event=event,
        distance=distance,
        bits=_SPARE_BITS + math.ceil(-math.log2(delta)) + counts.total().bit_length(),
    )
    with flint.ctx.workprec(draft.bits + GUARD_BITS):
        if not follows_from_claims(draft):
            for side in sides(draft):
                draft = _with_lattice(draft, side)
    if draft.epsilon > epsilon:  # the first direction was proved at a smaller one
        check(draft)
    return draft


def least_epsilon(certificate: Certificate) -> float:
    """The smallest epsilon that the lattices of a certificate prove: how much room its claim leaves."""
    with load_flint().ctx.workprec(certificate.bits + GUARD_BITS):
        if follows_from_claims(certificate):
            return certificate.epsilon
        costs = [compose(certificate, side) for side in sides(certificate)]

        def holds(epsilon: float) -> bool:
            return all(bool(cost(epsilon) <= left(certificate, epsilon)) for cost in costs)

        low = certificate.epsilon * (1 - 1e-3)
        low = 0.0 if holds(low) else low
        return bisect(holds, low, certificate.epsilon, relative=1e-9)


def _with_lattice(draft: Certificate, side: Direction) -> Certificate:
    """The draft with a lattice on which its epsilon is proved, or else with the smallest epsilon that is."""
    best = None
    for lattice in _lattices(draft, side):
        found = _smallest(replace(draft, **{side: lattice}), side)
        if found is not None and (best is None or found.epsilon < best.epsilon):
            best = found
        if best is not None and best.epsilon == draft.epsilon:
            return best
    if best is None:
        raise Unproven(
            f"No epsilon up to {_FARTHEST * draft.epsilon:.4g} can be proved at delta {draft.delta:g}; "
            f"the bound without a proof is {at_most(draft.epsilon)}.",
            remedy="Rely on that one: it comes from other theorems.",
        )
    return best


def _lattices(draft: Certificate, side: Direction) -> Iterator[LossLattice]:
    """The lattices to try, by Chernoff's guess and near epsilon, a coarse one first."""
    counts = draft.released.counts()
    if counts.total() == 1 or set(map(type, counts)) <= {events.Gaussian}:
        yield NO_LATTICE
        return
    pairs = _pairs(draft, side)
    for width in _WIDTHS:
        for near in (None, draft.epsilon):
            found = discretise(pairs, draft.delta, near=near, relative_width=width)
            if found is not None:
                yield LossLattice(found.spacing, tuple(Span(*cells) for cells in found.cells))


def _pairs(draft: Certificate, side: Direction) -> list[RepeatedPair]:
    """The fast accountant's pairs, in the checker's order."""
    released = draft.released
    neighbours = Neighbours(released.adjacency, released.group)
    found, square = [], 0.0
    for item, times in released.counts().items():
        if isinstance(item, events.Gaussian):
            square += times / item.noise_multiplier**2
            continue
        pairs = dominating.directions(item, neighbours)
        if pairs.slack * times * math.exp(min(draft.epsilon, 700)) > 1e-6 * draft.delta:
            pairs = pairs.without_slack or pairs
        found.append(RepeatedPair(pairs.removed if side == "removed" else pairs.added, times))
    if square:
        found.append(RepeatedPair(GaussianPair(released.reach * math.sqrt(square)), 1))
    return found


def _smallest(draft: Certificate, side: Direction) -> Certificate | None:
    """The draft, where this side proves it; else with the smallest epsilon that is proved; None for none."""
    try:
        cost = compose(draft, side)

        def holds(epsilon: float) -> bool:
            return bool(cost(epsilon) <= left(draft, epsilon))

        if holds(draft.epsilon):
            return draft
        high = max(draft.epsilon, 1e-6) * _FARTHEST
        if not holds(high):
            return None
        return replace(draft, epsilon=bisect(holds, draft.epsilon, high, relative=1e-9))
    except (Undecided, TooLarge):
        return None
