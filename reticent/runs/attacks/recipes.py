"""The recipe of a run as the training of shadow models: the same noise, on the rows that a mask selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from reticent.attacks.shadows.recipes import PlainRecipe
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.runs.method import Inputs
from reticent.runs.methods import table
from reticent.runs.methods.descent import Descent
from reticent.runs.methods.federated import FederatedRecipe
from reticent.runs.reopen import Again
from reticent.runs.users import several_rows
from reticent.training.checkpoint import Checkpoints
from reticent.training.plan import Plan
from reticent.training.vectorised import private_recipe


def descent_of(again: Again) -> Descent | None:
    """Reads how the run was trained, if that was in steps."""
    recipe = table.read(again.record.recipe)
    return recipe if isinstance(recipe, Descent) else None


def plan_of(again: Again) -> Plan | None:
    """Reads the plan of a run whose releases are noisy sums of gradients or updates."""
    recipe = table.read(again.record.recipe)
    return recipe.plan if isinstance(recipe, Descent | FederatedRecipe) else None


def has_shadows(again: Again) -> bool:
    """Whether shadow models can be trained as the run was."""
    record = again.record
    return table.method_of(record.recipe).has_shadows and several_rows(record.request.rows_per_user) is None


def shadow_recipe(again: Again) -> tuple[Any, bool]:
    """Makes a recipe that trains like the run: a `Recipe` or a `PlainRecipe`, and whether it is the former.

    A method without steps gives a `PlainRecipe`, which trains one model at a time. For measurements only:
    shadow models are thrown away, so their randomness may come from a seed and nothing is charged for them.

    Raises:
        InvalidArgument: the run was trained in another way.
    """
    stepwise, learner = descent_of(again), again.learner
    if stepwise is not None and stepwise.plan.unit == "user":
        raise InvalidArgument(
            f"Shadow models are trained on rows, and this run protects users with up to "
            f"{stepwise.plan.rows_per_user} rows.",
            remedy="Pass --shadows 0, or attack a run that was made with --rows-per-user 1.",
        )
    if stepwise is not None:
        plan, optimizer = stepwise.plan, stepwise.optimizer
        return private_recipe(learner.loss, learner.model.init, plan, optimizer=optimizer), True
    if not has_shadows(again):
        able = [name for name, method in table.METHODS.items() if method.has_shadows]
        raise InvalidArgument(
            f"There are no shadow models for the method '{again.record.recipe.method}'.",
            remedy=f"Attack a run that was trained with {', '.join(able)}.",
        )
    return _plain_recipe_of(again), False


def _plain_recipe_of(again: Again) -> PlainRecipe:
    followed = table.read(again.record.recipe)
    nowhere = Checkpoints(path=Path(), stamp="")  # a fit without steps keeps none

    def recipe(key: jax.Array, x: np.ndarray, y: np.ndarray, mask: np.ndarray) -> Any:
        rows = np.flatnonzero(mask)
        part = {"x": x[rows], "y": y[rows]}
        keys = Keys.seeded(int(jax.random.bits(key)))
        return followed.follow(
            Inputs(
                learner=again.learner,
                problem=again.problem,
                train_on=part,
                held_out=part,
                keys=keys,
                checkpoints=nowhere,
            )
        ).params

    return recipe
