"""The loss of a run as the steps see it: of one unit, checked, and with what looks wrong about it said."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from reticent.core import trees
from reticent.core.trees import ArrayTree
from reticent.data.augmentation import Augment
from reticent.data.dataset import Dataset
from reticent.training.contributions import Contribution, UnitLoss, first_unit
from reticent.training.devices.memory import examples_at_once
from reticent.training.execution import Execution
from reticent.training.given import call_of, explain_errors
from reticent.training.gradients import LossFunction, inputs
from reticent.training.loss_keys import AnyLoss, key_use
from reticent.training.plan import Plan
from reticent.training.step import Blocks


def contribution_of(loss: AnyLoss, plan: Plan, augment: Augment | None, views: int) -> Contribution:
    """What a unit of the data is to the loss."""
    takes_unit = isinstance(loss, UnitLoss)
    takes_key = takes_unit or key_use(loss) != "never"
    rows = plan.rows_per_user or 1
    return Contribution(rows=rows, augment=augment, views=views, takes_key=takes_key, takes_unit=takes_unit)


class CheckedLoss(NamedTuple):
    """The loss of one unit, the shapes of one, the program of the loss and its gradient.

    Args:
        at_once: how many units are best worked on at once, if the loss knows.
    """

    loss: LossFunction
    example: Any
    program: ClosedJaxpr
    at_once: int | None = None


def checked_loss(
    contribution: Contribution, loss: AnyLoss, params: ArrayTree, data: Dataset, plan: Plan
) -> CheckedLoss:
    """The loss that passed all checks."""
    place, key = jax.ShapeDtypeStruct((1,), jnp.int32), jax.eval_shape(lambda: jax.random.key(0))
    seeds = jax.eval_shape(lambda key: contribution.seeds(key, 1, key), key)
    unit, row = first_unit(data, plan), inputs.row_of({name: data[name] for name in data})
    with explain_errors("augment(key, example)", example=row):
        found = jax.eval_shape(contribution.fetch, unit, place, seeds)
    example, unit_loss = inputs.row_of(found), contribution.loss(loss)
    inputs.check_parameters(params)
    with explain_errors(call_of(loss), params=params, example=row):
        program = inputs.check_loss(unit_loss, params, example)
    at_once = None
    if isinstance(loss, UnitLoss) and loss.of_size is not None:
        at_once = loss.of_size(trees.size(params))
    return CheckedLoss(unit_loss, example, program, at_once)


def blocks_for(checked: CheckedLoss, params: ArrayTree, plan: Plan, how: Execution, devices: int) -> Blocks:
    """How much of a batch is worked on at once."""
    microbatch = how.microbatch
    if microbatch is None:
        fitting = examples_at_once(checked.loss, params, checked.example, how.strategy)
        microbatch = min((at_once for at_once in (fitting, checked.at_once) if at_once), default=None)
    return Blocks.of(plan, microbatch, devices)
