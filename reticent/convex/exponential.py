"""The exponential mechanism: weights drawn with a probability that falls with their loss.

On the ball of radius D the density is proportional to exp(-k * sum of losses). One record changes the sum
by a function of w that varies by at most `oscillation`, so the density and its constant together
change by at most e^(k * reach * oscillation): k = epsilon / (reach * oscillation) is epsilon-DP.

    up to 3 weights   the density on a fixed grid, drawn from exactly; the proof needs nothing else
    more              a Langevin chain with a fixed number of steps; the guarantee *assumes* that it converged

The expected excess of the mean loss is at most d / (k n), since the loss is convex.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.accounting.guarantee import Guarantee
from reticent.convex.losses import Loss
from reticent.convex.output import RADIUS
from reticent.convex.problem import Problem
from reticent.convex.terms import Release, Terms
from reticent.core import checks
from reticent.core.generators import generator
from reticent.mechanisms.events import ExponentialMechanism

_EXACT = 3  # the most weights for which a grid is drawn from
_POINTS = {1: 4001, 2: 141, 3: 27}  # on an axis, by the number of weights
_STEPS = 2000  # of the chain
_ACCEPTED = 0.5


def release(problem: Problem, terms: Terms) -> Release:
    """One draw from the exponential mechanism on the ball.

    Guarantee:
        Pure epsilon for up to 3 weights. For more, the same under the assumption, named in the guarantee,
        that the chain has reached its limit.

    Reference:
        McSherry and Talwar (2007), Theorem 6; Bassily, Smith and Thakurta (2014), Section 3, for the risk.
    """
    radius = RADIUS if terms.radius is None else terms.radius
    rate = terms.epsilon / (terms.adjacency.reach * oscillation(problem.loss, radius))
    event = ExponentialMechanism(epsilon=terms.epsilon, adjacency=terms.adjacency)
    terms.pay(event)
    source = generator(terms.keys)
    prior = (terms.regularisation or 0.0) * problem.examples
    is_exact = problem.parameters <= _EXACT
    if is_exact:
        weights = _from_grid(source, problem, rate, prior, radius)
        assumptions, how = (), "drawn exactly, from a grid"
    else:
        weights = _from_chain(source, problem, rate, prior, radius)
        assumptions = (f"{_STEPS} steps of the Langevin chain reach its limit (assumed, not proved)",)
        how = f"{_STEPS} steps of a Langevin chain"
    public = f"the number of records, {problem.examples}, is public"
    return Release(
        weights=weights,
        event=event,
        guarantee=Guarantee(
            epsilon=terms.epsilon,
            delta=0.0,
            adjacency=terms.adjacency,
            accountant="exponential mechanism",
            assumptions=(public, *assumptions, *terms.keys.assumptions),
        ),
        excess_risk_bound=excess_risk(problem, rate, terms.regularisation or 0.0, radius),
        notes=(f"{how}, within radius {radius:g}",),
    )


def oscillation(loss: Loss, radius: float) -> float:
    """How much one record's loss varies over scores of size at most `radius`.

    A loss whose slopes all have one sign is monotone, so its ends tell; any other varies by at most its
    Lipschitz constant times the diameter.
    """
    checks.positive(radius=radius)
    if loss.outputs > 1 or loss.corners > 1:
        return 2 * loss.lipschitz * radius
    ends = loss.value(np.array([[-radius], [radius]]), np.ones(2))
    return float(abs(ends[1] - ends[0])) * (1 + 1e-12)


def excess_risk(problem: Problem, rate: float, mu: float, radius: float) -> float:
    """A bound on the expected excess of the mean loss over its least value within radius D.

    For the density itself d / (k n) + mu D^2 / 2. On a grid of N points the mean is within log(N) / (k n) of
    the least value there, and the way to the grid and the random place in a cell are a cell and a half.
    """
    dimension, regularising = problem.parameters, mu * radius**2 / 2
    if dimension > _EXACT:
        return dimension / (rate * problem.examples) + regularising
    points, cell = grid(dimension, radius)
    slope = problem.loss.lipschitz + mu * radius
    rounding = 1.5 * slope * cell * math.sqrt(dimension)
    return math.log(len(points)) / (rate * problem.examples) + rounding + regularising


def potential(problem: Problem, points: np.ndarray, rate: float, prior: float) -> np.ndarray:
    """k times the regularised sum of losses, less its value at zero, at each of (points, weights)."""
    shape = (-1, problem.features, problem.loss.outputs)
    at_zero = np.zeros((problem.examples, problem.loss.outputs))
    base = problem.loss.value(at_zero, problem.labels)
    sums = [
        float((problem.loss.value(np.asarray(problem.rows @ point), problem.labels) - base).sum())
        for point in points.reshape(shape)
    ]
    return rate * (np.array(sums) + prior / 2 * np.sum(points**2, axis=1))


def grid(dimension: int, radius: float) -> tuple[np.ndarray, float]:
    """Evenly spaced points inside the ball, (points, dimension), and their distance along an axis."""
    axis = np.linspace(-radius, radius, _POINTS[dimension])
    points = np.stack([part.ravel() for part in np.meshgrid(*[axis] * dimension)], axis=1)
    return points[np.sum(points**2, axis=1) <= radius**2 * (1 + 1e-12)], float(axis[1] - axis[0])


def _from_grid(
    source: np.random.Generator, problem: Problem, rate: float, prior: float, radius: float
) -> np.ndarray:
    """A point of the grid, moved to a random place in its cell: post-processing, which evens the grid out."""
    points, cell = grid(problem.parameters, radius)
    # The largest of the log densities plus Gumbel noise is a draw from the density.
    keys = -potential(problem, points, rate, prior) + source.gumbel(size=len(points))
    chosen = points[int(np.argmax(keys))] + cell * (source.random(problem.parameters) - 0.5)
    return chosen.reshape(problem.features, problem.loss.outputs)


def _from_chain(
    source: np.random.Generator, problem: Problem, rate: float, prior: float, radius: float
) -> np.ndarray:
    """The Metropolis-adjusted Langevin chain from zero; its step size settles in the first half."""
    shape = (problem.features, problem.loss.outputs)
    base = float(problem.loss.value(np.zeros((problem.examples, shape[1])), problem.labels).sum())

    def at(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = np.asarray(problem.rows @ weights)
        value = float(problem.loss.value(scores, problem.labels).sum()) - base
        slope = np.asarray(problem.transposed @ problem.loss.gradient(scores, problem.labels))
        total = value + prior / 2 * float(np.vdot(weights, weights))
        return rate * total, rate * (slope + prior * weights)

    weights = np.zeros(shape)
    value, slope = at(weights)
    step = radius**2 / (problem.parameters * (1 + rate * problem.examples))
    for turn in range(_STEPS):
        move = -step * slope + math.sqrt(2 * step) * source.standard_normal(shape)
        chance = source.random()
        proposed = weights + move
        accepted = False
        if float(np.vdot(proposed, proposed)) <= radius**2:
            new_value, new_slope = at(proposed)
            back = -move + step * new_slope
            forth = move + step * slope
            odds = value - new_value + float(np.vdot(forth, forth) - np.vdot(back, back)) / (4 * step)
            accepted = math.log(max(chance, 1e-300)) <= odds
            if accepted:
                weights, value, slope = proposed, new_value, new_slope
        if turn < _STEPS // 2:
            step *= math.exp(0.1 * (accepted - _ACCEPTED))
    return weights
