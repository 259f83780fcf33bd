"""Noisy projected gradient descent on all rows.

T full-batch steps compose exactly: they cost what one Gaussian release with noise / sqrt T costs. Two
recipes, both from public quantities alone:

    theorem   when a radius is given: nothing is clipped, steps of R / (G sqrt T), projection onto the ball,
              the mean of all iterates, and the theorem's bound on the excess risk
    rule      otherwise: gradients clipped to the length they have at the start, momentum, an average over
              about the last quarter of the run, and no bound

Noisy sums are divided by the declared number of records, however many rows there are. A smooth loss needs no
compiler (`noisy_sums`); its regulariser is added to the noisy mean. One with a corner goes through
`reticent.training`, since there rounding may turn a slope around; a regulariser is then part of each
record's loss, and clipped with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import sparse
from threadpoolctl import threadpool_limits

from reticent.accounting.reserve import USUAL
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import guarantee
from reticent.convex.losses import Loss
from reticent.convex.noise import WIDENED
from reticent.convex.noisy_sums import NoisySums
from reticent.convex.output import RADIUS
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import OFF, ConvexTerms, ReleasedWeights
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator
from reticent.core.trees import ArrayTree
from reticent.data.sampling import FullBatch
from reticent.mechanisms.adjacency import Adjacency
from reticent.training import theory
from reticent.training.clipping import flat
from reticent.training.data_warnings import without_data_warnings
from reticent.training.loop import train
from reticent.training.places import require_declared
from reticent.training.plan import Plan
from reticent.training.projection import onto_ball

_MOMENTUM = 0.9
_DISTANCE = 4.0  # how far the noise may carry a weight, over the clipping norm: tuned on synthetic data
_STEPS = (20, 250)
_MOST_BY_THEOREM = 1000
_SINGLE = 1 + 1e-6  # room for rounding in 32 bits: a gradient at its bound is not clipped
_WIDENED = WIDENED * 1.001  # by this factor at most the noise is wider than planned, for grid and rounding
_FEW = 1 << 25  # numbers, up to which threads wait for each other longer than they compute
_NEVER = 1e-25  # the chance that coins leave more rows than there is room for


def most_rows(examples: int) -> int:
    """More rows are left with probability `_NEVER`, by any independent coins with that expectation.

    Bernstein: P(count >= n + t) <= exp(-t^2 / (2 (n + t/3))), solved for t.
    """
    log = -math.log(_NEVER)
    return examples + 1 + math.ceil(log / 3 + math.sqrt(log**2 / 9 + 2 * log * examples))


@dataclass(frozen=True, kw_only=True)
class FullBatchWithRoom(FullBatch):
    """Every record in every step, with room for more than were declared.

    Where secret coins decide who is trained on, `examples` is how many can be expected. An error about too
    many rows would reveal the coins.
    """

    @property
    def most(self) -> int:
        return most_rows(self.examples)

    @property
    def capacity(self) -> int:
        return self.most

    @property
    def allowed_difference(self) -> int:
        return self.most - self.examples


class DescentRecipe(NamedTuple):
    """A plan, and how its noisy gradients become weights.

    Args:
        rate: of the steps.
        momentum: Nesterov's; 0 for none.
        decay: of an exponential average of the iterates; None for their mean.
        radius: of the ball onto which weights are projected; None for no projection.
    """

    plan: Plan
    rate: float
    momentum: float
    decay: float | None
    radius: float | None
    excess_risk_bound: float | None
    note: str


def release(problem: ConvexProblem, terms: ConvexTerms) -> ReleasedWeights:
    """Weights by noisy gradient descent.

    Guarantee:
        Costs the plan's event, up to 2^-60 a number. Every gradient is clipped. Of a smooth loss, the
        Lipschitz constant and the smoothness are trusted in the bound on rounding, and nowhere else.

    Reference:
        Bassily, Smith and Thakurta (2014), Theorem 2.4, arXiv:1405.7085v2, for the recipe by theorem.
    """
    if terms.radius is None and problem.loss.is_smooth:
        recipe = recipe_by_rule(problem, terms)
    else:
        recipe = recipe_by_theorem(problem, terms)
    require_declared(recipe.plan, problem.row_count)
    terms.pay(recipe.plan.event)
    if not problem.loss.is_smooth:
        return _release_compiled(problem, terms, recipe)
    drawn = recipe.plan.steps * problem.parameters
    with threadpool_limits(limits=1 if problem.row_count * problem.features < _FEW else None):
        weights = _descend(problem, terms, recipe)
    return ReleasedWeights(
        weights=weights,
        event=recipe.plan.event,
        guarantee=guarantee(
            recipe.plan.event,
            _delta(terms),
            terms.adjacency,
            assumptions=terms.assumptions(problem.examples, is_pure=False),
            distance=max(drawn * OFF, USUAL),
        ),
        excess_risk_bound=recipe.excess_risk_bound,
        notes=(recipe.note,),
    )


def _descend(problem: ConvexProblem, terms: ConvexTerms, recipe: DescentRecipe) -> np.ndarray:
    """The weights after all steps; everything but the noisy sums is post-processing."""
    plan, mu = recipe.plan, terms.regularisation or 0.0
    sums = NoisySums(
        generator(terms.keys),
        problem,
        most=most_rows(problem.examples),
        bound=plan.clipping.sensitivity,
        noise_multiplier=plan.noise_multiplier,
        reach=terms.adjacency.reach,
    )
    weights = np.zeros((problem.features, problem.loss.outputs))
    velocity, average = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(plan.steps):
        slope = sums.at(weights) / problem.examples + mu * weights
        velocity = recipe.momentum * velocity + slope
        weights = weights - recipe.rate * (slope + recipe.momentum * velocity)
        if recipe.radius is not None:
            weights = weights * min(1.0, recipe.radius / max(float(np.linalg.norm(weights)), recipe.radius))
        share = 1 / (step + 1) if recipe.decay is None or step == 0 else 1 - recipe.decay
        average = average + share * (weights - average)
    return average


@without_data_warnings()
def _release_compiled(problem: ConvexProblem, terms: ConvexTerms, recipe: DescentRecipe) -> ReleasedWeights:
    """The same through `reticent.training`, in 32 bits."""
    mu = (terms.regularisation or 0.0) if problem.row_count else 0.0  # without records nothing is regularised
    run = train(
        _loss_of_a_record(problem.loss, mu),
        {"weights": np.zeros((problem.features, problem.loss.outputs), np.float32)},
        _data(problem),
        recipe.plan,
        optimizer=optax.sgd(recipe.rate),
        output="mean",
        project=onto_ball(RADIUS if recipe.radius is None else recipe.radius),
        keys=terms.keys,
    )
    return ReleasedWeights(
        weights=np.asarray(run.params["weights"], np.float64),
        event=recipe.plan.event,
        guarantee=run.guarantee,
        excess_risk_bound=recipe.excess_risk_bound,
        notes=(recipe.note,),
    )


def recipe_by_rule(problem: ConvexProblem, terms: ConvexTerms) -> DescentRecipe:
    """A recipe that does well in practice, from n, the loss, epsilon and delta alone.

    The sum of the step sizes is such that the noise of the whole run moves no weight further than `_DISTANCE`
    clipping norms: as early stopping it plays the part of a regulariser. Steps are as long as is stable.
    """
    rate = 1 / problem.loss.smoothness
    reached = _DISTANCE / (_whole_noise(terms) / problem.examples)  # the sum of step sizes
    steps = round(reached * (1 - _MOMENTUM) / rate)
    steps = min(max(steps, _STEPS[0]), _STEPS[1])
    rate = min(rate, reached * (1 - _MOMENTUM) / steps)
    plan = _plan(problem, terms, steps, problem.loss.undecided * _SINGLE)
    return DescentRecipe(
        plan,
        rate,
        _MOMENTUM,
        1 - 4 / steps,
        None,
        None,
        f"{steps} steps of {rate:.3g}, gradients clipped to {problem.loss.undecided:.3g}",
    )


def recipe_by_theorem(problem: ConvexProblem, terms: ConvexTerms) -> DescentRecipe:
    """The recipe for which a theorem bounds the excess risk, over the least mean loss within the radius."""
    radius = RADIUS if terms.radius is None else terms.radius
    slope = problem.loss.lipschitz + (terms.regularisation or 0.0) * radius
    noise = _whole_noise(terms) * slope / problem.examples
    steps = math.ceil(slope**2 / (problem.parameters * noise**2))  # beyond, the noise is all that is left
    plan = _plan(problem, terms, min(max(steps, _STEPS[0]), _MOST_BY_THEOREM), slope * _SINGLE)
    rate = theory.step_size(plan, radius=radius, parameters=problem.parameters)
    return DescentRecipe(
        plan,
        rate,
        0.0,
        None,
        radius,
        theory.excess_risk(plan, radius=radius, parameters=problem.parameters) * _WIDENED**2,
        f"{plan.steps} steps of {rate:.3g} within radius {radius:g}, as the theorem says",
    )


def _whole_noise(terms: ConvexTerms) -> float:
    """The deviation, over one record's largest gradient, that a single release would need."""
    return terms.adjacency.reach * gaussian_dp.noise_multiplier(terms.epsilon, _delta(terms))


def _delta(terms: ConvexTerms) -> float:
    if terms.delta is None:
        raise InvalidArgument(
            "Gradient descent with Gaussian noise has no pure guarantee, and no delta was given.",
            remedy="Pass a delta such as 1 / rows^2, or use method='objective'.",
        )
    return terms.delta


def _plan(problem: ConvexProblem, terms: ConvexTerms, steps: int, max_norm: float) -> Plan:
    sampler = FullBatchWithRoom(examples=problem.examples)
    near, delta = Adjacency(terms.adjacency), _delta(terms)
    if not problem.loss.is_smooth:
        return Plan.for_budget(
            epsilon=terms.epsilon,
            delta=delta,
            steps=steps,
            max_norm=max_norm,
            sampling=sampler,
            adjacency=near,
        )
    left = terms.delta_for(steps * problem.parameters)
    one = near.reach * gaussian_dp.noise_multiplier(terms.epsilon, left)
    return Plan(
        sampler=sampler,
        clipping=flat(max_norm),
        noise_multiplier=one * math.sqrt(steps) * (1 + 1e-7),
        steps=steps,
        delta=delta,
        adjacency=near,
    )


def _loss_of_a_record(loss: Loss, mu: float) -> Callable[[Any, Any], jax.Array]:
    def of_a_record(params: ArrayTree, example: ArrayTree) -> jax.Array:
        scores = example["x"] @ params["weights"]  # (features,) @ (features, outputs)
        value = loss.value(scores[None, :], example["y"][None], xp=jnp)[0]
        return value + mu / 2 * jnp.sum(params["weights"] ** 2) if mu else value

    return of_a_record


def _data(problem: ConvexProblem) -> dict[str, np.ndarray]:
    """Rows and labels in 32 bits; an empty table becomes one row of zeros, whose gradient is zero."""
    rows = problem.rows.toarray() if sparse.issparse(problem.rows) else problem.rows
    x, y = rows.astype(np.float32), problem.labels.astype(np.float32)
    if not len(y):
        x, y = np.zeros((1, problem.features), np.float32), np.zeros(1, np.float32)
    return {"x": x, "y": y}
