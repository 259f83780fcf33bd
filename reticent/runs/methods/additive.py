"""The additive model as a method of a run: noisy passes over all rows, one curve per column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from reticent import additive
from reticent.accounting.reserve import TRAINING
from reticent.additive.targets import AdditiveTarget, ClassTarget, NumberTarget
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.events import Event
from reticent.runs.method import Inputs, Method, Terms, Trained, require_enough
from reticent.runs.problem import Problem


class Additive(NamedTuple):
    """One fit of an additive model, for what preparation leaves of the budget.

    Args:
        rows_per_user: the most rows of a user; with more than one, all of them together count as one.
    """

    passes: int
    noise_multiplier: float
    numbers: int
    delta: float
    rows_per_user: int = 1

    @property
    def event(self) -> Event:
        return self.fitted.event

    @property
    def in_words(self) -> str:
        each = ", the rows of a user counting as one" if self.rows_per_user > 1 else ""
        return f"{self.fitted.in_words}{each}"

    def to_json(self) -> dict[str, Any]:
        return {
            name: value for name, value in self._asdict().items() if value != 1 or name != "rows_per_user"
        }

    def follow(self, inputs: Inputs) -> Trained:
        problem = inputs.problem
        if (inputs.users is None) != (self.rows_per_user == 1):
            raise AssertionError("the recipe and the rows differ in whether users have several rows")
        x, y, target, columns = self.inputs_of(problem, inputs.train_on)
        with inputs.observer.watch("passes over the rows") as on_progress:
            found = additive.fit(
                x,
                y,
                target,
                columns=columns,
                plan=self.fitted,
                examples=problem.rows,
                delta=self.delta,
                keys=inputs.keys,
                on_progress=on_progress,
                users=inputs.users,
            )
        return Trained(_params(problem, found.model), found.guarantee.assumptions)

    def inputs_of(
        self, problem: Problem, rows: Mapping[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, AdditiveTarget, additive.Columns]:
        """Features and targets of encoded rows, what is predicted, and how features make columns."""
        x = np.asarray(rows["x"], np.float32) / np.float32(problem.scale)
        return x, np.asarray(rows["y"]), _target(problem), additive.Columns(problem.columns)

    @property
    def fitted(self) -> additive.AdditivePlan:
        return additive.AdditivePlan(
            passes=self.passes, noise_multiplier=self.noise_multiplier, numbers=self.numbers
        )


def method() -> Method:
    """The row of the additive model."""
    return Method(
        description="noisy passes over all rows that learn one curve per column (--model additive)",
        price=_price,
        read=_read,
        has_shadows=True,
        is_for_users=True,
        sampler_share=TRAINING,
    )


def _price(terms: Terms) -> Additive:
    require_enough(terms)
    if terms.model != "additive":
        raise InvalidArgument(
            f"The method 'additive' fits additive models, and this is '{terms.model}'.",
            remedy="Pass --model additive, or --method sgd.",
        )
    plan = additive.AdditivePlan.for_budget(
        epsilon=terms.epsilon,
        delta=terms.delta,
        examples=terms.rows,
        beside=terms.beside,
        sampler_share=TRAINING,
    )
    return Additive(plan.passes, plan.noise_multiplier, plan.numbers, terms.delta, terms.rows_per_user or 1)


def _read(value: Mapping[str, Any]) -> Additive:
    return Additive(
        int(value["passes"]),
        float(value["noise_multiplier"]),
        int(value["numbers"]),
        float(value["delta"]),
        int(value.get("rows_per_user", 1)),
    )


def _target(problem: Problem) -> AdditiveTarget:
    if problem.bounds is not None:
        return NumberTarget(problem.bounds)
    return ClassTarget(problem.outputs, problem.class_weights)


def _params(problem: Problem, model: additive.AdditiveModel) -> dict[str, np.ndarray]:
    """The one score of two classes is the second one's; the first has none."""
    named = {"constant": model.constant[None], "curve": model.curve, "deviation": model.deviation}
    if problem.outputs == 2:
        named = {name: np.concatenate([np.zeros_like(part), part], axis=1) for name, part in named.items()}
    named["constant"] = named["constant"][0]
    return {name: np.asarray(part, np.float32) for name, part in named.items()}
