"""Where a weight of a traced loss meets the example, and how low-rank factors are put beside it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Literal, Var
from jax.extend.core.primitives import (
    conv_general_dilated_p,
    convert_element_type_p,
    copy_p,
    dot_general_p,
    transpose_p,
)

from reticent.training.gradients.sites import uses_of
from reticent.training.gradients.tracing import Trace, array_of, evaluate


class TwoFactors(Protocol):
    """(inputs..., rank) and (rank, outputs...)."""

    @property
    def down(self) -> jax.Array: ...

    @property
    def up(self) -> jax.Array: ...


class Place(NamedTuple):
    """Where a weight meets an example, once, and which of its dimensions are summed over there.

    Args:
        order: the operand's dimensions, as dimensions of the leaf.
        inputs: dimensions of the leaf that are summed over; outputs: the others.
    """

    equation: JaxprEqn
    position: int
    order: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def find_place(program: Trace, leaf: Var) -> Place | str:
    """The place of a leaf, or why factors cannot stand beside it."""
    order = tuple(range(len(array_of(leaf).shape)))
    variable: Any = leaf
    while True:
        uses = uses_of(program, variable)
        if len(uses) != 1:
            return f"the loss uses it {len(uses)} times"
        equation, position = uses[0]
        if equation.primitive is transpose_p:
            order = tuple(order[dimension] for dimension in equation.params["permutation"])
        elif equation.primitive not in (convert_element_type_p, copy_p):
            break
        variable = equation.outvars[0]
    summed = _sum_out(equation, position)
    if summed is None:
        return f"the loss uses it in '{equation.primitive}', not in a product or a convolution"
    inputs = tuple(sorted(order[dimension] for dimension in summed))
    outputs = tuple(dimension for dimension in range(len(order)) if dimension not in inputs)
    return Place(equation, position, order, inputs, outputs)


def beside(place: Place, operands: Sequence[Any], factors: TwoFactors) -> jax.Array:
    """What the factors add to the result of the equation."""
    if place.equation.primitive is dot_general_p:
        return _beside_product(place, operands[1 - place.position], factors)
    return _beside_convolution(place, operands[0], factors)


def run_with_factors(
    program: Trace,
    leaves: Sequence[Any],
    inputs: Sequence[Any],
    factors: Mapping[int, tuple[Place, TwoFactors]],
    scale: float,
) -> Any:
    """The traced loss, with factors beside the equations of some leaves.

    Args:
        factors: by the identity of the equation.
    """
    values: dict[Var, Any] = {
        **program.constants,
        **dict(zip(program.leaves, leaves, strict=True)),
        **dict(zip(program.inputs, inputs, strict=True)),
    }

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in program.equations:
        operands = [read(atom) for atom in equation.invars]
        results = evaluate(equation, operands)
        if found := factors.get(id(equation)):
            added = scale * beside(found[0], operands, found[1])
            results = [results[0] + added.astype(results[0].dtype)]
        values |= zip(equation.outvars, results, strict=True)
    return read(program.output)


def _sum_out(equation: JaxprEqn, position: int) -> tuple[int, ...] | None:
    """The dimensions of an operand that are summed over, if it is in a plain product with a rest."""
    if equation.primitive is dot_general_p:
        contracted, batch = equation.params["dimension_numbers"]
        summed = tuple(contracted[position])
        is_plain = not batch[position] and 0 < len(summed) < len(array_of(equation.invars[position]).shape)
        return summed if is_plain else None
    if equation.primitive is conv_general_dilated_p and position == 1:
        if equation.params["feature_group_count"] != 1 or equation.params["batch_group_count"] != 1:
            return None
        outputs = equation.params["dimension_numbers"].rhs_spec[0]
        return tuple(d for d in range(len(array_of(equation.invars[1]).shape)) if d != outputs)
    return None


def _beside_product(place: Place, other: Any, factors: TwoFactors) -> jax.Array:
    contracted, _ = place.equation.params["dimension_numbers"]
    own, others = contracted[place.position], contracted[1 - place.position]
    # The factor has the summed dimensions in the order of the leaf.
    at = [place.inputs.index(place.order[dimension]) for dimension in own]
    free = [place.order[d] for d in range(len(place.order)) if d not in own]
    up = factors.up.transpose([0, *(1 + place.outputs.index(dimension) for dimension in free)])
    if place.position == 1:
        return jnp.tensordot(jnp.tensordot(other, factors.down, (others, at)), up, 1)
    inner = jnp.tensordot(factors.down, other, (at, others))  # (rank, the rest of the other)
    return jnp.tensordot(up, inner, (0, 0))


def _beside_convolution(place: Place, image: Any, factors: TwoFactors) -> jax.Array:
    how = dict(place.equation.params)
    numbers = how["dimension_numbers"]
    (output,) = place.outputs
    kernel = jnp.moveaxis(factors.down, -1, output).transpose(place.order)
    inner = jax.lax.conv_general_dilated(
        image,
        kernel.astype(image.dtype),
        window_strides=how["window_strides"],
        padding=how["padding"],
        lhs_dilation=how["lhs_dilation"],
        rhs_dilation=how["rhs_dilation"],
        dimension_numbers=numbers,
        precision=how["precision"],
    )
    features = numbers.out_spec[1]
    return jnp.moveaxis(jnp.tensordot(inner, factors.up.astype(inner.dtype), (features, 0)), -1, features)
