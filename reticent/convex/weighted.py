"""Losses of records that do not count the same: each times a weight from 0 to 1 of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.convex.losses import Array, Loss
from reticent.core.errors import DataError


def weigh(loss: Loss) -> Loss:
    """A loss whose labels are pairs, (rows, 2): the label of a record, and its weight.

    Guarantee:
        All constants of the loss hold for this one too. With a weight a from 0 to 1, a gradient becomes a
        times itself, which is no longer, and stays in the hull of 0 and the corners; a Hessian becomes a
        times itself, with no larger eigenvalue, trace or rank. So every proof holds, whatever the weights
        are, and a record together with its weight is what neighbours differ in.

    Example:
        >>> from reticent.convex.losses import logistic
        >>> pair = np.array([[1.0, 0.25]])
        >>> weigh(logistic()).gradient(np.zeros((1, 1)), pair).item()
        -0.125
    """

    def value(scores: Any, labels: ArrayLike, **more: Any) -> Any:
        own, weights = _apart(labels)
        return weights * loss.value(scores, own, **more)

    def gradient(scores: Array, labels: Array) -> Array:
        own, weights = _apart(labels)
        return np.reshape(weights, (-1, 1)) * loss.gradient(scores, own)

    def hessian(scores: Array, labels: Array) -> Callable[[Array], Array]:
        own, weights = _apart(labels)
        product = loss.hessian(scores, own)
        return lambda direction: np.reshape(weights, (-1, 1)) * product(direction)

    constants = {field.name: getattr(loss, field.name) for field in fields(loss)}
    changed = {"name": f"weighted {loss.name}", "value": value, "gradient": gradient, "hessian": hessian}
    return _WeightedLoss(**{**constants, **changed})


class _WeightedLoss(Loss):
    """A loss that knows how its pairs are checked."""

    def check_labels(self, y: ArrayLike) -> Array:  # (rows, 2)
        pairs = np.asarray(y, np.float64)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise DataError(
                f"A weighted loss takes a label and a weight per row; these have shape {pairs.shape}.",
                remedy="Pass a matrix (rows, 2).",
            )
        if not ((pairs[:, 1] >= 0) & (pairs[:, 1] <= 1)).all():  # NaN fails
            raise DataError(
                "A weight is not from 0 to 1.", remedy="Divide weights by the largest there may be."
            )
        return np.column_stack([super().check_labels(pairs[:, 0]), pairs[:, 1]])


def _apart(labels: Any) -> tuple[Any, Any]:
    """Labels and weights; labels that are alone weigh 1."""
    return (labels, 1.0) if labels.ndim == 1 else (labels[:, 0], labels[:, 1])
