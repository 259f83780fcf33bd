"""How far one teacher can move the data-dependent cost of an answer: what noise has to hide.

The cost of a query is a function of its votes. At distance d (d teachers other than they are) one more
teacher can move it by at most LS(d), and the largest LS(d) e^(-beta d) is smooth: neighbours' values
differ by a factor of at most e^beta, so that noise in proportion to it may be added.

Results are (queries, teachers): a column for every distance.

Reference:
    Papernot et al. (2018), Appendix B, arXiv:1802.08908; Nissim, Raskhodnikova and Smith (2007).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from reticent.accounting.search import bisect
from reticent.core import checks
from reticent.core.errors import CannotMeet
from reticent.pate import divergence

_GRID = 20_000  # points at which the conditions of the theorem are looked at


def log_turning_point(sigma: float, order: float) -> float:
    """ln q0: from here on the votes help no more, and an answer costs order / sigma^2.

    Raises:
        CannotMeet: the votes of no ensemble help at this noise and order.
    """
    checks.positive(sigma=sigma, order_above_1=order - 1)
    highest = min(-((1 + 1 / sigma) ** 2), -(((order - 0.99) / sigma) ** 2), -1 / sigma**2)

    def excess(log_wrong: float) -> float:
        bound = divergence.dependent_bound(log_wrong, sigma, order)
        return float(bound) - order / sigma**2

    if excess(highest) < 0:
        return highest
    lowest = 2 * highest
    while excess(lowest) > 0:
        lowest *= 1.5
        if lowest < -10_000:
            raise CannotMeet(
                f"With sigma {sigma:g} no votes can make an answer cheaper at order {order:g}.",
                remedy="Use a lower order, or the data-independent cost.",
            )
    return bisect(lambda log_wrong: excess(log_wrong) >= 0, lowest, highest)


class GaussianMaxCost:
    """The cost of a GNMax answer at one order as a function of ln q, and how far a teacher can move it."""

    def __init__(self, *, sigma: float, order: float, classes: int) -> None:
        checks.count(minimum=2, classes=classes)
        self.sigma, self.order, self.classes = sigma, order, classes
        self.turning = log_turning_point(sigma, order)
        self.below = float(self.lower(np.asarray(self.turning)))  # ln q1

    def cost(self, log_wrong: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            bound = divergence.dependent_bound(log_wrong, self.sigma, self.order)
        bound = np.where(np.isneginf(log_wrong), 0.0, bound)
        return np.where(log_wrong >= self.turning, self.order / self.sigma**2, bound)

    def lower(self, log_wrong: np.ndarray) -> np.ndarray:
        """ln of the least q that one teacher can make of this one (B_L)."""
        return self._move(log_wrong, -math.sqrt(2) / self.sigma)

    def upper(self, log_wrong: np.ndarray) -> np.ndarray:
        """ln of the largest (B_U)."""
        return np.minimum(self._move(log_wrong, math.sqrt(2) / self.sigma), 0.0)

    def _move(self, log_wrong: np.ndarray, by: float) -> np.ndarray:
        others = math.log(self.classes - 1)
        return others + log_ndtr(ndtri_exp(np.minimum(log_wrong - others, -1e-300)) + by)

    def reach(self, log_wrong: np.ndarray) -> np.ndarray:
        """How far one teacher can move the cost: an upper bound, by Proposition 13."""
        log_wrong = np.asarray(log_wrong, np.float64)
        is_flat = (self.below <= log_wrong) & (log_wrong <= self.turning)
        log_wrong = np.where(is_flat, self.below, log_wrong)
        here = self.cost(log_wrong)
        up, down = self.cost(self.upper(log_wrong)) - here, here - self.cost(self.lower(log_wrong))
        return np.maximum(up, down)

    def conditions_hold(self) -> tuple[bool, bool]:
        """C5 and C6: the cost grows with q up to q0, and so does what a teacher adds up to q1.

        Looked at on a fine grid of ln q: a numerical check, not a proof.
        """
        log_wrong = np.linspace(min(100 * self.turning, -700.0), self.turning - 1e-9, _GRID)
        cost = divergence.dependent_bound(log_wrong, self.sigma, self.order)
        grows = _is_growing(cost)
        below = np.linspace(log_wrong[0], self.below, _GRID)
        moved = divergence.dependent_bound(self.upper(below), self.sigma, self.order)
        added = moved - divergence.dependent_bound(below, self.sigma, self.order)
        return grows, grows and _is_growing(added)


def gaussian_max(
    counts: np.ndarray, teachers: int, *, sigma: float, order: float, step: float = 0.0
) -> np.ndarray:
    """LS(d) of the cost of each answer: bounds, (queries, teachers).

    A step of the noise makes every gap smaller by as much (see `divergence`), and so moves none of them more
    or less than before: B_L and B_U, which know only by how much gaps move, stay what they are.

    The worst votes at distance d are found by walking: towards q1 from below by taking votes from the first
    class to the second, towards q0 from above by taking them back.
    """
    counts = np.sort(np.asarray(counts, np.float64), axis=1)[:, ::-1].copy()
    cost = GaussianMaxCost(sigma=sigma, order=order, classes=counts.shape[1])
    log_wrong = divergence.log_wrong_gaussian(counts, sigma, step=step)
    plateau = float(cost.reach(np.asarray(cost.below)))
    found = np.full((len(counts), teachers), plateau)
    is_between = (cost.below <= log_wrong) & (log_wrong <= cost.turning)
    active = np.flatnonzero(~is_between)
    found[active, 0] = cost.reach(log_wrong[active])
    goes_down = log_wrong > cost.turning
    for distance in range(1, teachers):
        far = np.where(
            goes_down[active],
            (log_wrong[active] > cost.turning) & (counts[active, 1] > 0),
            log_wrong[active] < cost.below,
        )
        active = active[far]
        if not len(active):
            break
        move = np.where(goes_down[active], 1.0, -1.0)
        moved = counts[active]
        moved[:, 0] += move
        moved[:, 1] -= move
        moved[:, 1:] = np.sort(moved[:, 1:], axis=1)[:, ::-1]
        counts[active] = moved
        log_wrong[active] = divergence.log_wrong_gaussian(moved, sigma, step=step)
        found[active, distance] = cost.reach(log_wrong[active])
    return found


def check(
    counts: np.ndarray, teachers: int, *, threshold: float, sigma: float, order: float, step: float = 0.0
) -> np.ndarray:
    """LS(d) of the cost of each threshold check, which depends on the largest count alone."""
    levels = np.arange(teachers + 1)
    log_pass = divergence.log_pass_probability(levels[:, None], threshold, sigma, step=step)
    costs = divergence.gaussian_check(log_pass, sigma, np.array([order]))[:, 0]
    steps = np.abs(np.diff(costs))
    reach = np.maximum(np.append(0.0, steps), np.append(steps, 0.0))  # to one vote less, and one more
    highest = np.round(np.max(counts, axis=1)).astype(int)[:, None]
    distance = np.arange(teachers)
    up, down = highest + distance, highest - distance
    found = np.maximum(
        np.where(up <= teachers, reach[np.minimum(up, teachers)], 0.0),
        np.where(down >= 0, reach[np.maximum(down, 0)], 0.0),
    )
    return np.where(distance < np.maximum(highest, teachers - highest), found, 0.0)


def smooth(local: np.ndarray, beta: float) -> float:
    """The largest e^(-beta d) LS(d), where LS(d) is the sum over all queries: they share their teachers.

    With d teachers changed, a query may be at any distance up to d: hence the running maximum of each.
    """
    checks.positive(beta=beta)
    reach = np.maximum.accumulate(np.atleast_2d(local), axis=1).sum(axis=0)
    return float(np.max(np.exp(-beta * np.arange(len(reach))) * reach))


def _is_growing(values: np.ndarray) -> bool:
    """Whether values grow, up to rounding in the last digits."""
    return bool(np.all(np.diff(values) >= -1e-13 * np.abs(values[1:])))
