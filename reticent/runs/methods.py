"""The ways to train privately: one row a method.

A method says what it will cost before it sees a record, and then trains. Defaults depend on the declared
number of rows, on the model and on epsilon: on nothing that is private.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.core.errors import CannotMeet
from reticent.core.keys import Keys, Stream
from reticent.mechanisms.events import Event
from reticent.runs.learners import Learner
from reticent.runs.problem import Problem
from reticent.training.checkpoint import Checkpoints
from reticent.training.loop import Run, train
from reticent.training.plan import Plan
from reticent.training.plan_json import from_json, to_json

_SMALLEST = 20  # rows, below which there is nothing to learn privately


class Terms(NamedTuple):
    """What a method may know before it is paid for."""

    rows: int
    model: str
    epsilon: float
    delta: float
    beside: Event | None


class Recipe(NamedTuple):
    """A priced run: its plan, and the learning rate."""

    plan: Plan
    learning_rate: float

    def to_json(self) -> dict[str, Any]:
        return {"plan": to_json(self.plan), "learning_rate": self.learning_rate}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Recipe:
        return cls(from_json(value["plan"]), float(value["learning_rate"]))


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to train.

    Args:
        price: the recipe that spends what the terms allow.
        fit: does what the recipe says.
    """

    description: str
    price: Callable[[Terms], Recipe]
    fit: Callable[..., Run]


def _by_descent(
    recipe: Recipe,
    learner: Learner,
    problem: Problem,
    data: Mapping[str, np.ndarray],
    *,
    keys: Keys,
    checkpoints: Checkpoints | None,
    evaluate: Mapping[str, np.ndarray] | None,
) -> Run:
    schedule = optax.linear_schedule(recipe.learning_rate, 0.0, recipe.plan.steps)
    metrics = {"accuracy": _is_right(learner)} if problem.is_classification else {}
    return train(
        learner.loss,
        learner.model.init(keys.take(Stream.INITIALISATION)),
        data,
        recipe.plan,
        optimizer=optax.sgd(schedule, momentum=0.9),
        evaluate=evaluate,
        metrics=metrics,
        keys=keys,
        checkpoints=checkpoints,
    )


def _is_right(learner: Learner) -> Callable[[Any, Any], jax.Array]:
    return lambda params, example: jnp.argmax(learner.scores(params, example["x"])) == example["y"]


def _stochastic(terms: Terms) -> Recipe:
    """Batches of a thirteenth of the rows (at least 64, at most 4096), and as many steps as noise allows."""
    _require_enough(terms)
    batch = int(min(max(terms.rows // 13, 64), 4096, terms.rows))
    steps, rate, norm = {
        "linear": (200, 4.0, 1.0),
        "mlp": (300, 1.0, 1.0),
        "cnn": (1200, 3.0, 0.1),
        "scattering": (600, 60.0, 0.1),
    }[terms.model]
    batch = min(1024, batch) if terms.model == "cnn" else batch
    return Recipe(_plan(terms, norm, steps, batch), rate)


def _full(terms: Terms) -> Recipe:
    """Everybody in every step; every iterate is covered."""
    _require_enough(terms)
    steps, rate, norm = {
        "linear": (100, 4.0, 1.0),
        "mlp": (150, 1.0, 1.0),
        "cnn": (200, 3.0, 0.1),
        "scattering": (200, 100.0, 0.1),
    }[terms.model]
    return Recipe(_plan(terms, norm, steps, None), rate)


def _plan(terms: Terms, max_norm: float, steps: int, batch: int | None) -> Plan:
    return Plan.for_budget(
        epsilon=terms.epsilon,
        delta=terms.delta,
        examples=terms.rows,
        batch_size=batch,
        sampling="full" if batch is None else "poisson",
        steps=steps,
        max_norm=max_norm,
        beside=terms.beside,
    )


def _require_enough(terms: Terms) -> None:
    if terms.rows < _SMALLEST:
        raise CannotMeet(
            f"{terms.rows} rows are too few: what is learned from so few people is about them.",
            remedy=f"Collect at least {_SMALLEST} rows, and expect little below a thousand.",
        )


METHODS: dict[str, Method] = {
    "sgd": Method(
        description="DP-SGD: random batches, clipped gradients, noise", price=_stochastic, fit=_by_descent
    ),
    "gd": Method(description="DP-GD: everybody in every step", price=_full, fit=_by_descent),
}


def choose(name: str) -> str:
    """The method of this name; `auto` is sgd, which needs less noise for as much learning."""
    return "sgd" if name == "auto" else name
