"""Low-rank factors beside frozen weights (LoRA), for the weights of any model whose loss can be traced.

A product x W becomes x W + s (x A) B. The factors are put into the traced loss, where the weight meets the
example, so that W + s A B is never formed. Its gradient would be as large as that of W, for every example.

Reference:
    Hu et al. (2021), arXiv:2106.09685v2; Yu et al. (2022), arXiv:2110.06500v2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.training.trainable.factor_places import Place

_SHOWN = 6  # names in a message


class LowRankFactors(NamedTuple):
    """What is trained beside one weight.

    Args:
        down: (inputs..., rank).
        up: (rank, outputs...), zeros at first.
    """

    down: jax.Array
    up: jax.Array


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Low-rank factors; see `lora`."""

    rank: int
    on: Callable[[str], bool] | None
    scale: float
    also: Any
    seed: int


def lora(
    rank: int,
    *,
    on: Callable[[str], bool] | Sequence[str] | None = None,
    scale: float = 1.0,
    also: Any = None,
    seed: int = 0,
) -> Lora:
    """Trains two factors of this rank beside each weight, and leaves the weight as it is.

    Dense layers, convolutions and the projections of attention have such weights. Training starts from the
    model as it is, since one factor of each pair is zero. The trained model is W + scale A B.

    Args:
        on: which weights, by their names; by default, all that are larger than their factors.
        also: what learns besides, chosen as in `rt.train(trainable=...)`, such as `rt.trainable.last_layer`.
        seed: of the public random numbers that the other factor of each pair starts from.

    Example:
        >>> lora(4, on=lambda path: "attention" in path).rank
        4
    """
    checks.count(rank=rank)
    checks.positive(scale=scale)
    if on is not None and not callable(on):
        return Lora(rank=rank, on=_Named(tuple(on)), scale=scale, also=also, seed=seed)
    return Lora(rank=rank, on=on, scale=scale, also=also, seed=seed)


@dataclass(frozen=True)
class _Named:
    names: tuple[str, ...]

    def __call__(self, path: str) -> bool:
        return path in self.names


def factors_for(shape: Sequence[int], place: Place, rank: int, key: jax.Array, dtype: Any) -> LowRankFactors:
    """The factors that training starts from: together they are zero."""
    inputs, outputs = ([shape[dimension] for dimension in part] for part in (place.inputs, place.outputs))
    down = jax.random.normal(key, (*inputs, rank)) / math.sqrt(math.prod(inputs))
    return LowRankFactors(down.astype(dtype), jnp.zeros((rank, *outputs), dtype))


def product_of_factors(factors: LowRankFactors, place: Place) -> jax.Array:
    """A B, in the shape of the leaf."""
    product = jnp.tensordot(factors.down, factors.up, 1)
    dimensions = (*place.inputs, *place.outputs)
    return product.transpose([dimensions.index(dimension) for dimension in range(len(dimensions))])


def refusal(path: str, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"Low-rank factors cannot stand beside '{path}': {reason}.",
        remedy="Leave it out of `on`, or train it as it is with also=.",
    )


def unknown(on: Callable[[str], bool], paths: Sequence[str]) -> InvalidArgument:
    named = on.names[0] if isinstance(on, _Named) else getattr(on, "__name__", "the function")
    shown = ", ".join(f"'{path}'" for path in paths[:_SHOWN]) + (" and more" if len(paths) > _SHOWN else "")
    return InvalidArgument(
        f"Low-rank factors have no weight to stand beside: '{named}' chooses no leaf of the model.",
        remedy=f"Its leaves are {shown or 'none'}.",
    )
