"""The exponential mechanism: weights drawn with a probability that falls with their loss.

On the ball of radius D the density is proportional to exp(-k * sum of losses). One record changes the sum
by a function of w that varies by at most `oscillation`, so the density and its constant together
change by at most e^(k * reach * oscillation): k = epsilon / (reach * oscillation) is epsilon-DP. A
regulariser adds mu n/2 |w|^2 to the sum, with n the declared number of records, and so the same function for
all neighbours.

    up to 3 weights   the density on a fixed grid, drawn from exactly: losses are whole numbers of a public
                      step, each record's clipped, and so are the weights by which a point is drawn
    more              a Langevin chain with a fixed number of steps; the guarantee *assumes* that it converged

The expected excess of the mean loss is at most d / (k n), since the loss is convex.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import sparse

from reticent.accounting.guarantee import Guarantee
from reticent.convex.losses import Loss
from reticent.convex.output import RADIUS
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import ConvexTerms, ReleasedWeights
from reticent.core import checks
from reticent.core.generators import generator
from reticent.mechanisms.choosing import choose_whole
from reticent.mechanisms.events import ExponentialMechanism
from reticent.mechanisms.whole import power_of_two

_EXACT = 3  # the most weights for which a grid is drawn from
_POINTS = {1: 4001, 2: 141, 3: 27}  # on an axis, by the number of weights
_STEPS = 2000  # of the chain
_ACCEPTED = 0.5
_FINE = 2.0**-20  # of what one record's loss varies by: a step of the losses that decide
_ROUNDED = 2.0**-20  # of the radius: the grid of the weights that a chain ends at


def release(problem: ConvexProblem, terms: ConvexTerms) -> ReleasedWeights:
    """One draw from the exponential mechanism on the ball.

    Guarantee:
        Pure epsilon for up to 3 weights: a record adds to every score a whole number from `low` to `high`,
        whatever floats made of its loss, so that log odds move by at most reach * (high - low) units; up to
        2^-90, by which a choice is off its law. For more weights, the same under the assumption, named in
        the guarantee, that the chain has reached its limit.

    Reference:
        McSherry and Talwar (2007), Theorem 6; Bassily, Smith and Thakurta (2014), Section 3, for the risk.
    """
    radius = RADIUS if terms.radius is None else terms.radius
    step, low, high = loss_steps(problem.loss, radius)
    rate = terms.epsilon / (terms.adjacency.reach * (high - low) * step)
    event = ExponentialMechanism(epsilon=terms.epsilon, adjacency=terms.adjacency)
    terms.pay(event)
    source = generator(terms.keys)
    prior = (terms.regularisation or 0.0) * problem.examples  # declared: no record decides it
    is_exact = problem.parameters <= _EXACT
    if is_exact:
        unit = Fraction(terms.epsilon) / (terms.adjacency.reach * (high - low))
        weights = _from_grid(source, problem, unit, prior, radius)
        assumptions, how = terms.assumptions(problem.examples, is_pure=True), "drawn exactly, from a grid"
    else:
        weights = _from_chain(source, problem, rate, prior, radius)
        trusted = (
            f"in real numbers, {_STEPS} steps of the Langevin chain reach its limit (assumed, not proved)"
        )
        assumptions = (*terms.assumptions(problem.examples, is_pure=False), trusted)
        how = f"{_STEPS} steps of a Langevin chain"
    return ReleasedWeights(
        weights=weights,
        event=event,
        guarantee=Guarantee(
            epsilon=terms.epsilon,
            delta=0.0,
            adjacency=terms.adjacency,
            accountant="exponential mechanism",
            assumptions=assumptions,
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


def excess_risk(problem: ConvexProblem, rate: float, mu: float, radius: float) -> float:
    """A bound on the expected excess of the mean loss over its least value within radius D.

    For the density itself d / (k n) + mu D^2 / 2. On a grid of N points the mean is within log(N) / (k n) of
    the least value there, and the way to the grid and the random place in a cell are a cell and a half.
    """
    dimension, regularising = problem.parameters, mu * radius**2 / 2
    if dimension > _EXACT:
        return dimension / (rate * problem.examples) + regularising
    points, cell = grid(dimension, radius)
    slope = problem.loss.lipschitz + mu * radius
    rounding = 1.5 * slope * cell * math.sqrt(dimension) + loss_steps(problem.loss, radius)[0]
    return math.log(len(points)) / (rate * problem.examples) + rounding + regularising


def loss_steps(loss: Loss, radius: float) -> tuple[float, int, int]:
    """A public step, and between how many of them a record's loss less that at zero may lie."""
    varies = oscillation(loss, radius)
    step = power_of_two(varies * _FINE)
    if loss.outputs > 1 or loss.corners > 1:
        most = math.ceil(varies / 2 / step)
        return step, -most, most
    ends = loss.value(np.array([[-radius], [0.0], [radius]]), np.ones(3))
    low, high = sorted(((ends[0] - ends[1]) / step, (ends[2] - ends[1]) / step))
    return step, math.floor(low), math.ceil(high)


def scores(problem: ConvexProblem, points: np.ndarray, prior: float, radius: float) -> np.ndarray:
    """Minus the regularised sum of losses, relative to its value at zero, at each point: int64 (points,).

    Guarantee:
        Whole numbers of `loss_steps`. A record adds a number from `low` to `high` to each, for all finite
        rows and targets, and which it is depends on that record alone: products are taken number by number,
        since one of matrices rounds by the place of a row. The sum is exact.
    """
    step, low, high = loss_steps(problem.loss, radius)
    rows = problem.rows.toarray() if sparse.issparse(problem.rows) else problem.rows
    base = problem.loss.value(np.zeros((problem.row_count, problem.loss.outputs)), problem.labels)

    def total(point: np.ndarray) -> int:
        scores = np.zeros((problem.row_count, problem.loss.outputs))
        for feature, weights in enumerate(point):
            scores += rows[:, feature, None] * weights
        values = problem.loss.value(scores, problem.labels) - base
        return int(np.clip(np.rint(np.nan_to_num(values / step)), low, high).astype(np.int64).sum())

    sums = [total(point) for point in points.reshape(-1, problem.features, problem.loss.outputs)]
    regularising = np.minimum(np.rint(prior / 2 * np.sum(points**2, axis=1) / step), 2.0**60)
    return -(np.array(sums, np.int64) + regularising.astype(np.int64))


def grid(dimension: int, radius: float) -> tuple[np.ndarray, float]:
    """Evenly spaced points inside the ball, (points, dimension), and their distance along an axis."""
    axis = np.linspace(-radius, radius, _POINTS[dimension])
    points = np.stack([part.ravel() for part in np.meshgrid(*[axis] * dimension)], axis=1)
    return points[np.sum(points**2, axis=1) <= radius**2 * (1 + 1e-12)], float(axis[1] - axis[0])


def _from_grid(
    source: np.random.Generator, problem: ConvexProblem, unit: Fraction, prior: float, radius: float
) -> np.ndarray:
    """A point of the grid, moved to a random place in its cell: post-processing, which evens the grid out."""
    points, cell = grid(problem.parameters, radius)
    place = int(choose_whole(source, scores(problem, points, prior, radius), unit))
    chosen = points[place] + cell * (source.random(problem.parameters) - 0.5)
    return chosen.reshape(problem.features, problem.loss.outputs)


def _from_chain(
    source: np.random.Generator, problem: ConvexProblem, rate: float, prior: float, radius: float
) -> np.ndarray:
    """The Metropolis-adjusted Langevin chain from zero; its step size settles in the first half.

    Where it ends is rounded to a public grid, so that no lower bits of a computation on the data are shown.
    """
    shape = (problem.features, problem.loss.outputs)
    base = problem.loss.value(np.zeros((problem.row_count, shape[1])), problem.labels)  # (rows,)

    def at(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = np.asarray(problem.rows @ weights)
        value = float((problem.loss.value(scores, problem.labels) - base).sum())
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
    cell = power_of_two(radius * _ROUNDED)
    return np.rint(weights / cell) * cell
