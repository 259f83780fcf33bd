"""The share of delta that pays for the distance between a sampler and its law.

Noise is drawn in whole numbers by samplers that are within 2^-60 per number, or less, of the law that is
accounted for (docs/arithmetic.md). If M is within total variation D of an (epsilon, delta)-DP law, on each of
two neighbouring datasets, then for every set S of outcomes
    P(M in S) <= D + e^epsilon (Q(M in S) + D) + delta,
so M is (epsilon, delta + (1 + e^epsilon) D)-DP. That much is set aside before the accountant is asked.
"""

from __future__ import annotations

import math

from reticent.core.errors import CannotMeet

OFF = 2.0**-60  # no number that is drawn is further from its law, in total variation
USUAL = 2.0**13 * OFF  # the distance of releases whose numbers nobody counts: 8,192 of them
RESERVED = 2.0**-20  # of every delta: at 1e-5 enough for the usual distance up to an epsilon of 7
TRAINING = 2.0**-14  # of the delta of a training plan: at 1e-5 enough for 45 billion numbers of 2^-66
ROOM = 1.25  # times what a target epsilon owes: what is printed about the result then stays below the target
NOTICED = 2.0**-40  # the least probability of failing that makes a claim void, however small its delta
NEARLY_EXACT = (
    "each released number follows its exact law (it is drawn within 2^-60 of it, "
    "which adds at most 2^-60 (1 + e^epsilon) per number to delta)"
)


def delta_owed(distance: float, epsilon: float) -> float:
    """What samplers so far from their laws add to the delta of an epsilon; infinity for NaN.

    >>> delta_owed(2.0**-60, 0.0) == 2.0**-59, delta_owed(2.0**-60, math.nan)
    (True, inf)
    """
    return distance * (1 + math.exp(epsilon)) if epsilon <= 700 else math.inf


def is_paid(epsilon: float, delta: float, distance: float = USUAL) -> bool:
    """Whether half of delta is enough for what samplers owe at this epsilon.

    Example:
        >>> [is_paid(epsilon, delta=1e-5) for epsilon in (1.0, 18.0, 25.0, math.inf, math.nan)]
        [True, True, False, False, False]
    """
    return ROOM * delta_owed(distance, epsilon) <= delta / 2


def ends_show(failing: float, delta: float) -> bool:
    """Whether a sum of `delta_owed` over single releases is so large that a claim would be void."""
    return not failing <= max(delta / 2, NOTICED)


def noise_too_small(epsilon: float, delta: float) -> CannotMeet:
    """The error for noise so small that the ends of its sampler would show."""
    most = math.floor(math.log(max(delta / 2, NOTICED) / OFF)) - 1
    return CannotMeet(
        f"Noise for epsilon {epsilon:g} at delta {delta:g} is so small that the ends of its sampler show.",
        remedy=f"Ask for an epsilon of at most {most}.",
    )


def delta_left_for(epsilon: float, delta: float, distance: float = USUAL) -> float:
    """What the accountant may use of a delta where the whole is to cost at most `epsilon`.

    Where samplers owe more than half of delta, only the usual share is set aside: what is printed
    about the result then says so, or claims nothing (`epsilon.guarantee`).
    """
    return delta_left(
        delta, ROOM * delta_owed(distance, epsilon) if is_paid(epsilon, delta, distance) else 0.0
    )


def delta_left(delta: float, arithmetic: float = 0.0) -> float:
    """What the accountant may use of a delta.

    Args:
        arithmetic: what is set aside for samplers, if it is more than the usual share.

    Raises:
        CannotMeet: less than half is left.

    Example:
        >>> delta_left(1e-5) < 1e-5, delta_left(1e-5) == 1e-5 * (1 - 2.0**-20)
        (True, True)
    """
    left = delta - max(arithmetic, RESERVED * delta)
    if not left >= 0.5 * delta:
        raise CannotMeet(
            f"How far samplers are from their laws takes {arithmetic:.1g} of a delta of {delta:g}.",
            remedy="Ask for a larger delta or a smaller epsilon, or take fewer steps with fewer parameters.",
        )
    return left
