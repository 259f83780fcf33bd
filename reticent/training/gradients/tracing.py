"""The loss of one example as a flat list of equations, each value sorted by what it depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.extend.core.primitives import call_p, closed_call_p, jit_p, remat_p

from reticent.core.trees import ArrayTree


class Dependence(IntEnum):
    """What a value depends on. The larger kind wins where two meet."""

    CONSTANT = 0
    PARAMETER = 1  # on parameters and constants alone: the same for every example
    EXAMPLE = 2


@dataclass(frozen=True, eq=False)
class Trace:
    """The equations that the loss needs, in order, without calls of other lists of equations.

    Args:
        leaves: one variable for each leaf of the parameters.
        inputs: one variable for each leaf of the example.
        refusal: why book-keeping cannot be applied to this loss, empty if it can.
    """

    equations: tuple[JaxprEqn, ...]
    constants: Mapping[Var, Any]
    leaves: tuple[Var, ...]
    inputs: tuple[Var, ...]
    output: Any
    kinds: Mapping[Var, Dependence]
    refusal: str

    def kind(self, atom: Any) -> Dependence:
        return Dependence.CONSTANT if isinstance(atom, Literal) else self.kinds[atom]

    def kind_of_equation(self, equation: JaxprEqn) -> Dependence:
        return max((self.kind(atom) for atom in equation.invars), default=Dependence.CONSTANT)


def trace(loss: Callable[[Any, Any], Any], params: ArrayTree, example: ArrayTree) -> Trace:
    """Traces the loss once, on shapes alone, and sorts its values."""
    arguments = jax.tree.map(_shape_of, (params, example))
    closed = jax.make_jaxpr(loss)(*arguments)
    flat = jax.make_jaxpr(lambda *values: _run_inlined(closed.jaxpr, closed.consts, values))(
        *jax.tree.leaves(arguments)
    )
    jaxpr = flat.jaxpr
    leaf_count = len(jax.tree.leaves(params))
    kinds = dict.fromkeys(jaxpr.constvars, Dependence.CONSTANT)
    kinds |= dict.fromkeys(jaxpr.invars[:leaf_count], Dependence.PARAMETER)
    kinds |= dict.fromkeys(jaxpr.invars[leaf_count:], Dependence.EXAMPLE)
    result = Trace(
        equations=tuple(_live(jaxpr)),
        constants=dict(zip(jaxpr.constvars, flat.consts, strict=True)),
        leaves=tuple(jaxpr.invars[:leaf_count]),
        inputs=tuple(jaxpr.invars[leaf_count:]),
        output=jaxpr.outvars[0],
        kinds=kinds,
        refusal="",
    )
    for equation in result.equations:
        kinds |= dict.fromkeys(equation.outvars, result.kind_of_equation(equation))
    refusal = _refusal(jaxpr, result.kind(result.output))
    return Trace(**{**vars(result), "refusal": refusal})


def evaluate(equation: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """The results of one equation, on traced or concrete values."""
    pairs = zip(equation.invars, values, strict=True)
    operands = {atom: value for atom, value in pairs if not isinstance(atom, Literal)}
    return run([equation], list(operands), equation.outvars, list(operands.values()))


def run(
    equations: Sequence[JaxprEqn], variables: Sequence[Var], wanted: Sequence[Any], values: Sequence[Any]
) -> list[Any]:
    """Evaluates equations from the values of the variables they start from."""
    effects = frozenset().union(*(equation.effects for equation in equations))
    jaxpr = Jaxpr((), tuple(variables), tuple(wanted), tuple(equations), effects, _UNNAMED)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))(*values)


def every_equation(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The equations of a list and of all lists inside it: of calls, loops and branches."""
    for equation in jaxpr.eqns:
        yield equation
        for program in every_program(equation):
            yield from every_equation(program)


def every_program(equation: JaxprEqn) -> list[Jaxpr]:
    """The lists of equations that an equation is made of: the body of a call or loop, the branches."""
    values = [
        inner
        for value in equation.params.values()
        for inner in (value if isinstance(value, tuple | list) else (value,))
    ]
    values = [inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner for inner in values]
    return [inner for inner in values if isinstance(inner, Jaxpr)]


def body_of(equation: JaxprEqn) -> Jaxpr | None:
    """The equations of a plain call, one input for each operand, or None where it is something else."""
    body = equation.params.get(_BODIES.get(equation.primitive, ""))
    return body.jaxpr if isinstance(body, ClosedJaxpr) else body


def array_of(atom: Any) -> jax.ShapeDtypeStruct:
    """The shape and type of what stands for a value in an equation."""
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)


def is_inexact(atom: Any) -> bool:
    """Whether a value carries a derivative: real or complex."""
    return jnp.issubdtype(atom.aval.dtype, jnp.inexact)


_UNNAMED = DebugInfo("reticent", "part of a loss", None, None)

# Calls whose body is only a list of equations. Calls with a derivative of their own stay whole, or it
# would be lost; loops and branches stay whole because they are more than a list.
_BODIES: dict[Any, str] = {
    jit_p: "jaxpr",
    remat_p: "jaxpr",
    closed_call_p: "call_jaxpr",
    call_p: "call_jaxpr",
}


def _run_inlined(jaxpr: Jaxpr, constants: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    known: dict[Var, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
    known |= zip(jaxpr.invars, values, strict=True)

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        body = equation.params.get(_BODIES.get(equation.primitive, ""))
        if body is None:
            results = evaluate(equation, operands)
        elif isinstance(body, ClosedJaxpr):
            results = _run_inlined(body.jaxpr, body.consts, operands)
        else:
            results = _run_inlined(body, (), operands)
        known |= zip(equation.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _live(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """The equations that the result depends on."""
    needed = set(jaxpr.outvars[:1]) if not isinstance(jaxpr.outvars[0], Literal) else set()
    live = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            live.append(equation)
            needed.update(atom for atom in equation.invars if not isinstance(atom, Literal))
    return live[::-1]


def _refusal(jaxpr: Jaxpr, output: Dependence) -> str:
    if jaxpr.effects:
        return f"it has side effects ({', '.join(map(str, jaxpr.effects))})"
    if output is not Dependence.EXAMPLE:
        return "its value does not depend on the example"
    # Book-keeping takes derivatives of other inputs than `grad` does, whose program was looked at.
    if any(equation.params.get("symbolic_zeros") for equation in every_equation(jaxpr)):
        return "a function in it has a derivative that asks which of its inputs vary (symbolic_zeros)"
    return ""


def _shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf))
