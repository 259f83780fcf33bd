"""Objective perturbation: tilt the objective by a random vector, then minimise.

The released w minimises  sum of losses + Lambda/2 |w|^2 + <b, w>,  with b random and Lambda = mu n. Each w
comes from exactly one b, so its density is that of b times a Jacobian determinant. Between neighbours
the determinant changes by a factor of at most (1 + c/Lambda)^rank, and b by the gradients of one record or
two. The proofs are in docs/convex.md; here are their numbers:

    pure        epsilon = epsilon_b + determinant,  b with density exp(-epsilon_b |b| / (reach L))
    with delta  delta = sum over the pairs of corners of the Gaussian's delta at epsilon - determinant

The solver stops at a certified gradient, and the tilt that it is given is not quite the real one which the
proof is about (see `noise`). Both move the weights by a known distance. It is hidden by a little noise on
them, paid from a small share of epsilon (approximate minima perturbation).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.search import bisect
from reticent.accounting.theorems import gaussian_dp
from reticent.convex import noise
from reticent.convex.losses import Loss
from reticent.convex.minimise import minimise
from reticent.convex.output import RADIUS
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import ConvexTerms, ReleasedWeights
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Event, PureDp

_CERTIFIED = 1e-11  # the gradient at the minimiser, over the loss's Lipschitz constant
_RESIDUAL = 1e-3  # the share of epsilon that hides what the minimiser left undone
_DETERMINANT = 0.3  # the largest share of epsilon that the determinant may take
_SHRINKAGE = 0.5  # Lambda over the tilt's deviation, for slopes of up to 1: tuned on synthetic data


class Tilt(NamedTuple):
    """The random linear term: how it is drawn, with which regulariser it is proved.

    Args:
        curvature: Lambda, the regulariser of the sum of losses.
        determinant: the part of epsilon that the determinant takes.
        scale: of vector-Laplace noise, or the deviation of Gaussian noise.
        deviation: of one entry.
        residual: the epsilon, and the scale, of the noise on the weights; their product is the distance that
            it hides.
    """

    curvature: float
    determinant: float
    scale: float
    deviation: float
    residual: tuple[float, float]


def release(problem: ConvexProblem, terms: ConvexTerms) -> ReleasedWeights:
    """The minimiser of the tilted objective, and the residual hidden.

    Guarantee:
        Costs the event it returns, for a loss with the constants it declares; any row norm, the
        intercept included, since rows have norm 1 here. Let w be the exact minimiser for the real tilt behind
        the one that is drawn: its density is that of the proof. Given w, the computed weights of either
        neighbour are within half of `Tilt.residual`'s distance of it, so that vector-Laplace noise in whole
        numbers hides which they are. Up to 2^-60 a number, by which whole noise is off its law.

    Reference:
        Chaudhuri, Monteleoni and Sarwate (2011), Theorem 9; Kifer, Smith and Thakurta (2012), Theorem 2;
        Iyengar et al. (2019), Theorem 1, for the residual. With delta, docs/convex.md has a tighter proof.
    """
    _check(problem.loss, terms.regularisation)
    tilt = tilt_for(problem.loss, problem.examples, problem.parameters, terms)
    event = _event(terms)
    terms.pay(event)
    source, shape = generator(terms.keys), (problem.features, problem.loss.outputs)
    draw = noise.vector_laplace_tilt if terms.delta is None else noise.gaussian_tilt
    drawn = draw(source, shape, tilt.scale)
    mu = tilt.curvature / problem.examples
    minimum = minimise(
        problem,
        regularisation=mu,
        gradient_bound=_CERTIFIED * problem.loss.lipschitz,
        tilt=drawn / problem.examples,
    )
    hiding, scale = tilt.residual
    return ReleasedWeights(
        weights=noise.add_vector_laplace(source, minimum.weights, max_norm=hiding * scale, epsilon=hiding),
        event=event,
        guarantee=_guarantee(problem, terms),
        excess_risk_bound=excess_risk(tilt, problem, terms.radius or RADIUS),
        notes=_notes(tilt, problem, terms),
    )


def tilt_for(loss: Loss, examples: int, parameters: int, terms: ConvexTerms) -> Tilt:
    """The tilt for a budget; its regulariser is the caller's, a rule's, or what the proof needs."""
    hiding = _RESIDUAL * terms.epsilon
    epsilon = terms.epsilon - hiding
    least = least_curvature(loss, _DETERMINANT * epsilon)
    delta = None if terms.delta is None else terms.delta_for(2 * parameters)  # a tilt, and the residual

    def scale_at(curvature: float) -> float:
        return tilt_scale(loss, epsilon - determinant(loss, curvature), delta, terms.adjacency)

    def deviation_of(scale: float) -> float:
        # A vector-Laplace vector has length sqrt(d (d + 1)) scale, in the root of the mean square.
        return scale * math.sqrt(parameters + 1) if terms.delta is None else scale

    wanted = terms.regularisation
    if wanted is None:
        curvature = least
        for _ in range(2):  # the noise depends a little on the curvature
            curvature = max(_SHRINKAGE * deviation_of(scale_at(curvature)) / (2 * loss.undecided), least)
    else:
        curvature = max(wanted * examples, least)
    scale = scale_at(curvature)
    moved = noise.MOVED * deviation_of(scale) * math.sqrt(parameters)  # from the real tilt to the drawn one
    residual = 2 * (_CERTIFIED * loss.lipschitz * examples + moved) / curvature
    return Tilt(
        curvature, determinant(loss, curvature), scale, deviation_of(scale), (hiding, residual / hiding)
    )


def determinant(loss: Loss, curvature: float) -> float:
    """A bound on the log ratio of the Jacobians: rank * log(1 + c / Lambda), for either adjacency.

    The eigenvalues of one record's Hessian are at most c and sum to at most the trace; log is concave.

    Example:
        >>> from reticent.convex.losses import logistic
        >>> round(determinant(logistic(), 1.0), 4)
        0.2231
    """
    checks.positive(curvature=curvature)
    return loss.rank * math.log1p(min(loss.smoothness, loss.trace / loss.rank) / curvature)


def least_curvature(loss: Loss, share: float) -> float:
    """The Lambda at which the determinant takes exactly `share` of epsilon.

    Example:
        >>> from reticent.convex.losses import logistic
        >>> round(least_curvature(logistic(), 0.5), 3)
        0.385
    """
    checks.positive(share=share)
    return min(loss.smoothness, loss.trace / loss.rank) / math.expm1(share / loss.rank)


def tilt_scale(loss: Loss, epsilon: float, delta: float | None, adjacency: Adjacency) -> float:
    """How random the tilt must be, for what the determinant left of epsilon."""
    if delta is None:
        return adjacency.reach * loss.lipschitz / epsilon

    def is_enough(deviation: float) -> bool:
        return tilt_delta(loss, deviation, epsilon, adjacency) <= delta

    enough = adjacency.reach * loss.lipschitz
    while not is_enough(enough):
        enough *= 2
    return bisect(is_enough, enough * 2.0**-40, enough) * (1 + 1e-9)


def tilt_delta(loss: Loss, deviation: float, epsilon: float, adjacency: Adjacency) -> float:
    """The delta of a Gaussian tilt at what is left of epsilon: one Gaussian for each pair of corners.

    The log ratio of densities is convex in the gradients of the records that differ, so it is largest where
    each gradient is 0 or a corner. For a fixed choice of those it is the loss of a Gaussian mechanism, and
    the largest of several costs no more than their sum.
    """
    one = gaussian_dp.delta(loss.lipschitz / deviation, epsilon)
    if adjacency is not Adjacency.REPLACE:
        return loss.corners * one
    both = gaussian_dp.delta(2 * loss.lipschitz / deviation, epsilon)
    return 2 * loss.corners * one + loss.corners**2 * both


def excess_risk(tilt: Tilt, problem: ConvexProblem, radius: float) -> float:
    """Lambda D^2 / (2n) + d s^2 / (2 Lambda n) + L v: over the least mean loss within radius D.

    The lecture's bound, before Lambda is chosen; v is the length of the noise that hides the residual.
    """
    parameters = problem.parameters
    spread = parameters * tilt.deviation**2 / (2 * tilt.curvature)
    hidden = (tilt.residual[1] * parameters + tilt.residual[0] * tilt.residual[1]) * problem.loss.lipschitz
    return (tilt.curvature * radius**2 / 2 + spread) / problem.examples + hidden


def _check(loss: Loss, regularisation: float | None) -> None:
    if not loss.is_smooth:
        raise InvalidArgument(
            f"Objective perturbation needs a loss with curvature, and '{loss.name}' has a corner: "
            "there many tilts share one minimiser, which then shows.",
            remedy="Use method='exponential' or method='descent', or a smooth loss such as huber.",
        )
    if regularisation == 0:
        raise InvalidArgument(
            "Objective perturbation needs a strongly convex objective, and the regularisation is 0.",
            remedy="Pass a positive regularisation, or leave it out: a rule chooses it.",
        )


def _event(terms: ConvexTerms) -> Event:
    if terms.delta is None:
        return PureDp(epsilon=terms.epsilon, adjacency=terms.adjacency)
    return ApproximateDp(epsilon=terms.epsilon, delta=terms.delta, adjacency=terms.adjacency)


def _guarantee(problem: ConvexProblem, terms: ConvexTerms) -> Guarantee:
    return Guarantee(
        epsilon=terms.epsilon,
        delta=terms.delta or 0.0,
        adjacency=terms.adjacency,
        accountant="objective perturbation",
        assumptions=terms.assumptions(problem.examples, is_pure=terms.delta is None),
    )


def _notes(tilt: Tilt, problem: ConvexProblem, terms: ConvexTerms) -> tuple[str, ...]:
    mu = tilt.curvature / problem.examples
    said = f"mu = {mu:.4g} for rows of norm 1"
    if terms.regularisation is not None and mu > terms.regularisation * (1 + 1e-12):
        said = f"the proof needs mu = {mu:.4g}, more than the {terms.regularisation:.4g} asked for"
    shares = f"{tilt.determinant:.2g} of epsilon for the determinant, {tilt.residual[0]:.2g} for the residual"
    return said, shares
