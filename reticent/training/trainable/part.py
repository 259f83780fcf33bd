"""The part of a model that a run trains: all of it, or what `trainable` chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.data.augmentation import Augment
from reticent.data.dataset import Dataset
from reticent.training.contributions import UnitLoss
from reticent.training.given import as_params
from reticent.training.loss_keys import AnyLoss
from reticent.training.trainable.division import FROZEN, Trainable, divide


class TrainedPart(NamedTuple):
    """What a run trains, and the model that it belongs to.

    Args:
        loss, params: of what learns.
        loss_of_whole: for held-out rows.
        whole: from what learns to the whole model.
        is_divided: whether anything is frozen.
    """

    loss: AnyLoss
    params: Any
    loss_of_whole: AnyLoss
    whole: Callable[[Any], Any]
    is_divided: bool

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (FROZEN,) if self.is_divided else ()


def part_of(
    loss: AnyLoss, params: ArrayTree, data: Dataset, trainable: Trainable | None, augment: Augment | None
) -> TrainedPart:
    """Divides the model of a run.

    Raises:
        InvalidArgument: nothing is left to learn, or something that was named is not in the model.
    """
    if trainable is None:
        params = as_params(params)
        return TrainedPart(loss, params, loss, lambda params: params, is_divided=False)
    if isinstance(loss, UnitLoss):
        raise InvalidArgument(
            "A part of a model cannot be trained by clients.",
            remedy="Leave out trainable, or close over what is frozen.",
        )
    division = divide(loss, params, _row(data, augment), trainable)
    return TrainedPart(division.loss, division.params, loss, division.whole, is_divided=True)


def _row(data: Dataset, augment: Augment | None) -> Any:
    """The shapes of one example, as the loss is given it."""
    row = {name: jax.ShapeDtypeStruct(data[name].shape[1:], _kind(data[name])) for name in data}
    return row if augment is None else jax.eval_shape(augment, jax.random.key(0), row)


def _kind(column: Any) -> Any:
    return jnp.asarray(np.asarray(column[:1])).dtype
