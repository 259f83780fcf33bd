"""Sites: the equations where parameters meet an example.

Every derivative with respect to a parameter goes through one of them. So the gradient of one example
is known from what entered each site, and from the derivative of the loss with respect to what left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Literal, Var
from jax.extend.core.primitives import (
    broadcast_in_dim_p,
    convert_element_type_p,
    copy_p,
    name_p,
    reshape_p,
    rev_p,
    squeeze_p,
    transpose_p,
)

from reticent.training.gradients.tracing import Dependence, Trace, array_of, evaluate, is_inexact


@dataclass(frozen=True, eq=False)
class Site:
    """One equation with parameter-only (`weights`) and example-dependent (`saved`) values among its operands.

    Args:
        number: its place among the sites of the loss.
        weights: the operands with a gradient to find, by position.
        saved: the operands that differ between examples, by position.
        outputs: the results that carry a derivative, by position.
        tail: a later equation whose results are tapped instead, where a rule knows how to get from there
            to the weights, given the values `beside`.
        is_cut: a convolution that is done by patches, which are saved in place of the image.
    """

    number: int
    equation: JaxprEqn
    weights: tuple[int, ...]
    saved: tuple[int, ...]
    outputs: tuple[int, ...]
    tail: JaxprEqn | None = None
    beside: tuple[Any, ...] = ()
    is_cut: bool = False

    @property
    def tapped(self) -> JaxprEqn:
        return self.tail or self.equation

    def weight(self, position: int) -> Any:
        return self.equation.invars[position]

    def saved_variables(self) -> list[Any]:
        return [*(self.equation.invars[position] for position in self.saved), *self.beside]


@dataclass(frozen=True, eq=False)
class Way:
    """How a leaf that is used only once gets to its site: by steps that move entries and change none."""

    steps: tuple[JaxprEqn, ...]
    site: Site
    position: int

    def back(self, gradient: jax.Array, shape: Sequence[int]) -> jax.Array:
        """The gradient of the operand, as the gradient of the leaf."""
        # A cast is skipped: the gradient keeps its type all the way.
        for step in reversed(self.steps):
            if step.primitive is transpose_p:
                order = step.params["permutation"]
                gradient = gradient.transpose(sorted(range(len(order)), key=order.__getitem__))
            elif step.primitive is rev_p:
                gradient = jnp.flip(gradient, step.params["dimensions"])
            else:  # the others keep the order of the entries
                gradient = gradient.reshape(array_of(step.invars[0]).shape)
        return gradient.reshape(tuple(shape))


def find_sites(trace: Trace) -> tuple[Site, ...]:
    found = []
    for equation in trace.equations:
        kinds = [trace.kind(atom) for atom in equation.invars]
        if max(kinds, default=Dependence.CONSTANT) is not Dependence.EXAMPLE:
            continue
        atoms = enumerate(equation.invars)
        site = Site(
            number=len(found),
            equation=equation,
            weights=tuple(i for i, atom in atoms if kinds[i] is Dependence.PARAMETER and is_inexact(atom)),
            saved=tuple(i for i, kind in enumerate(kinds) if kind is Dependence.EXAMPLE),
            outputs=tuple(i for i, result in enumerate(equation.outvars) if is_inexact(result)),
        )
        if site.weights and site.outputs:
            found.append(site)
    return tuple(found)


def find_way(trace: Trace, sites: Sequence[Site], leaf: Var) -> Way | None:
    """The way of a leaf to its only site, if all its steps keep the length of a gradient."""
    site_of = {id(site.equation): site for site in sites}
    steps: list[JaxprEqn] = []
    variable = leaf
    while True:
        uses = uses_of(trace, variable)
        if len(uses) != 1:
            return None
        equation, position = uses[0]
        if id(equation) in site_of:
            return Way(tuple(steps), site_of[id(equation)], position)
        if not _only_moves_entries(equation):
            return None
        steps.append(equation)
        variable = equation.outvars[0]


def uses_of(trace: Trace, variable: Any) -> list[tuple[JaxprEqn, int]]:
    """Where a value is an operand: the equations, and its place in them."""
    return [(e, i) for e in trace.equations for i, atom in enumerate(e.invars) if atom is variable]


def used_leaves(trace: Trace, sites: Sequence[Site]) -> list[int]:
    """The leaves that reach a site, by position. The others have no gradient."""
    behind: dict[Var, set[int]] = {leaf: {i} for i, leaf in enumerate(trace.leaves)}
    for equation in trace.equations:
        if trace.kind_of_equation(equation) is Dependence.PARAMETER:
            atoms = [atom for atom in equation.invars if not isinstance(atom, Literal)]
            reached = set().union(*(behind.get(atom, set()) for atom in atoms))
            behind |= dict.fromkeys(equation.outvars, reached)
    return sorted(set().union(*(behind[site.weight(i)] for site in sites for i in site.weights)))


def operand_values(site: Site, known: Mapping[Var, Any], saved: Sequence[Any]) -> list[Any]:
    """All operands of a site, the example-dependent ones given."""
    values = [atom.val if isinstance(atom, Literal) else known.get(atom) for atom in site.equation.invars]
    for position, value in zip(site.saved, saved, strict=True):
        values[position] = value
    return values


def weight_gradients(site: Site, operands: Sequence[Any], cotangents: Sequence[jax.Array]) -> list[jax.Array]:
    """The universal rule: the derivative of this one equation, right for every primitive."""

    def results(weights: list[jax.Array]) -> list[jax.Array]:
        values = list(operands)
        for position, weight in zip(site.weights, weights, strict=True):
            values[position] = weight
        found = evaluate(site.equation, values)
        return [found[position] for position in site.outputs]

    _, pull = jax.vjp(results, [operands[position] for position in site.weights])
    return pull(list(cotangents))[0]


_MOVES = (reshape_p, transpose_p, squeeze_p, rev_p, copy_p, name_p)


def _only_moves_entries(equation: JaxprEqn) -> bool:
    if equation.primitive in _MOVES:
        return True
    before, after = array_of(equation.invars[0]), array_of(equation.outvars[0])
    if equation.primitive is broadcast_in_dim_p:
        return before.size == after.size
    return equation.primitive is convert_element_type_p and jnp.issubdtype(after.dtype, jnp.floating)
