"""The released curves as a model of one example, for JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from reticent.additive.columns import Columns
from reticent.models.initialisers import zeros
from reticent.models.model import Model, Params


def lookup(columns: Columns, outputs: int, scale: float = 1.0) -> Model:
    """A constant and one value per column, looked up by the cell that an example is in.

    Args:
        scale: what the features are multiplied by.

    Example:
        >>> model = lookup(Columns.of_numbers(2), outputs=1)
        >>> params = model.init(jax.random.key(0))
        >>> model.apply(params, jnp.zeros(2)).shape
        (1,)
    """

    def apply(params: Params, x: jax.Array) -> jax.Array:
        cells = columns.cells_of(x.ravel()[None] / scale, jnp)[0]
        return params["constant"] + params["curve"][columns.firsts + cells].sum(axis=0)  # (outputs,)

    return Model(
        name="additive",
        description=f"{len(columns)} curves, {outputs} outputs",
        starts={
            "constant": zeros(outputs),
            "curve": zeros(columns.cells, outputs),
            "deviation": zeros(columns.cells, outputs),
        },
        apply=apply,
    )
