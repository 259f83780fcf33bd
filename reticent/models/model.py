"""What a model is: a name, how its parameters start, and a function of them and one example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from reticent.core.trees import ArrayTree
from reticent.models.initialisers import draw, leaves_of

Params = ArrayTree  # nested dictionaries, named after the layers


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network as a pure function of a parameter tree. It keeps no state, so it can be printed and shared.

    Args:
        starts: how each parameter starts; see `reticent.models.initialisers`.
        apply: from parameters and ONE example, without a batch axis, the outputs (logits, predictions).
            Batches are for `jax.vmap`; a model that sees one example cannot mix two.

    Example:
        >>> from reticent.models import mlp
        >>> model = mlp((784, 32, 10))
        >>> model
        Model('mlp', 25450 parameters: perceptron 784-32-10)
        >>> params = model.init(jax.random.key(0))
        >>> model.apply(params, jax.numpy.zeros((28, 28))).shape
        (10,)
    """

    name: str
    description: str
    starts: Any = field(repr=False)
    apply: Callable[[Params, Any], jax.Array] = field(repr=False)

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters, by the key alone. Under `jax.vmap` over keys, those of many networks at once."""
        return draw(key, self.starts)

    @property
    def size(self) -> int:
        """How many numbers are trained."""
        return sum(start.size for start in leaves_of(self.starts))

    def __repr__(self) -> str:
        return f"Model('{self.name}', {self.size} parameters: {self.description})"
