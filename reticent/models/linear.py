"""Linear and logistic regression: one dense layer."""

from __future__ import annotations

import jax

from reticent.core import checks
from reticent.models.initialisers import zeros
from reticent.models.layers import as_numbers, dense, dense_starts
from reticent.models.model import Model, Params


def linear(features: int, outputs: int) -> Model:
    """One dense layer: logistic regression under `classification_loss`, linear under `squared_loss`.

    Starts at zero, whatever the key: the loss is convex, and no symmetry has to be broken.

    Example:
        >>> import jax
        >>> model = linear(4, 3)
        >>> params = model.init(jax.random.key(0))
        >>> model.apply(params, jax.numpy.ones(4)).shape
        (3,)
    """
    checks.count(features=features, outputs=outputs)

    def apply(params: Params, x: jax.Array) -> jax.Array:
        return dense(params, as_numbers(x).ravel())  # (outputs,)

    return Model(
        name="linear",
        description=f"{features} features, {outputs} outputs",
        starts=dense_starts(features, outputs, zeros),
        apply=apply,
    )
