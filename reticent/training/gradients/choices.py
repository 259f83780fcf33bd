"""Which rule finds the length of each parameter's gradient, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from reticent.training.clipping import paths_of
from reticent.training.gradients import bookkeeping, inputs
from reticent.training.gradients.tracing import trace


class Choice(NamedTuple):
    """What book-keeping does for one parameter. Costs are arithmetic operations an example."""

    parameter: str
    shape: tuple[int, ...]
    rule: str
    norm_cost: int
    sum_cost: int


def choices(loss: Callable[[Any, Any], Any], params: Any, example: Any) -> list[Choice]:
    """The rule of every parameter; `vmap` for all of them where book-keeping refuses the loss."""
    params, example = jax.tree.map(jnp.asarray, (params, example))
    inputs.check_parameters(params)
    inputs.check_loss(loss, params, example)
    traced = trace(loss, params, example)
    book = bookkeeping.keep_book(traced)
    found = []
    for position, (path, leaf) in enumerate(zip(paths_of(params), jax.tree.leaves(params), strict=True)):
        if traced.refusal:
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


def explain(loss: Callable[[Any, Any], Any], params: Any, example: Any) -> str:
    """A table of the rule that each parameter gets, and its cost in operations an example.

    The rules are described in `reticent.training.gradients.rules`. Those called `explicit`, `product`
    and `vmap` hold one gradient an example in memory; the others do not.

    Example:
        >>> loss = lambda params, x: jnp.sum(jnp.tanh(x @ params["w"] + params["b"]))
        >>> print(explain(loss, {"w": jnp.ones((3, 2)), "b": jnp.ones(2)}, jnp.ones(3)))
        parameter  shape  rule      norm  sum
        b          2      explicit     4    4
        w          3 x 2  outer       10   12
    """
    rows = [("parameter", "shape", "rule", "norm", "sum")]
    for choice in choices(loss, params, example):
        shape = " x ".join(map(str, choice.shape)) or "scalar"
        costs = (f"{choice.norm_cost:,}", f"{choice.sum_cost:,}")
        rows.append((choice.parameter or "(all)", shape, choice.rule, *costs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place >= 3 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
