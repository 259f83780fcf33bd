"""Basic composition of claims that were proved elsewhere."""

from __future__ import annotations

import math

from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.mechanisms import events
from reticent.mechanisms.events import Event


def sum_of_claims(event: Event, delta: float, neighbours: Neighbours) -> float:
    """The sum of epsilons that were proved elsewhere, where their deltas fit; else infinity.

    A loss distribution whose last bit of delta is spent on accidents has none left for rounding.
    """
    epsilons, deltas = [], []
    for item, times in dominating.flatten(event).items():
        match item:
            case events.PureDp(epsilon=cost, adjacency=adjacency):
                found = dominating.claim(item, cost, 0.0, adjacency, neighbours)
            case events.ApproximateDp(epsilon=cost, delta=accident, adjacency=adjacency):
                found = dominating.claim(item, cost, accident, adjacency, neighbours)
            case _:
                return math.inf
        epsilons.append(times * found[0])
        deltas.append(times * found[1])
    return math.fsum(epsilons) if math.fsum(deltas) <= delta else math.inf
