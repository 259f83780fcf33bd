"""Which rule finds the length of each parameter's gradient, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from reticent.core.trees import ArrayTree
from reticent.training.clipping import paths_of
from reticent.training.gradients import inputs
from reticent.training.gradients.bookkeeping import Book, keep_book
from reticent.training.gradients.rules import SHORTCUTS
from reticent.training.gradients.totals import (
    MOST_ERROR,
    SLACK,
    Grid,
    chunk_of,
    grid_for,
    product_error,
)
from reticent.training.gradients.tracing import Trace, trace
from reticent.training.gradients.untrained import in_words, leaves_without_gradient
from reticent.training.loss_keys import AnyLoss, Keyed, key_use, of_keyed_example

_EXAMPLES = 1024  # in a sum, where nobody says how many

# Backends whose products in full precision are those of IEEE float32. A TPU makes them of several products of
# bfloat16, so there a bound on their rounding would not hold: each example's product is formed and measured.
_EXACT_PRODUCTS = ("cpu", "gpu")


class Choice(NamedTuple):
    """What book-keeping does for one parameter. Costs are arithmetic operations an example."""

    parameter: str
    shape: tuple[int, ...]
    rule: str
    norm_cost: int
    sum_cost: int


def book_for(traced: Trace, grid: Grid) -> Book:
    """The rules for sums over so many examples. Very large sums add no products, which round."""
    if jax.default_backend() not in _EXACT_PRODUCTS:
        return keep_book(traced, shortcuts=())
    return keep_book(traced, shortcuts=SHORTCUTS if product_error(grid) <= MOST_ERROR else ("gram",))


def choices(
    loss: AnyLoss, params: ArrayTree, example: ArrayTree, *, examples: int = _EXAMPLES
) -> list[Choice]:
    """The rule of every parameter; `vmap` for all of them where book-keeping refuses the loss."""
    loss, example = _with_key(loss, example)
    params, example = jax.tree.map(jnp.asarray, (params, example))
    inputs.check_parameters(params)
    unused = leaves_without_gradient(inputs.check_loss(loss, params, example).jaxpr, params)
    traced = trace(loss, params, example)
    book = book_for(traced, grid_for(examples))
    found = []
    for position, (path, leaf) in enumerate(zip(paths_of(params), jax.tree.leaves(params), strict=True)):
        if path in unused:
            choice = Choice(path, leaf.shape, "unused", 0, 0)
        elif traced.refusal:
            choice = Choice(path, leaf.shape, "vmap", 2 * leaf.size, 2 * leaf.size)
        elif position in book.fast:
            rule = book.fast[position].rule
            choice = Choice(path, leaf.shape, rule.name, rule.norm_cost, rule.sum_cost)
        elif position in book.explicit:
            choice = Choice(path, leaf.shape, "explicit", 2 * leaf.size, 2 * leaf.size)
        else:
            choice = Choice(path, leaf.shape, "unused", 0, 0)
        found.append(choice)
    return found


def explain(loss: AnyLoss, params: ArrayTree, example: ArrayTree, *, examples: int = _EXAMPLES) -> str:
    """A table of the rule that each parameter gets, and its cost in operations per example.

    Rounding is paid for by clipping to a little less than the clipping norm: the last line says how much
    less, for sums over `examples`.

    A leaf that the loss gives no gradient to is called `unused`.

    The rules are described in `reticent.training.gradients.rules`. Those called `explicit`, `product`
    and `vmap` hold one gradient an example in memory; the others do not.

    Example:
        >>> loss = lambda params, x: jnp.sum(jnp.tanh(x @ params["w"] + params["b"]))
        >>> print(explain(loss, {"w": jnp.ones((3, 2)), "b": jnp.ones(2)}, jnp.ones(3)))
        parameter  shape  rule      norm  sum
        b          2      explicit     4    4
        w          3 x 2  product     24   12
        Sums over 1,024 examples: whole numbers, exact. Gradients are clipped to (1 - 3.8e-06) of the norm.
    """
    rows = [("parameter", "shape", "rule", "norm", "sum")]
    found = choices(loss, params, example, examples=examples)
    for choice in found:
        shape = " x ".join(map(str, choice.shape)) or "scalar"
        costs = (f"{choice.norm_cost:,}", f"{choice.sum_cost:,}")
        rows.append((choice.parameter or "(all)", shape, choice.rule, *costs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if place >= 3 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([*lines, *_on_unused(found), _on_rounding(found, examples)])


def _on_unused(found: list[Choice]) -> list[str]:
    unused = [choice.parameter for choice in found if choice.rule == "unused"]
    if not unused:
        return []
    return [f"No gradient reaches {in_words(unused)}: noise alone would move them. Close over them instead."]


def _with_key(loss: AnyLoss, example: ArrayTree) -> tuple[Callable[[Any, Any], Any], Any]:
    """A loss that takes a key, as training sees it: as a function of an example with its own key."""
    if key_use(loss) == "never" or isinstance(example, Keyed):
        return loss, example
    return of_keyed_example(loss), Keyed(example, jnp.zeros(2, jnp.uint32))


def _on_rounding(found: list[Choice], examples: int) -> str:
    grid, outer = grid_for(examples), [choice.parameter for choice in found if choice.rule == "outer"]
    start, margin = f"Sums over {examples:,} examples:", SLACK
    if not outer:
        how = "whole numbers, exact."
    else:
        margin += product_error(grid)
        named = ", ".join(outer[:3]) + (", ..." if len(outer) > 3 else "")
        how = f"whole numbers, exact, but for {named} (float32, in chunks of {chunk_of(grid)})."
    return f"{start} {how} Gradients are clipped to (1 - {margin:.1e}) of the norm."
