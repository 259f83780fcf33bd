"""The tightest epsilon: the smallest valid upper bound there is, and a lower bound beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from reticent.accounting.claims import sum_of_claims
from reticent.accounting.guarantee import Guarantee, Unit
from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.distribution import (
    RELATIVE_WIDTH,
    Bracket,
    RepeatedPair,
    lower_epsilon,
    upper_epsilon,
)
from reticent.accounting.loss_distribution.dominating import Directions, Neighbours
from reticent.accounting.refusal import or_infinite
from reticent.accounting.reserve import (
    NEARLY_EXACT,
    OFF,
    ROOM,
    USUAL,
    delta_left,
    delta_left_for,
    delta_owed,
    ends_show,
    is_paid,
)
from reticent.accounting.theorems import gaussian_dp, renyi, zcdp
from reticent.core import checks
from reticent.core.errors import Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_VAST = (
    10**8
)  # releases: with more, the lattice of their losses is coarse, and Renyi divergence may be better
_SLACK_OF_EXACT = 1e-9  # relative; the closed form is good to ten digits
_LARGE = 300.0  # an epsilon beyond which a wider bracket is good enough
_NEXT_TO_NOTHING = 1e-6  # of delta: so much is set aside without a thought
_NEXT = 1.01  # times a cost: the epsilon at which samplers' dues are found


class Cost(NamedTuple):
    """Bounds on epsilon, and which accountant gave the upper one.

    is_numerical: whether the upper bound comes from a computation on a lattice, not from a closed formula.
    """

    lower: float
    upper: float
    accountant: str
    is_numerical: bool = False

    @property
    def name(self) -> str:
        """The accountant, as it is printed.

        Example:
            >>> Cost(0.9, 1.0, "privacy loss distribution", is_numerical=True).name
            'privacy loss distribution, numerical upper bound'
        """
        return f"{self.accountant}, numerical upper bound" if self.is_numerical else self.accountant


class SettledCost(NamedTuple):
    """A cost that may be printed.

    is_paid: whether delta covers how far samplers are from their laws. If not, `NEARLY_EXACT` is one of the
        assumptions.
    """

    cost: Cost
    is_paid: bool


def tight(
    event: Event, delta: float, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE, *, group: int = 1
) -> Cost:
    """The smallest valid epsilon of an event at `delta`, by all accountants that have a theorem for it.

    >>> from reticent.mechanisms.events import Gaussian, Repeated
    >>> cost = tight(Repeated(event=Gaussian(noise_multiplier=50.0), times=1000), 1e-5)
    >>> round(cost.upper, 6), cost.accountant
    (2.594383, 'exact Gaussian')

    Guarantee:
        `upper` is an upper bound and `lower` a lower bound on the epsilon of the event's worst case over
        datasets and over adaptive choices, up to the floating-point model of docs/accounting.md.

    Raises:
        Unproven: no accountant has a theorem for the event under this adjacency.

    Edge cases:
        nothing released (no events, or `times=0`)   0
        `NonPrivate`, or a claim whose delta is too large   infinity
        `PureDp(epsilon=0)`   0 at every delta
        delta of 0, 1, or NaN   refused with `InvalidArgument`
    """
    checks.inside_unit(delta=delta)
    neighbours = Neighbours(adjacency, group)
    counts = dominating.flatten(event)
    if any(isinstance(item, events.NonPrivate) for item in counts):
        return Cost(math.inf, math.inf, "non-private")
    if not counts:
        return Cost(0.0, 0.0, "nothing released")
    if len(counts) == 1 and isinstance(only := next(iter(counts)), events.Gaussian):
        exact = or_infinite(gaussian_dp.epsilon(adjacency.reach * group / only.noise_multiplier, delta))
        lower = exact * (1 - _SLACK_OF_EXACT) if math.isfinite(exact) else 0.0
        return Cost(lower, exact * (1 + _SLACK_OF_EXACT), "exact Gaussian")
    try:
        bracket = bracket_event(event, delta, neighbours)
    except Unproven:
        return Cost(0.0, or_infinite(renyi.epsilon_with_slack(event, delta, neighbours)), "renyi")
    is_narrow = bracket.upper - bracket.lower <= 2 * RELATIVE_WIDTH * bracket.upper < math.inf
    if not is_narrow:  # else nothing is left to gain
        other, name = _best_other(event, delta, neighbours)
        if other < bracket.upper:
            return Cost(min(bracket.lower, other), other, name)
    return Cost(bracket.lower, bracket.upper, "privacy loss distribution", is_numerical=True)


def epsilon(
    event: Event, delta: float, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE, *, group: int = 1
) -> float:
    """The smallest valid epsilon of an event at `delta`: the upper end of `tight`.

    >>> from reticent.mechanisms.events import Gaussian
    >>> round(epsilon(Gaussian(noise_multiplier=2.0), 1e-5), 4)
    1.9931

    Raises:
        Unproven: no accountant has a theorem for the event under this adjacency.
    """
    return tight(event, delta, adjacency, group=group).upper


def guarantee(
    event: Event,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
    *,
    group: int = 1,
    unit: Unit = "record",
    rows_per_user: int | None = None,
    assumptions: tuple[str, ...] = (),
    arithmetic: float = 0.0,
    distance: float = USUAL,
) -> Guarantee:
    """The sentence that may be printed about an event.

    Args:
        arithmetic: how much of delta is set aside for samplers, if more than the usual share; see `reserve`.
        distance: of the samplers of all its noise from their laws, in total variation.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> round(guarantee(Gaussian(noise_multiplier=2.0), 1e-5).epsilon, 3)
        1.993
    """
    cost, is_paid = settle(
        event, delta, Neighbours(adjacency, group), arithmetic=arithmetic, distance=distance
    )
    if not is_paid and NEARLY_EXACT not in assumptions:
        assumptions = (*assumptions, NEARLY_EXACT)
    return Guarantee(
        epsilon=cost.upper,
        epsilon_lower=cost.lower,
        delta=delta,
        adjacency=adjacency,
        unit=unit,
        group=group,
        rows_per_user=rows_per_user,
        accountant=cost.name,
        assumptions=assumptions,
        event=event,
        distance=distance if is_paid else 0.0,
    )


def settle(
    event: Event,
    delta: float,
    neighbours: Neighbours,
    *,
    arithmetic: float = 0.0,
    distance: float = USUAL,
    price: Callable[[float], Cost] | None = None,
) -> SettledCost:
    """What an event costs at `delta`, samplers included: the one rule for everything that is printed.

    Args:
        price: what the event costs at a delta, by its laws; `tight`, unless given.

    Guarantee:
        Paid, the cost is that of samplers within `distance` of their laws: (1 + e^epsilon) distance was
        taken off delta first. Unpaid, it is that of the laws, and infinite where a release by itself costs so
        much that the end of its sampler shows (`has_visible_ends`).
    """
    price = price or (lambda left: tight(event, left, neighbours.adjacency, group=neighbours.group))
    taken = delta - delta_left(delta, arithmetic)
    first = cost = price(delta - taken)
    while math.isfinite(cost.upper):
        if delta_owed(distance, cost.upper) <= taken:
            return SettledCost(_with_lower(cost, price, delta, taken), True)
        taken = ROOM * delta_owed(distance, cost.upper)
        if not taken <= delta / 2:
            break
        cost = price(delta - taken)
    if not math.isfinite(first.upper):  # a claim that uses all of delta leaves nothing for its sampler
        first = price(delta)
    if not math.isfinite(first.upper):
        return SettledCost(first, True)
    if has_visible_ends(event, delta, neighbours):
        return SettledCost(first._replace(upper=math.inf), True)
    return SettledCost(first, False)


def _with_lower(cost: Cost, price: Callable[[float], Cost], delta: float, taken: float) -> Cost:
    """The same, with a lower bound for samplers that are as far on the other side of their laws."""
    if taken <= 2.0**-13 * delta:  # too little to show
        return cost
    return cost._replace(lower=min(price(min(delta + taken, 1 - 1e-12)).lower, cost.lower))


def has_visible_ends(event: Event, delta: float, neighbours: Neighbours) -> bool:
    """Whether releases by themselves cost so much that the ends of their samplers show.

    Laplace noise ends at 64 scales and Gaussian noise at 10 deviations: a neighbour that is farther away
    gives outcomes that are impossible here. Claims that were proved elsewhere have no sampler.
    """
    failing = 0.0
    for item, times in dominating.releases(event).items():
        if not isinstance(item, events.PureDp | events.ApproximateDp):
            failing += times * delta_owed(OFF, upper_bound(item, delta / 2, neighbours))
    return ends_show(failing, delta)


def cost_within(event: Event, epsilon: float, delta: float, neighbours: Neighbours) -> float:
    """What an event takes of a budget of (epsilon, delta), samplers included; right where it fits.

    A claim that was proved elsewhere costs what it says, even where it uses all of delta.
    """
    if not is_paid(epsilon, delta) and has_visible_ends(event, delta, neighbours):
        return math.inf
    # Samplers owe what they owe at the event's own cost: a larger budget never holds less.
    target, cost = 0.0, or_infinite(upper_bound(event, delta_left(delta), neighbours))
    while target < cost <= epsilon:
        target = min(_NEXT * cost, epsilon)
        cost = or_infinite(upper_bound(event, delta_left_for(target, delta), neighbours))
        if target == epsilon:
            break
    return cost if cost <= epsilon else min(cost, or_infinite(sum_of_claims(event, delta, neighbours)))


@lru_cache(maxsize=1024)
def bracket_event(event: Event, delta: float, neighbours: Neighbours) -> Bracket:
    """Bounds by the loss distribution alone, over both directions."""
    priced = _price(_directions(event, neighbours), delta)
    return _bracket_below(priced, delta)


def upper_bound(event: Event, delta: float, neighbours: Neighbours) -> float:
    """The upper end of `tight` alone: what calibration needs, at half the work."""
    checks.inside_unit(delta=delta)
    counts = dominating.flatten(event)
    if any(isinstance(item, events.NonPrivate) for item in counts):
        return math.inf
    if not counts or (len(counts) == 1 and isinstance(next(iter(counts)), events.Gaussian)):
        return tight(event, delta, neighbours.adjacency, group=neighbours.group).upper
    return _upper_bound(event, float(delta), neighbours)


@lru_cache(maxsize=4096)  # grids, resumed runs and reports ask for the same prices again
def _upper_bound(event: Event, delta: float, neighbours: Neighbours) -> float:
    try:
        parts = _directions(event, neighbours)
    except Unproven:
        return or_infinite(renyi.epsilon_with_slack(event, delta, neighbours))
    upper = _price(parts, delta).upper
    if math.isfinite(upper) and sum(times for _, times in parts) < _VAST:
        return upper
    return min(upper, _best_other(event, delta, neighbours)[0])


_Parts = list[tuple[Directions, int]]


def _directions(event: Event, neighbours: Neighbours) -> _Parts:
    return [
        (dominating.directions(item, neighbours), times) for item, times in dominating.flatten(event).items()
    ]


def _slack(parts: _Parts) -> float:
    return math.fsum(part.slack * times for part, times in parts)


def _bracket_below(priced: _Priced, delta: float) -> Bracket:
    """An upper bound with a lower one beside it, which is sought until the two are close."""
    upper, parts, reserved = priced
    if not math.isfinite(upper):
        return Bracket(0.0, upper)
    lower, most = 0.0, min(delta + reserved, 1 - 1e-12)
    for relative_width in (RELATIVE_WIDTH, RELATIVE_WIDTH / 10):
        # The first direction is mostly the worse one; the finer lattice is for unusual shapes.
        for side in _sides(parts, attained=True):
            lower = max(lower, lower_epsilon(side, most, near=upper, relative_width=relative_width))
            if upper - lower <= 1.25 * RELATIVE_WIDTH * max(upper, 1e-2):
                return Bracket(min(lower, upper), upper)
        if upper > _LARGE or any(part.attained != (part.removed, part.added) for part, _ in parts):
            break  # no use for more digits, or bounds from different pairs, which stay apart
        upper = min(upper, _upper(parts, delta - reserved, relative_width=relative_width / 10))
    return Bracket(min(lower, upper), upper)


def _upper(parts: _Parts, delta: float, *, relative_width: float = RELATIVE_WIDTH) -> float:
    first, *others = _sides(parts, attained=False)
    upper = or_infinite(upper_epsilon(first, delta, relative_width=relative_width))
    for side in others:
        # A rough bound on the other direction is mostly enough to see that it does not matter.
        if not upper_epsilon(side, delta, relative_width=16 * relative_width, like=first) <= upper:
            upper = max(upper, or_infinite(upper_epsilon(side, delta, relative_width=relative_width)))
    return upper


def _sides(parts: _Parts, *, attained: bool) -> list[list[RepeatedPair]]:
    """The releases with the record removed and with it added; one list when the two look alike."""
    removed = [RepeatedPair(part.attained[0] if attained else part.removed, times) for part, times in parts]
    added = [RepeatedPair(part.attained[1] if attained else part.added, times) for part, times in parts]
    return [removed] if removed == added else [removed, added]


class _Priced(NamedTuple):
    """An upper bound, the pairs that it is of, and how much of delta was set aside beside them."""

    upper: float
    parts: _Parts
    reserved: float


def _price(parts: _Parts, delta: float) -> _Priced:
    """The upper bound where the real releases may differ a little from the accounted ones.

    Within total variation `slack` of them, delta grows by (1 + e^epsilon) slack. Where that is next to
    nothing, it is set aside. Otherwise the pairs of the real releases are composed: no factor e^epsilon.
    """
    slack = _slack(parts)
    if slack == 0:
        return _Priced(_upper(parts, delta), parts, 0.0)
    exact = [(part.without_slack or part, times) for part, times in parts]
    if _slack(exact) != 0:  # NaN too
        return _price_with_slack(parts, delta, slack)
    reserved = _NEXT_TO_NOTHING * delta
    if 2 * slack <= reserved:
        upper = _upper(parts, delta - reserved)
        if delta_owed(slack, upper) <= reserved:
            return _Priced(upper, parts, reserved)
    return _Priced(_upper(exact, delta), exact, 0.0)


def _price_with_slack(parts: _Parts, delta: float, slack: float) -> _Priced:
    """The same where there is no other way than to set the slack aside."""
    if not 2 * slack < delta:  # NaN too
        return _Priced(math.inf, parts, delta)
    reserved = _NEXT_TO_NOTHING * delta
    while reserved < delta:
        upper = _upper(parts, delta - reserved)
        needed = delta_owed(slack, upper)
        if needed <= reserved:
            return _Priced(upper, parts, reserved)
        reserved = max(1.5 * needed, 2 * reserved)
    return _Priced(math.inf, parts, delta)


def _best_other(event: Event, delta: float, neighbours: Neighbours) -> tuple[float, str]:
    """The smallest epsilon of the accountants that add up numbers, and which of them found it."""
    found = [(or_infinite(sum_of_claims(event, delta, neighbours)), "basic composition")]
    for name, accountant in (("renyi", renyi.epsilon), ("concentrated", zcdp.epsilon)):
        try:
            found.append((or_infinite(accountant(event, delta, neighbours)), name))
        except Unproven:
            continue
    return min(found)
