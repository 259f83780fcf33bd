"""Output perturbation: minimise exactly, then add noise to the weights.

With J = sum of losses / n + mu/2 |w|^2 on rows of norm 1, and n the declared number of records, neighbours'
minimisers are at most reach * L / (mu n) apart: at the one's minimiser the other's gradient is that of one
record (or two) over n, since both divide by the same n, and J is mu-strongly convex. A minimiser whose
gradient is certified to be at most gamma is gamma / mu from the true one, on either side. The computed
minimiser is moved to a grid, and noise is whole numbers of its steps. Proofs and the bounds on the excess
risk: docs/convex.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import USUAL
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import guarantee
from reticent.convex import noise
from reticent.convex.losses import Loss
from reticent.convex.minimise import minimise
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import OFF, ConvexTerms, ReleasedWeights
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator
from reticent.mechanisms.events import Event, Gaussian, PureDp

RADIUS = 6.0  # of the ball in which a good solution is sought, for rows of norm 1, if nobody says otherwise
_CERTIFIED = 1e-11  # the gradient at the minimiser, over the loss's Lipschitz constant


class Noise(NamedTuple):
    """What is added to the weights."""

    event: Event
    contribution: float  # how far one record moves the computed minimiser
    scale: float  # of vector-Laplace noise, or the deviation of Gaussian noise
    square: float  # the expected squared length over the number of parameters


def release(problem: ConvexProblem, terms: ConvexTerms) -> ReleasedWeights:
    """The minimiser plus vector-Laplace noise, or Gaussian noise where a delta is given.

    Guarantee:
        Costs the event it returns, for a convex loss with the Lipschitz constant it declares; up to 2^-60 a
        weight, by which whole noise is off its law.

    Reference:
        Chaudhuri, Monteleoni and Sarwate (2011), Theorem 6, for pure epsilon.
    """
    _check(problem.loss, terms.regularisation)
    mu = terms.regularisation or regularisation_for(problem, terms)
    added = noise_for(problem.loss, problem.examples, problem.parameters, terms, mu)
    terms.pay(added.event)
    bound = _CERTIFIED * problem.loss.lipschitz
    minimum = minimise(problem, regularisation=mu, gradient_bound=bound)
    source, apart = generator(terms.keys), terms.adjacency.reach * added.contribution
    if terms.delta is None:
        hidden = noise.add_vector_laplace(source, minimum.weights, max_norm=apart, epsilon=terms.epsilon)
    else:
        hidden = noise.add_gaussian(source, minimum.weights, max_norm=apart, deviation=added.scale)
    radius = terms.radius or RADIUS
    return ReleasedWeights(
        weights=hidden,
        event=added.event,
        guarantee=_guarantee(added.event, problem, terms),
        excess_risk_bound=excess_risk(problem.loss, added, mu=mu, radius=radius),
        notes=(f"mu = {mu:.4g} for rows of norm 1; the bound is over the least mean loss within {radius:g}",),
    )


def noise_for(loss: Loss, examples: int, parameters: int, terms: ConvexTerms, mu: float) -> Noise:
    """The noise that hides one record's share of the minimiser, and what the solver left undone."""
    reach = terms.adjacency.reach
    residual = 2 * _CERTIFIED * loss.lipschitz / mu
    contribution = loss.lipschitz / (mu * examples) + residual / reach
    if terms.delta is None:
        scale = reach * contribution / terms.epsilon
        event = PureDp(epsilon=terms.epsilon, adjacency=terms.adjacency)
        return Noise(event, contribution, scale, (parameters + 1) * (scale * noise.WIDENED) ** 2)
    delta = terms.delta_for(parameters)
    multiplier = reach * gaussian_dp.noise_multiplier(terms.epsilon, delta) * (1 + 1e-8)
    deviation = multiplier * contribution
    return Noise(
        Gaussian(noise_multiplier=multiplier), contribution, deviation, (deviation * noise.WIDENED) ** 2
    )


def excess_risk(loss: Loss, added: Noise, *, mu: float, radius: float) -> float:
    """mu D^2 / 2 + min(c v / 2, L sqrt v), with v the variance of what the noise does to a row's scores.

    A bound on the expected excess of the mean loss over its least value within radius D. A record sees
    the noise along its own row only, so the dimension enters through v alone: as d + 1 for vector-Laplace
    noise and not at all for Gaussian noise. The lecture's bound L |noise| is never smaller.
    """
    checks.positive(mu=mu, radius=radius)
    square = loss.outputs * added.square
    spread = min(loss.smoothness / 2 * square, loss.lipschitz * math.sqrt(square))
    unsolved = loss.lipschitz * _CERTIFIED * loss.lipschitz / mu
    return mu * radius**2 / 2 + spread + unsolved


def regularisation_for(problem: ConvexProblem, terms: ConvexTerms) -> float:
    """The mu with the least `excess_risk`, from public quantities alone.

    The noise is k / mu for a constant k, so the bound is mu D^2/2 + c k^2 / (2 mu^2) or mu D^2/2 + L k / mu;
    each has its least value in closed form.
    """
    loss, radius = problem.loss, terms.radius or RADIUS

    def bound(mu: float) -> float:
        added = noise_for(loss, problem.examples, problem.parameters, terms, mu)
        return excess_risk(loss, added, mu=mu, radius=radius)

    at_one = noise_for(loss, problem.examples, problem.parameters, terms, 1.0)
    unit = math.sqrt(loss.outputs * at_one.square)
    smooth = (2 * loss.smoothness * unit**2 / radius**2) ** (1 / 3)
    lipschitz = math.sqrt(2 * loss.lipschitz * unit) / radius
    return min((smooth, lipschitz), key=bound)


def lecture_excess_risk(
    loss: Loss, *, mu: float, examples: int, parameters: int, epsilon: float, delta: float
) -> float:
    """The lecture's 3 L^2 sqrt(d ln(1.25/delta)) / (epsilon mu n), over the mean loss of the minimiser.

    Example:
        >>> from reticent.convex.losses import logistic
        >>> risk = lecture_excess_risk(
        ...     logistic(), mu=0.1, examples=1000, parameters=10, epsilon=1.0, delta=1e-5
        ... )
        >>> round(risk, 2)
        0.32
    """
    checks.positive(mu=mu, epsilon=epsilon)
    checks.inside_unit(delta=delta)
    return 3 * loss.lipschitz**2 * math.sqrt(parameters * math.log(1.25 / delta)) / (epsilon * mu * examples)


def _check(loss: Loss, regularisation: float | None) -> None:
    if not loss.is_smooth:
        raise InvalidArgument(
            f"Output perturbation needs a certified minimiser, and '{loss.name}' has a corner.",
            remedy="Use method='exponential' or method='descent', or a smooth loss such as huber.",
        )
    if regularisation == 0:
        raise InvalidArgument(
            "With regularisation 0 one record can move the minimiser any distance.",
            remedy="Pass a positive regularisation, or leave it out: a rule chooses it.",
        )


def _guarantee(event: Event, problem: ConvexProblem, terms: ConvexTerms) -> Guarantee:
    assumptions = terms.assumptions(problem.examples, is_pure=terms.delta is None)
    if terms.delta is not None:
        off = problem.parameters * OFF
        return guarantee(
            event, terms.delta, terms.adjacency, assumptions=assumptions, distance=max(off, USUAL)
        )
    return Guarantee(
        epsilon=terms.epsilon,
        delta=0.0,
        adjacency=terms.adjacency,
        accountant="vector Laplace noise on the minimiser",
        assumptions=assumptions,
    )
