"""The convex methods as methods of a run: linear models with a proof for the whole fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from reticent import convex
from reticent.accounting.guarantee import Unit
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.rounding import at_most
from reticent.accounting.tight_epsilon import cost_within
from reticent.convex import losses, output
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import ConvexTerms
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.data.encoding import has_target
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Event
from reticent.runs.method import Inputs, Method, Terms, Trained, require_enough
from reticent.runs.payment import claim_beside
from reticent.runs.problem import Problem


class Convex(NamedTuple):
    """One fit by a convex method, for what preparation leaves of the budget."""

    name: str
    epsilon: float
    delta: float

    @property
    def event(self) -> Event:
        return ApproximateDp(epsilon=self.epsilon, delta=self.delta)

    @property
    def in_words(self) -> str:
        return f"one fit for epsilon {at_most(self.epsilon)} and delta {self.delta:.3g}"

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    def follow(self, inputs: Inputs) -> Trained:
        problem, x, y = inputs.problem, inputs.train_on["x"], inputs.train_on["y"]
        # How many rows coins left, and how many of them have a target, is private: what is declared is how
        # many can be expected, and a row without a target adds nothing to any sum.
        known = has_target(y)
        found = convex.fit(
            _loss(problem),
            x[known],
            _labels(problem, y[known]),
            method=self.name,
            examples=problem.rows,
            epsilon=self.epsilon,
            delta=self.delta,
            norm=1.0,  # by the scale of the problem
            adjacency=Adjacency.ADD_OR_REMOVE,
            keys=inputs.keys,
            budget=self,
        )
        return Trained(_params(problem, found), found.guarantee.assumptions)

    def noise_deviation(self, problem: Problem) -> float | None:
        """The standard deviation of the noise on each weight; None where no theorem says what it is.

        Public: it follows from the declared number of records, the sizes and the price alone.
        """
        if self.name != "output":
            return None
        features = math.prod(problem.shape)
        loss = _loss(problem)
        empty = ConvexProblem.of(
            loss, np.zeros((0, features)), np.zeros(0, int), norm=1.0, examples=problem.rows
        )
        terms = ConvexTerms(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=Adjacency.ADD_OR_REMOVE,
            keys=Keys.from_os(),
            pay=lambda event: None,
        )
        mu = output.regularisation_for(empty, terms)
        added = output.noise_for(loss, problem.rows, empty.parameters, terms, mu)
        coefficients, _ = empty.in_users_units(np.full((features + 1, loss.outputs), math.sqrt(added.square)))
        return float(coefficients[0, 0])

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Unit) -> None:
        """The budget of the fit: what it releases was priced and paid before, and may not cost more."""
        cost = cost_within(event, self.epsilon, self.delta, Neighbours(adjacency))
        if adjacency is not Adjacency.ADD_OR_REMOVE or not (cost <= self.epsilon * (1 + 1e-6)):
            raise AssertionError(f"{purpose}: priced at {self.epsilon}, and costs {cost} under {adjacency}")


def method(name: str, description: str) -> Method:
    """The row of a convex method."""
    return Method(
        description=description, price=_price_with(name), read=_read, has_shadows=True, claims_delta=True
    )


def _price_with(name: str) -> Callable[[Terms], Convex]:
    def price(terms: Terms) -> Convex:
        require_enough(terms)
        if terms.model != "linear":
            raise InvalidArgument(
                f"The method '{name}' fits linear models, and this is '{terms.model}'.",
                remedy="Pass --model linear, or --method sgd.",
            )
        return Convex(name, *claim_beside(terms.beside, epsilon=terms.epsilon, delta=terms.delta))

    return price


def _read(value: Mapping[str, Any]) -> Convex:
    return Convex(str(value["name"]), float(value["epsilon"]), float(value["delta"]))


def _loss(problem: Problem) -> losses.Loss:
    if not problem.is_classification:
        return losses.squared(1.0)
    return losses.logistic() if problem.outputs == 2 else losses.softmax(problem.outputs)


def _labels(problem: Problem, y: np.ndarray) -> np.ndarray:
    if problem.bounds is None:
        return y
    low, high = problem.bounds
    return (y - (low + high) / 2) / ((high - low) / 2 or 1.0)


def _params(problem: Problem, found: convex.Fit) -> dict[str, np.ndarray]:
    """The one score of two classes is the second one's; the first has none."""
    weights, constants = (np.asarray(part, np.float32) for part in (found.coefficients, found.intercept))
    if problem.outputs == 2:
        weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
        constants = np.concatenate([np.zeros_like(constants), constants])
    return {"w": weights, "b": constants}
