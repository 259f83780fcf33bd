"""A model as it is given: its leaves by name, and what the loss does with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import (
    add_p,
    broadcast_in_dim_p,
    conv_general_dilated_p,
    convert_element_type_p,
    copy_p,
    div_p,
    dot_general_p,
    gather_p,
    mul_p,
    reshape_p,
    squeeze_p,
    sub_p,
    transpose_p,
)

from reticent.core.trees import ArrayTree
from reticent.training.clipping import paths_of
from reticent.training.gradients.sites import uses_of
from reticent.training.gradients.tracing import Trace, trace
from reticent.training.loss_keys import AnyLoss, Keyed, key_use, of_keyed_example

RoleName = Literal["weight", "bias", "scale", "table", "other", "unused"]

_MOVES = (reshape_p, transpose_p, squeeze_p, copy_p, convert_element_type_p, broadcast_in_dim_p)
_ROLES: dict[Any, RoleName] = {
    dot_general_p: "weight",
    conv_general_dilated_p: "weight",
    add_p: "bias",
    sub_p: "bias",
    mul_p: "scale",
    div_p: "scale",
    gather_p: "table",
}


class Role(NamedTuple):
    """What the loss does with a leaf.

    Args:
        first, last: the numbers of the equations that use it, from the first to the last.
    """

    kind: RoleName
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class NamedLeaves:
    """The leaves of a model. Those that can learn are arrays of floats; all others stay as they are.

    Args:
        floats: the leaves that can learn, by name.
    """

    structure: Any
    paths: tuple[str, ...]
    leaves: tuple[Any, ...]
    floats: Mapping[str, jax.Array]

    def join(self, changed: Mapping[str, Any]) -> Any:
        """The whole model, with some of its leaves replaced."""
        named = zip(self.paths, self.leaves, strict=True)
        leaves = [changed.get(path, self.floats.get(path, leaf)) for path, leaf in named]
        return jax.tree.unflatten(self.structure, leaves)


def model_of(params: ArrayTree) -> NamedLeaves:
    """Takes a model apart."""
    leaves, structure = jax.tree.flatten(params)
    paths = paths_of(params)
    floats = {
        path: jnp.asarray(leaf) for path, leaf in zip(paths, leaves, strict=True) if _is_float_array(leaf)
    }
    return NamedLeaves(structure, paths, tuple(leaves), floats)


def trace_loss(loss: AnyLoss, model: NamedLeaves, example: ArrayTree) -> Trace:
    """The loss of one example as a list of equations, from the leaves that can learn."""
    of_two, row = of_example(loss, example)
    return trace(lambda floats, row: of_two(model.join(floats), row), dict(model.floats), row)


def of_example(loss: AnyLoss, example: ArrayTree) -> tuple[Callable[[Any, Any], Any], Any]:
    """The loss as a function of two arguments, and an example for it, with a key if the loss takes one."""
    if key_use(loss) == "never" or isinstance(example, Keyed):
        return loss, example
    return of_keyed_example(loss), Keyed(example, jnp.zeros(2, jnp.uint32))


def roles_of(program: Trace, model: NamedLeaves) -> dict[str, Role]:
    """What the loss does with every leaf that can learn, whatever library the model comes from."""
    numbers = {id(equation): number for number, equation in enumerate(program.equations)}
    # A tree of names is flattened in their order.
    by_name = zip(sorted(model.floats), program.leaves, strict=True)
    return {path: _role(program, variable, numbers) for path, variable in by_name}


def _role(program: Trace, leaf: Any, numbers: Mapping[int, int]) -> Role:
    uses = [equation for equation, _ in uses_of(program, leaf)]
    if not uses:
        return Role("unused", -1, -1)
    places = [numbers[id(equation)] for equation in uses]
    return Role(_kind(program, uses[0]), min(places), max(places))


def _kind(program: Trace, equation: JaxprEqn) -> RoleName:
    while equation.primitive in _MOVES:
        later = uses_of(program, equation.outvars[0])
        if not later:
            return "other"
        equation = later[0][0]
    return _ROLES.get(equation.primitive, "other")


def _is_float_array(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic | float)
    return is_array and bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))
