"""Weights of which each example looks up a few whole rows: embeddings.

The gradient of the table is zero but for those rows. Rows looked up twice get both derivatives added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import dot_general_p, dynamic_slice_p, gather_p, reduce_sum_p
from jaxtyping import Array, Int

from reticent.training.gradients.sites import Site, uses_of
from reticent.training.gradients.tracing import Dependence, Trace, array_of

_INSIDE = "promise_in_bounds"  # `Lookup.rows` keeps every number inside its table
_TABLES = 16  # as many examples are looked at in one go


@dataclass(frozen=True, eq=False)
class Lookup:
    """Which rows were looked up, and how a table of rows becomes one in the shape of the weight."""

    count: int  # rows of the table
    columns: int  # numbers in a row
    length: int  # rows that one example looks up
    rows: Callable[[jax.Array], tuple[jax.Array, jax.Array]]  # -> their numbers, and whether they exist
    found: Callable[[jax.Array], jax.Array]  # derivative of what was found -> (length, columns)
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
    result = array_of(site.equation.outvars[0])
    length = result.size // columns
    reach = jnp.array([table[i] - sizes[i] for i in axes])  # the last place where a slice may begin

    def rows(places: jax.Array) -> tuple[jax.Array, jax.Array]:
        places = places.reshape(length, len(axes))
        is_inside = jnp.all((places >= 0) & (places <= reach), axis=1) if drops else jnp.ones(length, bool)
        return jnp.clip(places[:, axes.index(axis)], 0, count - 1), is_inside

    def found(cotangent: jax.Array) -> jax.Array:
        before = [i for i in range(result.ndim) if i not in offsets]
        return cotangent.transpose((*before, *offsets)).reshape(length, columns)

    def fold(rows: jax.Array) -> jax.Array:
        others = [size for i, size in enumerate(table) if i != axis]
        return jnp.moveaxis(rows.reshape(count, *others), 0, axis)

    return Lookup(count, columns, length, rows, found, fold)


class Bag(NamedTuple):
    """The rows that were found are used for nothing but a sum over all of them."""

    sum: JaxprEqn
    weights: tuple[Any, ...]  # one number a row, or none: every row counts 1


def bag_of(trace: Trace, site: Site) -> Bag | None:
    """The sum, plain or weighted, that a look-up goes into, or None where it goes elsewhere."""
    found, uses = site.equation.outvars[0], uses_of(trace, site.equation.outvars[0])
    if site.equation.primitive is not gather_p or len(uses) != 1 or found is trace.output:
        return None
    offsets = site.equation.params["dimension_numbers"].offset_dims
    positions = tuple(i for i in range(array_of(found).ndim) if i not in offsets)
    equation, place = uses[0]
    if equation.primitive is reduce_sum_p and tuple(sorted(equation.params["axes"])) == positions:
        return Bag(equation, ())
    if equation.primitive is dot_general_p:
        contracting, batch = equation.params["dimension_numbers"]
        weights = equation.invars[1 - place]
        is_vector = array_of(weights).ndim == 1 and trace.kind(weights) is Dependence.EXAMPLE
        if is_vector and not batch[place] and tuple(contracting[place]) == positions:
            return Bag(equation, (weights,))
    return None


def meeting_places(lookup: Lookup, ids: Int[Array, "examples length"]) -> Int[Array, "examples length"]:
    """For each row that an example looked up, one place that it shares with its equals and with no other."""
    examples, length = ids.shape
    if lookup.count > 4 * length**2:
        return jax.vmap(lambda ids: jnp.argmax(ids[:, None] == ids[None, :], axis=1))(ids)
    # Some tables, which stay in the cache, say where a row was seen last. They are never emptied: what an
    # earlier example left is below the first number of the next one.
    groups = -(-examples // _TABLES)
    ids = jnp.pad(ids, ((0, groups * _TABLES - examples), (0, 0)))
    table = (jnp.arange(_TABLES, dtype=jnp.int32) * lookup.count)[:, None]

    def look(last: jax.Array, group: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        at, ids = group
        numbers = jnp.broadcast_to(at * length + jnp.arange(length, dtype=jnp.int32), ids.shape)
        entries = (table + ids).reshape(-1)
        last = last.at[entries].max(numbers.reshape(-1), mode=_INSIDE)
        return last, last.at[entries].get(mode=_INSIDE).reshape(ids.shape) - at * length

    nothing = jnp.zeros(_TABLES * lookup.count, jnp.int32)
    turns = jnp.arange(groups, dtype=jnp.int32)
    found = lax.scan(look, nothing, (turns, ids.reshape(groups, _TABLES, length)))[1]
    return found.reshape(-1, length)[:examples]


def _row_axis(table: tuple[int, ...], sizes: tuple[int, ...], axes: tuple[int, ...]) -> int | None:
    """The one axis along which single rows are taken, all others being taken whole."""
    partial = [i for i, (size, whole) in enumerate(zip(sizes, table, strict=True)) if size != whole]
    axis = partial[0] if partial else axes[0]
    is_row = len(partial) <= 1 and axis in axes and sizes[axis] == 1 and 0 not in table
    return axis if is_row else None
