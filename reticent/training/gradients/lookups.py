"""Weights of which each example looks up a few whole rows: embeddings.

The gradient of the table is zero but for those rows. Rows looked up twice get both derivatives added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core.primitives import dynamic_slice_p, gather_p

from reticent.training.gradients.sites import Site
from reticent.training.gradients.tracing import array_of


@dataclass(frozen=True, eq=False)
class Lookup:
    """Which rows were looked up, and how a table of rows becomes one in the shape of the weight."""

    count: int  # rows of the table
    columns: int  # numbers in a row
    length: int  # rows that one example looks up
    rows: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    """(what was looked up, derivative of what was found) -> row numbers (length,) and (length, columns)"""
    fold: Callable[[jax.Array], jax.Array]  # (rows of the table, columns) -> the shape of the weight


def lookup_of(site: Site, position: int) -> Lookup | None:
    """The look-up of whole rows that a site is, or None where it is something else."""
    primitive, params = site.equation.primitive, site.equation.params
    if position != 0 or len(site.saved) != 1:
        return None
    table = array_of(site.equation.invars[0]).shape
    if primitive is gather_p and not params["dimension_numbers"].operand_batching_dims:
        numbers, sizes = params["dimension_numbers"], tuple(params["slice_sizes"])
        axes, offsets = numbers.start_index_map, numbers.offset_dims
        drops = params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    elif primitive is dynamic_slice_p:
        sizes, drops = tuple(params["slice_sizes"]), False
        axes, offsets = (site.saved[0] - 1,), tuple(range(len(table)))
    else:
        return None
    axis = _row_axis(table, sizes, axes)
    if axis is None:
        return None
    count, columns = table[axis], jax.ShapeDtypeStruct(table, jnp.float32).size // table[axis]
    found = array_of(site.equation.outvars[0])
    length = found.size // columns
    reach = jnp.array([table[i] - sizes[i] for i in axes])  # the last place where a slice may begin

    def rows(places: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
        before = [i for i in range(found.ndim) if i not in offsets]
        g = cotangent.transpose((*before, *offsets)).reshape(length, columns)
        places = places.reshape(length, len(axes))
        if drops:
            g = jnp.where(jnp.all((places >= 0) & (places <= reach), axis=1)[:, None], g, 0)
        return jnp.clip(places[:, axes.index(axis)], 0, count - 1), g

    def fold(rows: jax.Array) -> jax.Array:
        others = [size for i, size in enumerate(table) if i != axis]
        return jnp.moveaxis(rows.reshape(count, *others), 0, axis)

    return Lookup(count, columns, length, rows, fold)


def _row_axis(table: tuple[int, ...], sizes: tuple[int, ...], axes: tuple[int, ...]) -> int | None:
    """The one axis along which single rows are taken, all others being taken whole."""
    partial = [i for i, (size, whole) in enumerate(zip(sizes, table, strict=True)) if size != whole]
    axis = partial[0] if partial else axes[0]
    is_row = len(partial) <= 1 and axis in axes and sizes[axis] == 1 and 0 not in table
    return axis if is_row else None
