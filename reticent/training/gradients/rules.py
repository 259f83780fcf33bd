"""How the length of one example's gradient is found, for one parameter, and how gradients are added up.

    outer       |a|^2 |g|^2: the weight of a dense layer applied to one vector
    gram        the products of all pairs of positions: weights of dense layers on short sequences
    rows        the rows of an embedding, equal ones added up first
    bag         the same where the rows go into one sum, as in a bag of words
    product     the product itself: weights on long sequences, kernels of convolutions
    explicit    the gradient, by the derivative of the equation: right for every parameter

What a rule keeps of an example is pinned in memory; the length is found from it, and so is what the example
adds. A length is rounded up: by the largest error that its terms can have before they cancel each other,
with the number of terms in it. A length that comes out too long costs a little of the example's influence,
one too short would break the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float

from reticent.training.gradients.lookups import Bag, Lookup, bag_of, lookup_of, meeting_places
from reticent.training.gradients.pinning import pinned
from reticent.training.gradients.products import Product, multiply, product_of
from reticent.training.gradients.sites import Way
from reticent.training.gradients.totals import (
    FLOOR,
    Grid,
    chunked_product,
    sum_of_squares,
    terms_rounding,
    whole,
    whole_products,
    whole_total,
)
from reticent.training.gradients.tracing import Trace

_INSIDE = "promise_in_bounds"  # `Lookup.rows` keeps every number inside its table
SHORTCUTS = ("outer", "gram")  # rules whose bound rests on how a product of float32 is rounded
_MEMORY_COST = 8  # arithmetic operations in the time of writing and reading one number
_SMALL_PRODUCT = 4  # times as large as its factors: formed rather than not
_NARROW = 128  # columns: products with so few are formed several times faster with the long side last


@dataclass(frozen=True, eq=False)
class Rule:
    """A way to the length of one operand's gradient, and to the sum over a batch.

    Args:
        keep: (what entered the site, derivative of what left it) of a batch -> what the other two need.
        squared_norms: (what is kept of the batch, which rows are real) -> for each example the squared
            length of what it adds, or a little more.
        total: (what is kept of the batch, scales of its examples, grid) -> the sum of the gradients times
            their scales: whole numbers, or float32 from the rule `outer`.
        norm_cost, sum_cost: arithmetic operations an example.
        tail, beside: see `Site`.
    """

    name: str
    keep: Callable[..., Any]
    squared_norms: Callable[[Any, jax.Array], jax.Array]
    total: Callable[[Any, jax.Array, Grid], jax.Array]
    norm_cost: int
    sum_cost: int
    tail: JaxprEqn | None = None
    beside: tuple[Any, ...] = ()


def weighted(
    values: Float[Array, " examples *shape"], factor: Float[Array, " examples"]
) -> Float[Array, " examples *shape"]:
    """The values of each example times its factor. A factor of 0 gives 0, even for NaN."""
    return jnp.where(_along(factor, values) > 0, values * _along(factor, values), 0)


def cleared(
    values: Float[Array, " examples *shape"], factor: Float[Array, " examples"]
) -> Float[Array, " examples *shape"]:
    """The values of the examples that count for something, 0 for the others."""
    return jnp.where(_along(factor, values) > 0, values, 0)


def fast_rule(
    trace: Trace, way: Way, *, tapped: Sequence[JaxprEqn] = (), shortcuts: Sequence[str] = SHORTCUTS
) -> Rule | None:
    """The cheapest rule for a leaf with one use, or None where only the explicit gradient is left.

    Args:
        tapped: equations that are tapped for other leaves already.
        shortcuts: those of `SHORTCUTS` that may be taken.
    """
    product = product_of(way.site, way.position)
    if product is not None:
        return _product_rule(product, shortcuts)
    lookup = lookup_of(way.site, way.position)
    if lookup is None:
        return None
    bag = bag_of(trace, way.site)
    if bag and not any(bag.sum is equation for equation in tapped):
        return _bag_rule(lookup, bag)
    return _rows_rule(lookup)


def _product_rule(product: Product, shortcuts: Sequence[str]) -> Rule:
    heads, length = product.heads, product.length
    size = heads * product.rows * product.columns
    pairs_cost = 2 * heads * length**2 * (product.rows + product.columns)
    is_small = size <= _SMALL_PRODUCT * heads * (product.rows + product.columns)
    if length == 1 and "outer" in shortcuts and not is_small:
        norm_cost = 2 * heads * (product.rows + product.columns)
        squares, add_up = _outer_squares(product), _outer_total(product)
        return Rule("outer", _vectors(product), squares, add_up, norm_cost, 2 * size)
    if length > 1 and "gram" in shortcuts and pairs_cost < _MEMORY_COST * size:
        sum_cost = 2 * length * size
        return Rule("gram", _factors(product), _gram_squares, _gram_total(product), pairs_cost, sum_cost)

    def keep(saved: jax.Array, cotangent: jax.Array) -> jax.Array:
        return multiply(product.right(cotangent), product.left(saved))

    def total(kept: jax.Array, scale: jax.Array, grid: Grid) -> jax.Array:
        return product.fold(whole_total(kept, scale))

    return Rule("product", jax.vmap(keep), sum_of_squares, total, 2 * (length + 1) * size, 2 * size)


FactorPair = tuple[jax.Array, jax.Array]  # (heads, length, rows), (heads, length, columns)


def _factors(product: Product) -> Callable[[jax.Array, jax.Array], FactorPair]:
    return jax.vmap(lambda saved, cotangent: (product.left(saved), product.right(cotangent)))


VectorPair = tuple[jax.Array, jax.Array]  # (heads * rows,), (heads * columns,)


def _vectors(product: Product) -> Callable[[jax.Array, jax.Array], VectorPair]:
    factors = _factors(product)

    def keep(saved: jax.Array, cotangent: jax.Array) -> VectorPair:
        if product.heads == 1 and saved.ndim == cotangent.ndim == 2:
            return saved, cotangent  # as they are: what other rules keep as well is in memory once
        a, g = factors(saved, cotangent)
        return a.reshape(a.shape[0], -1), g.reshape(g.shape[0], -1)

    return keep


def _outer_squares(product: Product) -> Callable[[VectorPair, jax.Array], jax.Array]:
    heads = product.heads

    def squared_norms(kept: VectorPair, is_real: jax.Array) -> jax.Array:
        squares = []
        for part in kept:  # (examples, heads * numbers)
            found = sum_of_squares(part.reshape(part.shape[0] * heads, -1), is_real)
            squares.append(jnp.maximum(found.reshape(-1, heads), FLOOR))
        return jnp.sum(squares[0] * squares[1], axis=1) * (1 + terms_rounding(heads + 4))

    return squared_norms


def _outer_total(product: Product) -> Callable[[VectorPair, jax.Array, Grid], jax.Array]:
    def by_head(part: jax.Array) -> jax.Array:
        return jnp.moveaxis(part.reshape(part.shape[0], product.heads, -1), 1, 0)

    def total(kept: VectorPair, scale: jax.Array, grid: Grid) -> jax.Array:
        # An example that counts for nothing may hold NaN, and 0 * NaN is NaN: both sides are cleared.
        a, g = by_head(cleared(kept[0], scale)), by_head(weighted(kept[1], scale))
        if product.fold_rows is not None and product.columns > _NARROW:
            # Formed as it lies in memory: transposing it would take a third of the time.
            return product.fold_rows(chunked_product(a, g, grid))
        return product.fold(chunked_product(g, a, grid))

    return total


def _gram_squares(kept: FactorPair, is_real: jax.Array) -> jax.Array:
    """From the products of all pairs of positions, which may cancel each other and leave their rounding.

    Each of the three sums is off by its number of terms times 2^-24 times the uncancelled terms, which all
    together are `uncancelled`. What the example adds is a product as well, off by its length times 2^-24
    times the root of that.
    """
    (rows, columns), (heads, length) = (part.shape[3] for part in kept), kept[0].shape[1:3]
    pairs = [jax.vmap(multiply)(*[part.swapaxes(2, 3)] * 2) for part in kept]  # (examples, heads, L, L)
    by_position = pinned(jnp.sum(pairs[0] * pairs[1], axis=3), is_real)
    square = jnp.sum(by_position, axis=(1, 2))
    lengths = [jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(part), axis=3), FLOOR)) for part in kept]
    terms = rows + columns + 2 * length + heads * length + 16
    by_head = jnp.square(jnp.sum(lengths[0] * lengths[1], axis=2) * (1 + terms_rounding(terms)))
    uncancelled = jnp.sum(by_head, axis=1) * (1 + terms_rounding(heads))
    norm = jnp.sqrt(jnp.maximum(square, 0) + terms_rounding(terms) * uncancelled)
    return jnp.square(norm + terms_rounding(length + 2) * jnp.sqrt(uncancelled)) * (1 + terms_rounding(8))


def _gram_total(product: Product) -> Callable[[FactorPair, jax.Array, Grid], jax.Array]:
    def total(kept: FactorPair, scale: jax.Array, grid: Grid) -> jax.Array:
        return product.fold(whole_products(kept[1], kept[0], scale))

    return total


def _rows_rule(lookup: Lookup) -> Rule:
    def keep(places: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
        ids, is_inside = jax.vmap(lookup.rows)(places)
        g = jnp.where(is_inside[:, :, None], jax.vmap(lookup.found)(cotangent), 0)
        return ids, _add_up(g, meeting_places(lookup, ids))

    def squares(kept: tuple[jax.Array, jax.Array], is_real: jax.Array) -> jax.Array:
        return sum_of_squares(kept[1], is_real)

    def total(kept: tuple[jax.Array, jax.Array], scale: jax.Array, grid: Grid) -> jax.Array:
        ids, rows = kept[0].reshape(-1), whole(kept[1], _along(scale, kept[1]))
        empty = jnp.zeros((lookup.count, lookup.columns), jnp.int32)
        return lookup.fold(empty.at[ids].add(rows.reshape(-1, lookup.columns), mode=_INSIDE))

    size = lookup.length * lookup.columns
    return Rule("rows", keep, squares, total, 3 * size, size)


def _bag_rule(lookup: Lookup, bag: Bag) -> Rule:
    def keep(places: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        (ids, is_inside), *given = jax.vmap(lookup.rows)(places), *rest[:-1]
        shares = jnp.where(is_inside, given[0] if given else jnp.float32(1), 0)
        by_row = _add_up(shares, meeting_places(lookup, ids))
        return ids, by_row, rest[-1].reshape(-1, lookup.columns)

    def squares(kept: tuple[jax.Array, jax.Array, jax.Array], is_real: jax.Array) -> jax.Array:
        parts = [jnp.maximum(sum_of_squares(part, is_real), FLOOR) for part in kept[1:]]
        return parts[0] * parts[1] * (1 + terms_rounding(4))

    def total(kept: tuple[jax.Array, jax.Array, jax.Array], scale: jax.Array, grid: Grid) -> jax.Array:
        ids, by_row, g = kept
        # Pinned: the compiler would work out the scale again for each of their products.
        by_row, g = pinned((cleared(by_row, scale), weighted(g, scale)), scale > 0)
        rows = whole(by_row[:, :, None] * g[:, None, :], jnp.float32(1))
        empty = jnp.zeros((lookup.count, lookup.columns), jnp.int32)
        return lookup.fold(empty.at[ids.reshape(-1)].add(rows.reshape(-1, lookup.columns), mode=_INSIDE))

    costs = 3 * lookup.length + 2 * lookup.columns, 2 * lookup.length * lookup.columns
    return Rule("bag", keep, squares, total, *costs, bag.sum, bag.weights)


def _add_up(rows: jax.Array, places: jax.Array) -> jax.Array:
    """The rows of each example, those that share a place added up there and zeros elsewhere."""
    add = jax.vmap(lambda rows, places: jnp.zeros_like(rows).at[places].add(rows, mode=_INSIDE))
    return add(rows, places)


def _along(factor: jax.Array, values: jax.Array) -> jax.Array:
    return factor.reshape(-1, *[1] * (values.ndim - 1))
