"""How the length of one example's gradient is found, for one parameter.

    outer       |a|^2 |g|^2: the weight of a dense layer applied to one vector
    gram        the products of all pairs of positions: weights of dense layers on short sequences
    rows        the rows of an embedding, equal ones added up first
    bag         the same where the rows go into one sum, as in a bag of words
    product     the product itself: weights on long sequences, kernels of convolutions
    explicit    the gradient, by the derivative of the equation: right for every parameter

The first four never form the gradient of one example. They round against the example: a length that
comes out too long costs a little of its influence, one too short would break the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn

from reticent.training.gradients.lookups import Bag, Lookup, bag_of, lookup_of
from reticent.training.gradients.products import Product, multiply, product_of
from reticent.training.gradients.sites import Way
from reticent.training.gradients.tracing import Trace

FLOOR = 2.0**-80  # squares below are lost in float32: taken for this much, so that no length is 0 by mistake
_GRAM_ROUNDING = 2.0**-21  # of the terms of a Gram sum, which may cancel each other and leave their rounding
_INSIDE = "promise_in_bounds"  # `Lookup.rows` keeps every number inside its table
_EXAMPLES_AT_ONCE = 16  # whose tables stay in the cache together
_MEMORY_COST = 8  # arithmetic operations in the time of writing and reading one number


@dataclass(frozen=True, eq=False)
class Rule:
    """A way to the length of one operand's gradient, and to the weighted sum over a batch.

    Args:
        keep: (what entered the site, derivative of what left it) of one example -> what the other two need.
        squared_norm: of what is kept of one example.
        weighted_sum: (what is kept of the batch, factors of its examples) -> the sum of the gradients.
        norm_cost, sum_cost: arithmetic operations an example.
        tail, beside: see `Site`.
        at_once: how many examples' squares are found together, where what each needs meanwhile is large;
            None for all.
    """

    name: str
    keep: Callable[..., Any]
    squared_norm: Callable[[Any], jax.Array]
    weighted_sum: Callable[[Any, jax.Array], jax.Array]
    norm_cost: int
    sum_cost: int
    tail: JaxprEqn | None = None
    beside: tuple[Any, ...] = ()
    at_once: int | None = None

    def squared_norms(self, kept: Any) -> jax.Array:
        """Of every example of a batch."""
        if self.at_once is None:
            return jax.vmap(self.squared_norm)(kept)
        return lax.map(self.squared_norm, kept, batch_size=self.at_once)


def weighted(values: jax.Array, factor: jax.Array) -> jax.Array:
    """The values of each example times its factor. A factor of 0 gives 0, even for NaN."""
    return jnp.where(_along(factor, values) > 0, values * _along(factor, values), 0)


def cleared(values: jax.Array, factor: jax.Array) -> jax.Array:
    """The values of the examples that count for something, 0 for the others."""
    return jnp.where(_along(factor, values) > 0, values, 0)


def weighted_total(values: jax.Array, factor: jax.Array) -> jax.Array:
    """The sum over the examples of their values times their factors."""
    return jnp.tensordot(factor, cleared(values, factor), axes=1, precision=lax.Precision.HIGHEST)


def fast_rule(trace: Trace, way: Way) -> Rule | None:
    """The cheapest rule for a leaf with one use, or None where only the explicit gradient is left."""
    product = product_of(way.site, way.position)
    if product is not None:
        return _product_rule(product)
    lookup = lookup_of(way.site, way.position)
    if lookup is None:
        return None
    bag = bag_of(trace, way.site)
    return _bag_rule(lookup, bag) if bag else _rows_rule(lookup)


def _product_rule(product: Product) -> Rule:
    heads, length = product.heads, product.length
    size = heads * product.rows * product.columns
    pairs_cost = 2 * heads * length**2 * (product.rows + product.columns)
    if length == 1:
        norm_cost = 2 * heads * (product.rows + product.columns)
        return Rule("outer", _factors(product), _outer_square, _sum_of_products(product), norm_cost, 2 * size)
    if pairs_cost < _MEMORY_COST * size:
        sum_cost = 2 * length * size
        return Rule("gram", _factors(product), _gram_square, _sum_of_products(product), pairs_cost, sum_cost)

    def keep(saved: jax.Array, cotangent: jax.Array) -> jax.Array:
        return multiply(product.right(cotangent), product.left(saved))

    def total(kept: jax.Array, factor: jax.Array) -> jax.Array:
        return product.fold(weighted_total(kept, factor))

    def square(kept: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(kept))

    return Rule("product", keep, square, total, 2 * (length + 1) * size, 2 * size)


Pair = tuple[jax.Array, jax.Array]  # (heads, length, rows), (heads, length, columns)


def _factors(product: Product) -> Callable[[jax.Array, jax.Array], Pair]:
    return lambda saved, cotangent: (product.left(saved), product.right(cotangent))


def _outer_square(kept: Pair) -> jax.Array:
    squares = [jnp.maximum(jnp.sum(jnp.square(part), axis=(1, 2)), FLOOR) for part in kept]
    return jnp.sum(squares[0] * squares[1])


def _gram_square(kept: Pair) -> jax.Array:
    pairs = [multiply(part.swapaxes(1, 2), part.swapaxes(1, 2)) for part in kept]
    lengths = [jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(part), axis=2), FLOOR)) for part in kept]
    slack = jnp.square(jnp.sum(lengths[0] * lengths[1], axis=1))
    return jnp.sum(jnp.maximum(jnp.sum(pairs[0] * pairs[1], axis=(1, 2)), 0) + _GRAM_ROUNDING * slack)


def _sum_of_products(product: Product) -> Callable[[Pair, jax.Array], jax.Array]:
    def total(kept: Pair, factor: jax.Array) -> jax.Array:
        # An example that counts for nothing may hold NaN, and 0 * NaN is NaN: both sides are cleared.
        a, g = cleared(kept[0], factor), weighted(kept[1], factor)
        a, g = (jnp.moveaxis(part, 1, 0).reshape(product.heads, -1, part.shape[-1]) for part in (a, g))
        return product.fold(multiply(g, a))

    return total


def _rows_rule(lookup: Lookup) -> Rule:
    def keep(places: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
        ids, is_inside = lookup.rows(places)
        return ids, jnp.where(is_inside[:, None], lookup.found(cotangent), 0)

    def square(kept: tuple[jax.Array, jax.Array]) -> jax.Array:
        ids, g = kept
        return jnp.sum(jnp.square(jnp.zeros_like(g).at[_meeting_places(lookup, ids)].add(g)))

    def total(kept: tuple[jax.Array, jax.Array], factor: jax.Array) -> jax.Array:
        ids, g = kept[0].reshape(-1), weighted(kept[1], factor).reshape(-1, lookup.columns)
        empty = jnp.zeros((lookup.count, lookup.columns), g.dtype)
        return lookup.fold(empty.at[ids].add(g, mode=_INSIDE))

    size = lookup.length * lookup.columns
    return Rule("rows", keep, square, total, 3 * size, size)


def _bag_rule(lookup: Lookup, bag: Bag) -> Rule:
    def keep(places: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        (ids, is_inside), *shares = lookup.rows(places), *rest[:-1]
        return ids, jnp.where(is_inside, shares[0] if shares else 1.0, 0), rest[-1].reshape(lookup.columns)

    def square(kept: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        ids, shares, g = kept
        places = ids if _is_small_table(lookup) else _meeting_places(lookup, ids)
        table = jnp.zeros(lookup.count if _is_small_table(lookup) else lookup.length)
        by_row = table.at[places].add(shares, mode=_INSIDE).at[places].get(mode=_INSIDE)
        # The square of each row's share, once for each time it was looked up: no table is read through.
        terms = shares * by_row
        square = jnp.maximum(jnp.sum(terms), 0) + _GRAM_ROUNDING * jnp.sum(jnp.abs(terms))
        return jnp.maximum(square, FLOOR) * jnp.maximum(jnp.sum(jnp.square(g)), FLOOR)

    def total(kept: tuple[jax.Array, jax.Array, jax.Array], factor: jax.Array) -> jax.Array:
        ids, shares, g = kept
        each = cleared(shares, factor)[:, :, None] * weighted(g, factor)[:, None, :]
        empty = jnp.zeros((lookup.count, lookup.columns), g.dtype)
        each = each.reshape(-1, lookup.columns)
        return lookup.fold(empty.at[ids.reshape(-1)].add(each, mode=_INSIDE))

    costs = 3 * lookup.length + 2 * lookup.columns, 2 * lookup.length * lookup.columns
    return Rule("bag", keep, square, total, *costs, bag.sum, bag.weights, at_once=_EXAMPLES_AT_ONCE)


def _meeting_places(lookup: Lookup, ids: jax.Array) -> jax.Array:
    """For each row that was looked up, one place that it shares with its equals and with no other."""
    if _is_small_table(lookup):
        return jnp.zeros(lookup.count, jnp.int32).at[ids].max(jnp.arange(lookup.length))[ids]
    return jnp.argmax(ids[:, None] == ids[None, :], axis=1)


def _is_small_table(lookup: Lookup) -> bool:
    return lookup.count <= 4 * lookup.length**2


def _along(factor: jax.Array, values: jax.Array) -> jax.Array:
    return factor.reshape(-1, *[1] * (values.ndim - 1))
