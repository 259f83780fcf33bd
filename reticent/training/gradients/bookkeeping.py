"""Book-keeping: the clipped sum of a batch from one forward and one backward pass over the whole batch.

A zero, the *tap*, is added to what leaves each site. The derivative of the loss with respect to the taps,
together with what entered the sites, gives the length of each example's gradient, and then the sum of
the clipped gradients, mostly without any example's own gradient.

Reference:
    Bu, Wang, Zha, Karypis (2023), arXiv:2210.00038v2, who do it by hooks on layers; here it is a
    transformation of the loss as traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal, Var

from reticent.training.gradients.pinning import pinned
from reticent.training.gradients.products import by_patches, may_be_cut, multiply, product_of
from reticent.training.gradients.rules import SHORTCUTS, Rule, fast_rule
from reticent.training.gradients.sites import (
    Site,
    Way,
    find_sites,
    find_way,
    operand_values,
    used_leaves,
    weight_gradients,
)
from reticent.training.gradients.totals import FLOOR, Grid, sum_of_squares, whole_total
from reticent.training.gradients.tracing import Dependence, Trace, array_of, evaluate, run


@dataclass(frozen=True, eq=False)
class Fast:
    """A leaf whose rule needs no gradient of any one example."""

    way: Way
    rule: Rule


@dataclass(frozen=True, eq=False)
class Book:
    """What is done for each leaf of the parameters.

    Args:
        fast: the leaves with a fast rule, by position.
        explicit: the leaves whose gradient is formed for every example. A leaf in neither is not used.
    """

    trace: Trace
    sites: tuple[Site, ...]
    fast: dict[int, Fast]
    explicit: tuple[int, ...]


class Kept(NamedTuple):
    """What one pass over the batch leaves behind, each with a leading axis of examples.

    `saved` and `cotangents` hold, for each site, what entered it and the derivatives of what left it.
    """

    losses: jax.Array
    saved: list[list[jax.Array]]
    cotangents: list[list[jax.Array]]


def keep_book(trace: Trace, *, shortcuts: Sequence[str] = SHORTCUTS) -> Book:
    """Chooses a rule for every leaf; see `fast_rule`."""
    sites = [replace(site, is_cut=may_be_cut(site)) for site in find_sites(trace)]
    fast = {}
    for position, leaf in enumerate(trace.leaves):
        way = find_way(trace, sites, leaf)
        tapped = [site.tapped for site in sites]
        rule = fast_rule(trace, way, tapped=tapped, shortcuts=shortcuts) if way else None
        if way and rule:
            fast[position] = Fast(way, rule)
            sites[way.site.number] = replace(way.site, tail=rule.tail, beside=rule.beside)
    used = used_leaves(trace, sites)
    return Book(trace, tuple(sites), fast, tuple(i for i in used if i not in fast))


def clipped_sum(
    book: Book,
    leaves: Sequence[jax.Array],
    batch: Sequence[jax.Array],
    is_real: jax.Array,
    scales: Callable[[list[jax.Array]], list[jax.Array]],
    grid: Grid,
) -> tuple[list[jax.Array], jax.Array, jax.Array]:
    """The sum of the clipped gradients in steps of the grid, leaf by leaf, the norms and the losses.

    Args:
        scales: from the squared norms of each leaf, (examples,) each, to what its gradients are
            multiplied by.
    """
    known = _parameter_values(book.trace, leaves)
    # What a rule reads of the batch itself is in memory from the start, and is not copied there again later.
    raw = {i: at for i, fast in book.fast.items() if (at := _leaf_of_batch(book.trace, fast)) is not None}
    batch = list(batch)
    for at in set(raw.values()):
        batch[at] = pinned(batch[at], is_real)
    kept = _one_pass(book, known, batch)
    explicit = _explicit_gradients(book, known, leaves, kept)
    by_rule = {i: fast.rule.keep(*_wide_operands(fast.way.site, kept)) for i, fast in book.fast.items()}
    # From here on lengths and sums read the same numbers.
    untouched = {i: by_rule[i][0] for i in raw}
    by_rule |= {i: by_rule[i][1:] for i in raw}
    explicit, by_rule = pinned((explicit, by_rule), is_real)
    by_rule |= {i: (values, *by_rule[i]) for i, values in untouched.items()}
    squares = [jnp.full(is_real.shape, FLOOR, jnp.float32) for _ in leaves]
    for i, fast in book.fast.items():
        squares[i] += fast.rule.squared_norms(by_rule[i], is_real)
    for i, gradient in explicit.items():
        squares[i] += sum_of_squares(gradient, is_real)
    by_leaf = [jnp.where(is_real, scale, 0.0) for scale in scales(squares)]
    sums = [jnp.zeros(leaf.shape, jnp.int32) for leaf in leaves]
    for i, fast in book.fast.items():
        sums[i] = fast.way.back(fast.rule.total(by_rule[i], by_leaf[i], grid), leaves[i].shape)
    for i, gradient in explicit.items():
        sums[i] = whole_total(gradient, by_leaf[i])
    return sums, jnp.sqrt(sum(squares, jnp.float32(0))), kept.losses


def _leaf_of_batch(trace: Trace, fast: Fast) -> int | None:
    """Which leaf of the batch enters the site as it is, where the rule keeps that; None if none does."""
    site = fast.way.site
    if fast.rule.name not in SHORTCUTS or site.is_cut:
        return None
    entered = site.saved_variables()
    return next((at for at, variable in enumerate(trace.inputs) if [variable] == entered), None)


def _parameter_values(trace: Trace, leaves: Sequence[Any]) -> dict[Var, Any]:
    """The values that are the same for every example."""
    known: dict[Var, Any] = {**trace.constants, **dict(zip(trace.leaves, leaves, strict=True))}
    for equation in trace.equations:
        if trace.kind_of_equation(equation) is not Dependence.EXAMPLE:
            known |= zip(equation.outvars, evaluate(equation, _read(equation.invars, known)), strict=True)
    return known


def _one_pass(book: Book, known: Mapping[Var, Any], batch: Sequence[jax.Array]) -> Kept:
    trace = book.trace
    site_of = {id(site.tapped): site for site in book.sites}
    examples = batch[0].shape[0]

    def forward(taps: list[list[jax.Array]], example: list[jax.Array]) -> tuple[jax.Array, Any]:
        values = {**known, **dict(zip(trace.inputs, example, strict=True))}
        patches: dict[int, jax.Array] = {}
        for equation in trace.equations:
            if trace.kind_of_equation(equation) is not Dependence.EXAMPLE:
                continue
            site = site_of.get(id(equation))
            if site and site.is_cut:
                result, patches[site.number] = by_patches(site, *_read(equation.invars, values))
                results = [result]
            else:
                results = evaluate(equation, _read(equation.invars, values))
            for tap, position in zip(taps[site.number], site.outputs, strict=True) if site else ():
                results[position] = results[position] + tap
            values |= zip(equation.outvars, results, strict=True)
        saved = [
            [patches[site.number]]
            if site.is_cut
            else [values[variable] for variable in site.saved_variables()]
            for site in book.sites
        ]
        return values[trace.output], saved

    taps = [[_zeros(site.tapped.outvars[i], examples) for i in site.outputs] for site in book.sites]
    losses, pull, saved = jax.vjp(lambda taps: jax.vmap(forward)(taps, list(batch)), taps, has_aux=True)
    (cotangents,) = pull(jnp.ones_like(losses))
    return Kept(losses, saved, cotangents)


def _explicit_gradients(
    book: Book, known: Mapping[Var, Any], leaves: Sequence[jax.Array], kept: Kept
) -> dict[int, jax.Array]:
    """The gradient of every example, for the leaves without a fast rule: (examples, ...) each."""
    if not book.explicit:
        return {}
    trace = book.trace
    operands = _gradients_of_operands(book, known, kept)
    wanted = list(operands)
    equations = [e for e in trace.equations if trace.kind_of_equation(e) is not Dependence.EXAMPLE]

    def parameter_part(values: list[jax.Array]) -> list[jax.Array]:
        start = {**trace.constants, **dict(zip(trace.leaves, leaves, strict=True))}
        start |= {trace.leaves[i]: value for i, value in zip(book.explicit, values, strict=True)}
        return run(equations, list(start), wanted, list(start.values()))

    _, pull = jax.vjp(parameter_part, [leaves[i] for i in book.explicit])
    (found,) = jax.vmap(pull)([operands[variable] for variable in wanted])
    return {i: gradient.astype(jnp.float32) for i, gradient in zip(book.explicit, found, strict=True)}


def _gradients_of_operands(book: Book, known: Mapping[Var, Any], kept: Kept) -> dict[Var, jax.Array]:
    """The gradients with respect to the parameter-only operands of the sites, added up over the sites."""
    by_rule = {(fast.way.site.number, fast.way.position) for fast in book.fast.values()}
    found: dict[Var, jax.Array] = {}
    for site in book.sites:
        positions = [i for i in site.weights if (site.number, i) not in by_rule]
        if not positions:
            continue
        gradients = _site_gradients(site, known, kept)
        for position in positions:
            variable = site.weight(position)
            gradient = gradients[site.weights.index(position)]
            found[variable] = found[variable] + gradient if variable in found else gradient
    return found


def _site_gradients(site: Site, known: Mapping[Var, Any], kept: Kept) -> list[jax.Array]:
    product = product_of(site, site.weights[0])
    if product is None:

        def one(saved: list[jax.Array], cotangents: list[jax.Array]) -> list[jax.Array]:
            return weight_gradients(site, operand_values(site, known, saved), cotangents)

        return jax.vmap(one)(kept.saved[site.number], kept.cotangents[site.number])

    def as_product(saved: jax.Array, cotangent: jax.Array) -> jax.Array:
        return product.fold(multiply(product.right(cotangent), product.left(saved)))

    weight = array_of(site.weight(site.weights[0]))
    return [jax.vmap(as_product)(*_wide_operands(site, kept)).astype(weight.dtype)]


def _wide_operands(site: Site, kept: Kept) -> list[jax.Array]:
    """What a rule is given: what entered the site, then the derivative of what left it."""
    return [_wide(values) for values in (*kept.saved[site.number], *kept.cotangents[site.number])]


def _wide(values: jax.Array) -> jax.Array:
    return values.astype(jnp.float32) if jnp.issubdtype(values.dtype, jnp.floating) else values


def _zeros(variable: Any, examples: int) -> jax.Array:
    return jnp.zeros((examples, *variable.aval.shape), variable.aval.dtype)


def _read(atoms: Sequence[Any], known: Mapping[Var, Any]) -> list[Any]:
    return [atom.val if isinstance(atom, Literal) else known[atom] for atom in atoms]
