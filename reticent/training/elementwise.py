"""Whether an optimizer treats every number by itself, so that parts of parameters can be updated apart."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from reticent.core.errors import InvalidArgument

# Leaves to try an optimizer on, which are never made: no two dimensions are alike, and the smallest of the
# matrix is beyond any at which an optimizer begins to keep rows and columns instead of the whole.
_LEAVES = ((4096,), (3072, 2048), (1024, 5, 3, 7))
_LARGE = 512  # numbers; what is smaller than a half of any leaf belongs to a schedule
_BY_PLACE = re.compile("sort|cum|rev|iota|random|threefry|rng|scatter|gather|slice|window|fft|callback|ffi")


def require_elementwise(optimizer: optax.GradientTransformation) -> None:
    """Reads what an optimizer computes, without computing it: no example of values could show all of it.

    Raises:
        InvalidArgument: an update of one parameter depends on others, so parts cannot be updated apart.
    """
    whole, half = (
        _operations(_update(optimizer, shapes))
        for shapes in (_LEAVES, [(first // 2, *rest) for first, *rest in _LEAVES])
    )
    if whole is None or whole != half:
        raise InvalidArgument(
            "This optimizer looks at several parameters at once, and divided parameters are updated apart.",
            remedy="Take one that treats each number by itself (sgd, momentum, adam), or do not divide.",
        )


def _update(optimizer: optax.GradientTransformation, shapes: Any) -> Any:
    params = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    state = jax.eval_shape(optimizer.init, params)
    return jax.make_jaxpr(optimizer.update)(params, state, params).jaxpr


def _operations(program: Any) -> list[tuple[str, ...]] | None:
    """The operations of a program and the numbers written in it; None if one joins numbers of a leaf."""
    found: list[tuple[str, ...]] = []
    for equation in program.eqns:
        inner = [part for value in equation.params.values() for part in _programs(value)]
        given, made = _large(equation.invars), _large(equation.outvars)
        if inner:
            within = [_operations(part) for part in inner]
            # A loop over the rows of a leaf hands what it found in one of them to the next.
            if None in within or not given <= _large(v for part in inner for v in part.invars):
                return None
            found += [operation for part in within for operation in part or ()]
        elif (given or made) and _joins(equation):
            return None
        else:
            numbers = (str(v.val) for v in equation.invars if hasattr(v, "val"))
            found.append((equation.primitive.name, *numbers))
    return found


def _joins(equation: Any) -> bool:
    """Whether a number that comes out may depend on more than the numbers in its own place."""
    given, made = ([v.aval.shape for v in each] for each in (equation.invars, equation.outvars))
    arrays = {shape for shape in given if math.prod(shape) > 1}
    is_by_place = _BY_PLACE.search(equation.primitive.name) is not None
    return is_by_place or len(arrays | set(made)) > 1


def _large(variables: Iterable[Any]) -> set[tuple[int, ...]]:
    return {v.aval.shape for v in variables if math.prod(v.aval.shape) >= _LARGE}


def _programs(value: Any) -> list[Any]:
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part for part in (getattr(part, "jaxpr", part) for part in parts) if hasattr(part, "eqns")]
