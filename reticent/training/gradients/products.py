"""Weights whose gradient is a product of two matrices: those of dense layers and of convolutions.

With a the input of one example as (heads, length, rows) and g the derivative of its output as (heads, length,
columns), the gradient is the sum over the length of g a^T. A dense layer on a vector has length 1, one on a
sequence the length of the sequence, and a convolution one entry a position of its output, whose input is the
patch of the image below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import conv_general_dilated_p, dot_general_p
from jaxtyping import Array, Float

from reticent.training.gradients.sites import Site
from reticent.training.gradients.tracing import array_of

_MOST_SLICES = 256  # beyond which patches are not cut out one by one


@dataclass(frozen=True, eq=False)
class Product:
    """The shape of the two factors, and how to get them."""

    heads: int
    length: int
    rows: int
    columns: int
    left: Callable[[jax.Array], jax.Array]  # the saved input -> (heads, length, rows)
    right: Callable[[jax.Array], jax.Array]  # the output's derivative -> (heads, length, columns)
    fold: Callable[[jax.Array], jax.Array]  # (heads, columns, rows) -> the shape of the weight
    forward: Callable[[jax.Array, jax.Array], jax.Array] | None = None  # (patches, weight) -> the output
    fold_rows: Callable[[jax.Array], jax.Array] | None = None  # from (heads, rows, columns), if it lies so


def product_of(site: Site, position: int) -> Product | None:
    """The gradient of an operand as a product, or None where it is not one."""
    primitive = site.equation.primitive
    if any(jnp.issubdtype(array_of(atom).dtype, jnp.complexfloating) for atom in site.equation.invars):
        return None
    if primitive is dot_general_p and len(site.weights) == 1:
        return _dense(site.equation, position)
    if primitive is conv_general_dilated_p and site.weights == (1,) and position == 1:
        product = _convolution(site.equation)
        return replace(product, left=lambda patches: patches) if product and site.is_cut else product
    return None


def may_be_cut(site: Site) -> bool:
    """Whether a convolution is better done as a product with the patches, which its rule needs anyway.

    On a CPU it is: XLA's convolutions are several times slower inside a loop than outside, products are not.
    """
    return (
        jax.default_backend() == "cpu"
        and site.equation.primitive is conv_general_dilated_p
        and site.weights == (1,)
        and _convolution(site.equation) is not None
    )


def by_patches(site: Site, image: jax.Array, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The result of a convolution, and the patches of the image that it was made from."""
    product = _convolution(site.equation)
    assert product is not None
    assert product.forward is not None
    patches = product.left(image)
    return product.forward(patches, kernel), patches


def multiply(
    a: Float[Array, "heads length n"], g: Float[Array, "heads length m"]
) -> Float[Array, "heads n m"]:
    """Sums over the length, in full float32."""
    if a.shape[0] == 1:
        return lax.dot_general(a[0], g[0], (((0,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)[None]
    return lax.dot_general(a, g, (((1,), (1,)), ((0,), (0,))), precision=lax.Precision.HIGHEST)


def _dense(equation: JaxprEqn, position: int) -> Product:
    contracting, batch = equation.params["dimension_numbers"]
    other = 1 - position
    weight, saved = array_of(equation.invars[position]).shape, array_of(equation.invars[other]).shape
    free = _rest(len(weight), contracting[position], batch[position])
    positions = _rest(len(saved), contracting[other], batch[other])
    heads, length, rows, columns = (
        math.prod(weight[axis] for axis in batch[position]),
        math.prod(saved[axis] for axis in positions),
        math.prod(weight[axis] for axis in contracting[position]),
        math.prod(weight[axis] for axis in free),
    )

    def left(saved: jax.Array) -> jax.Array:
        order = (*batch[other], *positions, *contracting[other])
        return saved.transpose(order).reshape(heads, length, rows)

    def right(cotangent: jax.Array) -> jax.Array:
        if position == 0:  # the result has the weight's axes before the input's
            return cotangent.reshape(heads, columns, length).swapaxes(1, 2)
        return cotangent.reshape(heads, length, columns)

    def folded(order: tuple[int, ...]) -> Callable[[jax.Array], jax.Array]:
        return lambda gradient: gradient.reshape([weight[axis] for axis in order]).transpose(_inverse(order))

    fold = folded((*batch[position], *free, *contracting[position]))
    rows_first = (*batch[position], *contracting[position], *free)
    fold_rows = folded(rows_first) if rows_first == tuple(range(len(weight))) else None
    return Product(heads, length, rows, columns, left, right, fold, fold_rows=fold_rows)


def _convolution(equation: JaxprEqn) -> Product | None:
    params = equation.params
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    image, kernel = (array_of(atom).shape for atom in equation.invars)
    result = array_of(equation.outvars[0]).shape
    outputs, inputs, *window = (kernel[axis] for axis in numbers.rhs_spec)
    if params["batch_group_count"] != 1 or sum(window) > _MOST_SLICES or not math.prod(result):
        return None
    count, places = image[numbers.lhs_spec[0]], [result[axis] for axis in numbers.out_spec[2:]]
    heads, length = groups, count * math.prod(places)
    rows, columns = inputs * math.prod(window), outputs // groups

    def left(image: jax.Array) -> jax.Array:
        # (images, positions..., channels): the channels stay next to each other in memory
        image = image.transpose((numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1]))
        cut = _patches(image, window, places, params)  # (images, positions..., window..., channels)
        cut = cut.reshape(length, math.prod(window), groups, inputs)
        return cut.transpose(2, 0, 1, 3).reshape(groups, length, rows)

    def right(cotangent: jax.Array) -> jax.Array:
        order = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
        return cotangent.transpose(order).reshape(length, groups, columns).swapaxes(0, 1)

    def fold(gradient: jax.Array) -> jax.Array:
        gradient = gradient.reshape(outputs, *window, inputs)
        return jnp.moveaxis(gradient, -1, 1).transpose(_inverse(numbers.rhs_spec))

    def forward(patches: jax.Array, kernel: jax.Array) -> jax.Array:
        matrix = jnp.moveaxis(kernel.transpose(numbers.rhs_spec), 1, -1).reshape(heads, columns, rows)
        kind = {"precision": params["precision"], "preferred_element_type": params["preferred_element_type"]}
        if heads == 1:
            found = lax.dot_general(patches[0], matrix[0], (((1,), (1,)), ((), ())), **kind)[None]
        else:
            found = lax.dot_general(patches, matrix, (((2,), (2,)), ((0,), (0,))), **kind)
        order = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
        return found.swapaxes(0, 1).reshape(count, *places, outputs).transpose(_inverse(order))

    return Product(heads, length, rows, columns, left, right, fold, forward)


def _patches(image: jax.Array, window: list[int], places: list[int], params: dict[str, Any]) -> jax.Array:
    """What the kernel sees at each place: (images, positions..., window..., channels)."""
    borders = [
        (low, high, dilation - 1)
        for (low, high), dilation in zip(params["padding"], params["lhs_dilation"], strict=True)
    ]
    cut = lax.pad(image, jnp.zeros((), image.dtype), [(0, 0, 0), *borders, (0, 0, 0)])
    strides, apart = params["window_strides"], params["rhs_dilation"]
    # One axis after the other: a window of 8 x 8 takes 16 slices instead of 64, and XLA a tenth of the time.
    for axis in reversed(range(len(window))):
        reach = (places[axis] - 1) * strides[axis] + 1
        starts = [step * apart[axis] for step in range(window[axis])]
        slices = [lax.slice_in_dim(cut, s, s + reach, strides[axis], axis + 1) for s in starts]
        cut = jnp.stack(slices, axis=len(window) + 1)
    return cut


def _rest(axes: int, *used: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(axes) if not any(axis in some for some in used))


def _inverse(order: tuple[int, ...]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)
