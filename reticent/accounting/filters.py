"""A budget that may be spent adaptively: how much, and on what, decided as results come in.

Ordinary composition fixes the noise of all releases in advance. When the next release's noise depends
on the last one's outcome, adding up epsilons at the end is not a theorem; stopping in time is.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.accounting import renyi, zcdp
from reticent.accounting.dominating import Neighbours
from reticent.core import checks
from reticent.core.errors import BudgetExceeded
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


class RenyiFilter:
    """Lets releases through until the next one could pass (epsilon, delta).

    The order is fixed when the filter is made: that is what makes adaptive choices safe.

    Guarantee:
        Whatever is released under `spend`, however it was chosen, is (epsilon, delta)-DP in all.

    Reference:
        Feldman and Zrnic (2021), Theorem 4.3, arXiv:2008.11193: individual Renyi filters; the same
        sum of divergences at a fixed order may be spent as if it had been planned.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
        order: float | None = None,
    ) -> None:
        checks.positive(epsilon=epsilon)
        checks.inside_unit(delta=delta)
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency
        self.order = best_order(epsilon, delta) if order is None else order
        checks.positive(order_above_1=self.order - 1)
        self.limit = _divergence_for(epsilon, delta, self.order)
        self.spent = 0.0

    def cost(self, event: Event) -> float:
        """The divergence of an event at the filter's order."""
        curve, extra = renyi.accounted(event, Neighbours(self.adjacency), np.array([self.order]))
        return math.inf if extra > 0 else float(curve[0]) * (1 + 1e-10)

    def fits(self, event: Event) -> bool:
        return self.spent + self.cost(event) <= self.limit

    def spend(self, event: Event) -> None:
        """Charges an event before it is released.

        Raises:
            BudgetExceeded: it does not fit; nothing was charged.
        """
        cost = self.cost(event)
        if self.spent + cost > self.limit:
            raise BudgetExceeded(
                f"This release would spend {cost:.4g} of Renyi divergence at order {self.order:.4g}; "
                f"{self.limit - self.spent:.4g} of {self.limit:.4g} is left.",
                remedy="Add noise, release less, or stop here.",
            )
        self.spent += cost


def best_order(epsilon: float, delta: float) -> float:
    """The order at which the most Gaussian noise-free budget fits: where alpha * rho meets epsilon best."""
    orders = 1 + np.geomspace(1e-3, 1e6, 2000)
    limits = np.array([_divergence_for(epsilon, delta, float(order)) for order in orders])
    return float(orders[np.argmax(limits / orders)])


def _divergence_for(epsilon: float, delta: float, order: float) -> float:
    """How much divergence at one order still converts to (epsilon, delta)."""
    used = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(epsilon - used, 0.0)


def concentrated_limit(epsilon: float, delta: float) -> float:
    """The rho that converts to (epsilon, delta): the limit of a filter over concentrated DP."""
    low, high = 0.0, epsilon + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp.to_epsilon(middle, delta) <= epsilon else (low, middle)
    return low
