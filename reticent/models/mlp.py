"""The multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.models.initialisers import glorot
from reticent.models.layers import as_numbers, dense, dense_starts
from reticent.models.model import Model, Params


def mlp(sizes: Sequence[int], activation: Callable[[jax.Array], jax.Array] = jax.nn.relu) -> Model:
    """Dense layers with an activation between them.

    Args:
        sizes: of the input, of each hidden layer and of the output: (784, 512, 512, 10).

    Example:
        >>> import jax
        >>> model = mlp((784, 64, 10))
        >>> model.size
        50890
        >>> model.apply(model.init(jax.random.key(0)), jax.numpy.zeros((28, 28))).shape
        (10,)
    """
    if len(sizes) < 2:
        raise InvalidArgument(
            f"A perceptron has an input and an output, got sizes {tuple(sizes)}.",
            remedy="Pass at least two sizes, such as (784, 10).",
        )
    for size in sizes:
        checks.count(size=size)
    *hidden, last = [f"dense{number}" for number in range(1, len(sizes))]
    starts = {name: dense_starts(*shape) for name, shape in zip(hidden, pairwise(sizes[:-1]), strict=True)}
    starts[last] = dense_starts(sizes[-2], sizes[-1], glorot)  # no activation follows it

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = as_numbers(x).ravel()
        for name in hidden:
            x = activation(dense(params[name], x))
        return dense(params[last], x)  # (outputs,)

    description = f"perceptron {'-'.join(map(str, sizes))}"
    return Model(name="mlp", description=description, starts=starts, apply=apply)
