"""Which of the iterates comes out: the last one, or an average of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.training.step import TrainState

Output = Literal["last", "mean"] | float


def averaging(output: Output) -> Callable[[Any, Any, jax.Array], Any]:
    """How the average of the iterates is kept."""
    if output == "last":
        return lambda average, params, step: average
    if output == "mean":
        return lambda average, params, step: jax.tree.map(
            lambda old, new: old + (new - old) / (step + 1).astype(new.dtype), average, params
        )
    if isinstance(output, str):
        raise InvalidArgument(
            f"output={output!r} is not known.", remedy="Pass 'last', 'mean', or a decay such as 0.99."
        )
    checks.probability(output=output)
    decay = float(output)
    return lambda average, params, step: jax.tree.map(
        lambda old, new: jnp.where(step == 0, new, decay * old + (1 - decay) * new), average, params
    )


def result(state: TrainState, output: Output) -> Any:
    return state.params if output == "last" else state.average
