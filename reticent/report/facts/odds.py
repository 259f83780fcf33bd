"""What a guarantee means for one person: how well anybody can guess whether they were in the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING
from reticent.accounting.tight_epsilon import settle
from reticent.core.errors import ReticentError
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_DELTAS = (0.2, 0.1, 0.05, 0.02, 0.01, 1e-3)


class ClaimPoint(NamedTuple):
    """One point of a trade-off curve.

    Example:
        >>> ClaimPoint(epsilon=1.0, delta=1e-5).epsilon
        1.0
    """

    epsilon: float
    delta: float


def claim_points(event: Event, stated: ClaimPoint, adjacency: Adjacency) -> tuple[ClaimPoint, ...]:
    """The stated claim, and what the same releases cost at larger deltas, where that is known.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> points = claim_points(
        ...     Gaussian(noise_multiplier=5.0), ClaimPoint(1.0, 1e-5), Adjacency.ADD_OR_REMOVE
        ... )
        >>> points[0], points[-1].delta > 1e-5, points[-1].epsilon < 1.0
        (ClaimPoint(epsilon=1.0, delta=1e-05), True, True)
    """
    points = [stated]
    for delta in _DELTAS:
        if delta > stated.delta:
            # At least what the stated claim can have set aside for how far samplers are from their laws.
            arithmetic = max(TRAINING * delta, stated.delta / 2)
            try:
                cost = settle(event, delta, Neighbours(adjacency), arithmetic=arithmetic).cost
                points.append(ClaimPoint(cost.upper, delta))
            except ReticentError:
                continue
    return tuple(points)


def best_guess(known: Sequence[ClaimPoint]) -> float:
    """The largest probability with which anybody can tell whether a person was in, from even odds.

    Example:
        >>> round(best_guess([ClaimPoint(epsilon=1.0, delta=0.0)]), 3)
        0.731
        >>> best_guess([ClaimPoint(epsilon=0.0, delta=0.0)]), best_guess([ClaimPoint(math.inf, 0.0)])
        (0.5, 1.0)

    Each claim bounds it by (e^epsilon + delta) / (1 + e^epsilon): the two errors of a test add up to at least
    2 (1 - delta) / (1 + e^epsilon) at their smallest. All claims hold at once, so the smallest bound does.

    Reference:
        Kairouz, Oh and Viswanath (2017), Theorem 2.1, arXiv:1311.0776: the region of testing errors.
    """
    return min(_guess(claim) for claim in known)


def _guess(claim: ClaimPoint) -> float:
    if math.isinf(claim.epsilon):
        return 1.0
    share = 1 / (1 + math.exp(-claim.epsilon))
    return min(share + claim.delta * (1 - share), 1.0)


def largest_true_positive_rate(known: Sequence[ClaimPoint], false_positive_rate: float) -> float:
    """The largest share of members that any attack finds at this false-positive rate."""
    return min(
        min(
            _exp(claim.epsilon) * false_positive_rate + claim.delta,
            1 - (1 - claim.delta - false_positive_rate) / _exp(claim.epsilon),
            1.0,
        )
        for claim in known
    )


def largest_belief(prior: float, epsilon: float) -> float:
    """The largest probability that somebody with this prior can come to hold.

    Example:
        >>> round(largest_belief(0.01, epsilon=1.0), 4)
        0.0267
    """
    return prior / (prior + (1 - prior) / _exp(epsilon))


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))
