"""Sums over examples whose rounding is known: exactly, in whole numbers, or up to a bound that is paid for.

What an example adds is cut, towards zero, to whole multiples of a public grid, and whole numbers are added
up: in any order, over blocks, devices and processes, the sum is the same and has no error. Where no
example's gradient is ever formed (rule `outer`), a product adds them up in float32; it is done in chunks, and
the bound on its error is taken off the clipping norm before. The proofs are in docs/arithmetic.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from reticent.training.gradients.pinning import pinned
from reticent.training.gradients.products import multiply

ROUNDING = 2.0**-24  # the largest relative error of one float32 operation
FLOOR = 2.0**-80  # squares below are lost in float32: taken for this much, so that no length is 0 by mistake
# An example that would be multiplied by less, in steps, counts for nothing. No length is below 2^-40, so
# nothing on the way to a larger scale is subnormal.
LEAST_SCALE = 2.0**-80
SLACK = 2.0**-18  # covers some twenty operations between a norm and what is added, each within 2^-24
_PIECE = 4096  # numbers that are added up in one go, at most
_SHORTEST = 32  # numbers: shorter pieces are not worth it
_ROWS = 16  # examples that a round of a loop adds
_GROUP = 8  # chunks whose products are added before they meet the others
_MOST_NUMBERS = 1 << 22  # of products that are in memory at once, unless one has more
_SMALL = 1024  # numbers: leaves below are summed without a loop
_SMALLEST_CHUNK, _LARGEST_CHUNK = 16, 256
_PRODUCT_ERROR = 2.0**-6  # of the clipping norm: what chunks are chosen for where all of them are moved
MOST_ERROR = 2.0**-4  # beyond which products over examples are not used


class Grid(NamedTuple):
    """The multiples that sums consist of, and how large a sum may get.

    Args:
        steps: of the grid in one clipping norm; they may be traced.
        examples: the most that a sum is over, all blocks and devices together.
        additions: how many sums of blocks are added, at most.
        rows: of the largest block; all examples unless given. All blocks of a sum are clipped alike, whatever
            their size: a neighbour's examples are in other blocks.
        moves_others: adding or removing an example may move the others to other rows.
    """

    steps: Any
    examples: int
    additions: int = 1
    rows: int | None = None
    moves_others: bool = False

    @property
    def largest_block(self) -> int:
        return self.examples if self.rows is None else self.rows


def grid_for(examples: int, additions: int = 1, rows: int | None = None) -> Grid:
    """A fine grid on which a sum over so many examples fits into 30 bits."""
    return Grid(2.0 ** (29 - math.ceil(math.log2(max(examples, 2)))), max(examples, 1), additions, rows)


def terms_rounding(terms: float) -> float:
    """The largest relative error of a sum of so many numbers of one sign, in any order."""
    error = terms * ROUNDING
    if not error < 0.5:
        raise AssertionError(f"no bound on a float32 sum of {terms:g} numbers")
    return error / (1 - error)


def sum_of_squares(
    values: Float[Array, "examples ..."], is_real: Bool[Array, " examples"]
) -> Float[Array, " examples"]:
    """For each example the sum over its squares, or a little more.

    At most some thousand numbers are added in one go, and pieces are pinned in between: added one by one, a
    million small squares behind a large one would all be lost.
    """
    found = jnp.square(values.reshape(values.shape[0], -1))
    slack = terms_rounding(4)
    while (count := found.shape[1]) > _PIECE:
        piece = max(size for size in range(1, _PIECE + 1) if count % size == 0)
        if piece < _SHORTEST:  # a few numbers more or less make no piece of them: filled up
            found = jnp.pad(found, ((0, 0), (0, -count % _PIECE)))
            piece = _PIECE
        found = pinned(jnp.sum(found.reshape(found.shape[0], -1, piece), axis=2), is_real)
        slack += terms_rounding(piece)
    return jnp.sum(found, axis=1) * (1 + slack + terms_rounding(found.shape[1]))


def whole(values: jax.Array, scale: jax.Array) -> Int[Array, " ..."]:
    """Values times a scale, cut towards zero: int32. A scale of 0 gives 0, even for NaN."""
    return jnp.where(scale > 0, values * scale, 0).astype(jnp.int32)


def whole_total(
    values: Float[Array, " examples *shape"], scale: Float[Array, " examples"]
) -> Int[Array, "*shape"]:
    """The sum over the examples of their whole values, in int32."""
    rows, shape = values.shape[0], values.shape[1:]
    values = values.reshape(rows, -1)
    if values.shape[1] <= _SMALL:
        return jnp.sum(whole(values, scale[:, None]), axis=0).reshape(shape)
    # A loop over rows: XLA sums over the first axis a hundred times slower on CPU.
    certain = rows // _ROWS

    def add(at: jax.Array, total: jax.Array) -> jax.Array:
        some, by = (lax.dynamic_slice_in_dim(array, at * _ROWS, _ROWS) for array in (values, scale))
        return _plus(total, some, by)

    total = jnp.zeros(values.shape[1], jnp.int32)
    total = lax.fori_loop(0, certain, add, total) if certain else total
    return _plus(total, values[certain * _ROWS :], scale[certain * _ROWS :]).reshape(shape)


def _plus(total: jax.Array, values: jax.Array, scale: jax.Array) -> jax.Array:
    for row in range(values.shape[0]):
        total = total + whole(values[row], scale[row])
    return total


def whole_products(
    g: Float[Array, "examples heads length n"],
    a: Float[Array, "examples heads length m"],
    scale: Float[Array, " examples"],
) -> Int[Array, "heads n m"]:
    """The sum over examples of their whole products.

    Each product is formed, cut to the grid and added, one example after the other: what cancels within an
    example has cancelled before it meets the others.
    """

    def add(at: jax.Array, total: jax.Array) -> jax.Array:
        return total + whole(multiply(g[at], a[at]), scale[at])

    heads, n, m = g.shape[1], g.shape[3], a.shape[3]
    return lax.fori_loop(0, g.shape[0], add, jnp.zeros((heads, n, m), jnp.int32))


def chunk_of(grid: Grid) -> int:
    """How many examples one product adds up, so that all of it loses little of the clipping norm."""
    if not grid.moves_others:
        return _LARGEST_CHUNK
    fitting = _PRODUCT_ERROR / (grid.examples * ROUNDING)
    return int(min(max(2 ** math.floor(math.log2(fitting)), _SMALLEST_CHUNK), _LARGEST_CHUNK))


def chunked_product(
    g: Float[Array, "heads examples n"], a: Float[Array, "heads examples m"], grid: Grid
) -> Float[Array, "heads n m"]:
    """The sum over examples of products in float32.

    Chunks are added up to groups, and groups to the sum: no number goes through many additions.

    Guarantee:
        With terms of norm at most 1, the computed sums of two neighbours are at most `product_error(grid)`
        farther apart than the exact ones, whatever order a product adds in.
    """
    chunk, rows = chunk_of(grid), g.shape[1]
    # As many chunks as it takes, all of one size: a short rest would take as long as a whole one. Rows of
    # zeros fill them up, which change no sum.
    chunks = max(-(-rows // chunk), 1)
    chunk = -(-rows // chunks)
    g, a = (jnp.pad(part, ((0, 0), (0, chunks * chunk - rows), (0, 0))) for part in (g, a))
    groups, left = divmod(chunks, _GROUP)

    def some(start: jax.Array | int, count: int) -> jax.Array:
        """The sum over some chunks, from an example on."""
        at_once = _products_at_once(count, g.shape[0] * g.shape[2] * a.shape[2])

        def added(at: jax.Array | int) -> jax.Array:
            size = at_once * chunk
            some_g, some_a = (lax.dynamic_slice_in_dim(part, start + at * size, size, 1) for part in (g, a))
            return _sum_of_products(some_g, some_a, at_once)

        return lax.fori_loop(1, count // at_once, lambda at, total: total + added(at), added(0))

    parts = []
    if groups:
        first = some(0, _GROUP)
        group = chunk * _GROUP
        parts.append(lax.fori_loop(1, groups, lambda at, total: total + some(at * group, _GROUP), first))
    if left:
        parts.append(some(groups * _GROUP * chunk, left))
    return sum(parts[1:], parts[0])


def _products_at_once(count: int, numbers: int) -> int:
    """How many products of some chunks one operation forms: XLA is slower at one after the other."""
    fitting = min(max(_MOST_NUMBERS // max(numbers, 1), 1), count)
    return max(each for each in range(1, fitting + 1) if count % each == 0)


def _sum_of_products(g: jax.Array, a: jax.Array, chunks: int) -> jax.Array:
    """The products of so many chunks, each formed by itself, added one after the other."""
    heads = g.shape[0]
    g, a = (part.reshape(heads * chunks, -1, part.shape[2]) for part in (g, a))
    products = multiply(g, a).reshape(heads, chunks, g.shape[2], a.shape[2])
    return sum((products[:, at] for at in range(1, chunks)), products[:, 0])


def product_error(grid: Grid) -> float:
    """How far rounding moves the sums of two neighbours apart, in clipping norms, for blocks of any size.

    An addition is off by 2^-24 of its result, which is no longer than there are examples in it. Where the
    others keep their rows, neighbours differ in one chunk of one group, and the same product of the same
    numbers is the same; else all chunks and groups count.
    """
    chunk = min(chunk_of(grid), grid.largest_block)
    groups = -(-grid.largest_block // (chunk * _GROUP))
    in_chunk, in_group = (chunk + 1) / 2 + 1, (_GROUP + 1) / 2
    if grid.moves_others:
        terms = grid.examples * (in_chunk + in_group)
    else:
        terms = chunk * (in_chunk + _GROUP * in_group)
    terms += grid.examples * ((groups + 1) / 2 + 2 + grid.additions)
    return 2 * terms * ROUNDING * 1.01
