"""A budget that may be spent adaptively: how much, and on what, decided as results come in.

Ordinary composition fixes the noise of all releases in advance. When the next release's noise depends
on the last one's outcome, adding up epsilons at the end is not a theorem; stopping in time is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.rounding import at_least, at_most
from reticent.accounting.theorems import renyi
from reticent.core import checks
from reticent.core.errors import BudgetExceeded, InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


class RenyiFilter:
    """Lets releases through until the next one could pass (epsilon, delta).

    The order is fixed when the filter is made: that is what makes adaptive choices safe. So is the
    part of delta that is set aside (`reserve`, a share of it) for what no divergence covers.

    Guarantee:
        Whatever is released under `spend`, however it was chosen, is (epsilon, delta)-DP in all.

        For the divergences that is the theorem below, at delta less the reserve. Two things are outside.

        A release that is only (e, d)-DP is, with probability 1 - d, an e-DP one, and tells everything
        otherwise (Kairouz, Oh and Viswanath 2017); when that happens does not depend on the record. Up
        to the first time it happens, both neighbours' runs are those of the e-DP releases, each thinned by
        the same factor: a test with values in [0, 1], to which the theorem applies as to an event.
        The rest has probability at most the sum of the d, which the filter bounds on every path.

        A release within total variation s of one that has a curve (a Poisson batch that may be
        overfull) can be drawn together with it so that they differ with probability s only. Drawn so
        one after the other, the real run and one that has curves throughout part with probability at most
        S, the sum of the s, which the filter bounds on every path. For neighbours D and D' and
        any set A of outcomes, real and then with curves and then real again,
            P(D in A) <= S + P~(D in A) <= S + e^epsilon P~(D' in A) + delta~
                      <= S + e^epsilon (P(D' in A) + S) + delta~,
        so that (1 + e^epsilon) S has to be set aside.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> guard, release, passed = RenyiFilter(epsilon=1.0, delta=1e-5), Gaussian(noise_multiplier=10.0), 0
        >>> while guard.fits(release):
        ...     guard.spend(release)
        ...     passed += 1
        >>> passed
        6

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
        reserve: float = 1e-3,
    ) -> None:
        checks.positive(epsilon=epsilon)
        checks.inside_unit(delta=delta, reserve=reserve)
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency
        self.order = best_order(epsilon, delta) if order is None else order
        checks.positive(order_above_1=self.order - 1)
        self.reserve = reserve * delta
        self.limit = _divergence_for(epsilon, delta - self.reserve, self.order)
        self.spent = self.spent_delta = 0.0

    def cost(self, event: Event) -> float:
        """The divergence of an event at the filter's order."""
        return self._costs(event)[0]

    def delta_cost(self, event: Event) -> float:
        """What an event takes of the reserve: the part of delta that no divergence covers."""
        return self._costs(event)[1]

    def fits(self, event: Event) -> bool:
        cost, outside = self._costs(event)
        return self.spent + cost <= self.limit and self.spent_delta + outside <= self.reserve

    def spend(self, event: Event) -> None:
        """Charges an event before it is released.

        Raises:
            BudgetExceeded: it does not fit; nothing was charged.
        """
        cost, outside = self._costs(event)
        if not self.spent + cost <= self.limit:
            raise BudgetExceeded(
                f"This release would spend {at_most(cost)} of Renyi divergence at order {self.order:.4g}; "
                f"{at_least(self.limit - self.spent, 4)} of {self.limit:.4g} is left.",
                remedy="Add noise, release less, or stop here.",
            )
        if not self.spent_delta + outside <= self.reserve:
            raise BudgetExceeded(
                f"This release would take {outside:.4g} of the delta set aside for what no divergence "
                f"covers; {at_least(self.reserve - self.spent_delta, 4)} of {self.reserve:.4g} is left.",
                remedy="Release something with a smaller delta, or leave more room in the largest batch.",
            )
        self.spent += cost
        self.spent_delta += outside

    def _costs(self, event: Event) -> tuple[float, float]:
        found = renyi.approximate(event, Neighbours(self.adjacency), np.array([self.order]))
        return float(found.curve[0]) * (1 + 1e-10), found.outside(self.epsilon)


class Share(NamedTuple):
    """An order, and the share of delta that is spent on watching it."""

    order: float
    of_delta: float


def shares_for(epsilon: float, delta: float) -> tuple[Share, ...]:
    """Orders for `make_filters`: the best one for Gaussian noise, and lower ones.

    On small batches with little noise the divergence explodes beyond some order; one of the lower
    orders is then still below it.

    Example:
        >>> [(round(share.order, 1), share.of_delta) for share in shares_for(epsilon=1.0, delta=1e-5)]
        [(17.9, 0.6), (14.5, 0.2), (12.0, 0.2)]
    """
    best = best_order(epsilon, delta)
    return tuple(
        Share(1 + (best - 1) * part, of_delta) for part, of_delta in ((1.0, 0.6), (0.8, 0.2), (0.65, 0.2))
    )


def make_filters(
    shares: Sequence[Share],
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
) -> tuple[RenyiFilter, ...]:
    """Filters at several orders, fixed in advance. The rule: a release passes if any of them allows it.

    Guarantee:
        Whatever is released under that rule, however it was chosen, is (epsilon, delta)-DP in all.

        Sums of divergences only grow, so a filter that is passed once stays passed. Sort the outcomes by
        the first filter that is not passed in the end. Those of filter k are, on both neighbours, outcomes
        of the run that stops as soon as k is passed, which is (epsilon, delta_k)-DP. Any set of outcomes
        is the union of its parts, and the delta_k add up to at most delta.
    """
    if not shares or not math.fsum(share.of_delta for share in shares) <= 1 + 1e-12:
        raise InvalidArgument(
            "There are no shares of delta, or they add up to more than 1.",
            remedy="Pass shares that add up to at most 1.",
        )
    return tuple(
        RenyiFilter(epsilon=epsilon, delta=delta * of_delta * (1 - 1e-12), adjacency=adjacency, order=order)
        for order, of_delta in shares
    )


def best_order(epsilon: float, delta: float) -> float:
    """The order at which the most Gaussian noise-free budget fits: where alpha * rho meets epsilon best."""
    orders = 1 + np.geomspace(1e-3, 1e6, 2000)
    limits = np.array([_divergence_for(epsilon, delta, float(order)) for order in orders])
    return float(orders[np.argmax(limits / orders)])


def _divergence_for(epsilon: float, delta: float, order: float) -> float:
    """How much divergence at one order still converts to (epsilon, delta)."""
    used = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(epsilon - used, 0.0)
