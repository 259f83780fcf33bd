"""What a method really costs in one dimension: exact densities of its output for two neighbouring datasets.

Everything here is computed from the definition of the mechanism, its noise and the rows that the code works
on, and not from any bound. A claim is right when no pair of neighbours exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from reticent.convex.losses import Loss
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import ConvexTerms
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency

REACHES = (0.1, 1.0, 10.0, 100.0)  # row norms
EPSILONS = (0.1, 1.0, 10.0)


class Family(NamedTuple):
    """Problems with one feature and no intercept: all are neighbours, or each is one of the first alone."""

    problems: list[ConvexProblem]
    are_all_neighbours: bool
    declared: int  # the public number of records

    def worst(self, cost: Callable[[Any, Any], float], of_each: list[Any]) -> float:
        """The largest cost of two neighbours, from what was computed for each problem."""
        places = combinations(range(len(of_each)), 2)
        return max(cost(of_each[i], of_each[j]) for i, j in places if self.are_all_neighbours or i == 0)


def terms(epsilon: float, delta: float | None, adjacency: Adjacency, **given: float) -> ConvexTerms:
    return ConvexTerms(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        keys=Keys.seeded(0),
        pay=lambda event: None,
        **given,
    )


def families(loss: Loss, norm: float, adjacency: Adjacency) -> Iterator[Family]:
    """Neighbours with the worst rows (at +-norm, labels flipped) among few and among several others."""
    ends = (0.0, 1.0) if loss.is_classifier else (-1.0, 1.0)
    records = [*product((-norm, norm, norm / 3), ends), (0.0, ends[0])]
    is_replaced = adjacency is Adjacency.REPLACE
    backgrounds = [[(norm, ends[1])], [(norm, ends[1]), (-norm, ends[1]), (norm / 2, ends[0])]]
    for background in [[], *backgrounds] if is_replaced else backgrounds:
        declared = len(background) + 1
        problems = [of(loss, [*background, record], norm, declared) for record in records]
        without = [] if is_replaced else [of(loss, background, norm, declared)]
        yield Family([*without, *problems], is_replaced, declared)


def of(
    loss: Loss, records: list[tuple[float, float]], norm: float, examples: int | None = None
) -> ConvexProblem:
    x, y = np.array([[row] for row, _ in records]), np.array([label for _, label in records])
    return ConvexProblem.of(loss, x, y, norm=norm, intercept=False, examples=examples)


def slope_and_bend(problem: ConvexProblem, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and second derivative of the sum of losses at each w."""
    slope, bend = np.zeros_like(w), np.zeros_like(w)
    for row, label in zip(problem.rows[:, 0], problem.labels, strict=True):
        scores, labels = (row * w)[:, None], np.full(len(w), label)
        slope += row * problem.loss.gradient(scores, labels)[:, 0]
        ones = np.ones_like(scores)
        bend += row**2 * problem.loss.hessian(scores, labels)(ones)[:, 0]
    return slope, bend


def tilted(
    problem: ConvexProblem,
    curvature: float,
    log_density_of_tilt: Callable[[np.ndarray], np.ndarray],
    w: np.ndarray,
) -> np.ndarray:
    """The log density of the tilted minimiser: each w comes from the tilt -(slope + curvature w)."""
    slope, bend = slope_and_bend(problem, w)
    return log_density_of_tilt(-(slope + curvature * w)) + np.log(bend + curvature)


def noise_density(scale: float, delta: float | None) -> Callable[[np.ndarray], np.ndarray]:
    """The log density of one-dimensional noise: Laplace for pure privacy, Gaussian otherwise."""
    law = stats.laplace if delta is None else stats.norm
    return lambda values: law.logpdf(values, scale=scale)


def places(curvature: float, scale: float, slopes: float) -> np.ndarray:
    """Where to look: all weights that the tilt reaches, and far tails."""
    farthest = (40 * scale + slopes) / curvature
    middle = np.linspace(-farthest / 4, farthest / 4, 3001)
    tail = np.geomspace(farthest / 4, farthest, 100)
    return np.unique(np.concatenate([-tail, middle, tail]))


def refined(problems: list[ConvexProblem], curvature: float, scale: float, w: np.ndarray) -> np.ndarray:
    """More places: where the tilt of each problem takes evenly spaced values, so that integrals are right."""
    evenly = np.linspace(-10 * scale, 10 * scale, 1501)
    for _ in range(2):  # the second time more exactly, near the places where a loss stops bending
        found = [np.interp(evenly, slope_and_bend(item, w)[0] + curvature * w, w) for item in problems]
        w = np.unique(np.concatenate([w, *found]))
    return w


def epsilon_of(left: np.ndarray, right: np.ndarray) -> float:
    """The largest log ratio of two densities, in either direction."""
    return float(np.max(np.abs(left - right)))


def delta_of(left: np.ndarray, right: np.ndarray, w: np.ndarray, epsilon: float) -> float:
    """The smallest delta at epsilon, by the trapezoidal rule, in the worse direction."""
    p, q = np.exp(left), np.exp(right)
    mass = np.trapezoid(p, w)
    assert abs(mass - 1) < 1e-2, mass
    return max(
        float(np.trapezoid(np.maximum(p - np.exp(epsilon) * q, 0), w)),
        float(np.trapezoid(np.maximum(q - np.exp(epsilon) * p, 0), w)),
    )
