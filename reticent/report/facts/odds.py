"""What a guarantee means for one person: how much better than a coin somebody can guess about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from reticent.accounting.epsilon import tight
from reticent.core.errors import ReticentError
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_DELTAS = (0.2, 0.1, 0.05, 0.02, 0.01, 1e-3)


class Claim(NamedTuple):
    """One point of a trade-off curve."""

    epsilon: float
    delta: float


def claims(event: Event, stated: Claim, adjacency: Adjacency) -> tuple[Claim, ...]:
    """The stated claim, and what the same releases cost at larger deltas, where that is known."""
    found = [stated]
    for delta in _DELTAS:
        if delta > stated.delta:
            try:
                found.append(Claim(tight(event, delta, adjacency).upper, delta))
            except ReticentError:
                continue
    return tuple(found)


def best_guess(known: Sequence[Claim]) -> float:
    """The largest probability with which anybody can tell whether a person was in, from even odds.

    Each claim bounds it by (e^epsilon + delta) / (1 + e^epsilon): the two errors of a test add up to at least
    2 (1 - delta) / (1 + e^epsilon) at their smallest. All claims hold at once, so the smallest bound does.

    Reference:
        Kairouz, Oh and Viswanath (2017), Theorem 2.1, arXiv:1311.0776: the region of testing errors.
    """
    return min(_guess(claim) for claim in known)


def _guess(claim: Claim) -> float:
    if math.isinf(claim.epsilon):
        return 1.0
    share = 1 / (1 + math.exp(-claim.epsilon))
    return min(share + claim.delta * (1 - share), 1.0)


def most_found(known: Sequence[Claim], false_positive_rate: float) -> float:
    """The largest share of members that any attack finds while it accuses this share of others in vain."""
    return min(
        min(
            _exp(claim.epsilon) * false_positive_rate + claim.delta,
            1 - (1 - claim.delta - false_positive_rate) / _exp(claim.epsilon),
            1.0,
        )
        for claim in known
    )


def believed(prior: float, epsilon: float) -> float:
    """What somebody who gave it this probability before can come to believe at most."""
    return prior / (prior + (1 - prior) / _exp(epsilon))


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))
