"""Which of the iterates comes out of training: the last one, or an average of all.

    rt.train(..., output=rt.averages.exponential(0.999))

Each is a function of iterates that the guarantee covers already, so it costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree


@dataclass(frozen=True)
class Average:
    """What is kept of the iterates. Make one with `last`, `mean` or `exponential`.

    Example:
        >>> exponential(0.999)
        Average(kind='exponential', decay=0.999)
    """

    kind: Literal["last", "mean", "exponential"]
    decay: float = 0.0  # of an exponential average

    def update(self, average: ArrayTree, params: ArrayTree, step: Int[Array, ""]) -> Any:
        """The average after the parameters of one more step; `step` counts from 0."""
        if self.kind == "last":
            return average
        if self.kind == "mean":
            return jax.tree.map(
                lambda old, new: old + (new - old) / (step + 1).astype(new.dtype), average, params
            )
        return jax.tree.map(
            lambda old, new: jnp.where(step == 0, new, self.decay * old + (1 - self.decay) * new),
            average,
            params,
        )

    def choose(self, params: ArrayTree, average: ArrayTree) -> Any:
        """What comes out of a run that ended with these parameters and this average."""
        return params if self.kind == "last" else average


def last() -> Average:
    """Keeps the last iterate.

    Example:
        >>> last().kind
        'last'
    """
    return Average("last")


def mean() -> Average:
    """Keeps the mean of all iterates, as theorems about convex losses ask for.

    Example:
        >>> mean().kind
        'mean'
    """
    return Average("mean")


def exponential(decay: float) -> Average:
    """Keeps an average in which each iterate counts `decay` times as much as the next one.

    Args:
        decay: between 0 and 1. An average with 0.999 looks back over about a thousand steps.

    Example:
        >>> exponential(0.999)
        Average(kind='exponential', decay=0.999)
    """
    checks.probability(decay=decay)
    return Average("exponential", float(decay))


Output = Average | Literal["last", "mean"]


def as_average(output: Output) -> Average:
    """The average that is meant by `output`: one of this module, or its name.

    Raises:
        InvalidArgument: it is neither.

    Example:
        >>> as_average("mean").kind
        'mean'
        >>> as_average("median")
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: output='median' is not known. Pass 'last', 'mean' or an
        average such as rt.averages.exponential(0.999).
    """
    if isinstance(output, Average):
        return output
    if output == "last" or output == "mean":
        return Average(output)
    raise InvalidArgument(
        f"output={output!r} is not known.",
        remedy="Pass 'last', 'mean' or an average such as rt.averages.exponential(0.999).",
    )
