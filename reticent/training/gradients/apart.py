"""What a loss may consist of, so that no example of a batch moves what another one adds.

A loss is written for one example, and `vmap` turns it into one for a batch, operation by operation. JAX's own
operations do to each example of a batch what they do to one. Others bring a rule of their own for batches,
and may do anything there: only what is known is let in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Primitive, Var, primitives
from jax.extend.core.primitives import conv_general_dilated_p

from reticent.core.errors import InvalidArgument
from reticent.training.gradients.tracing import body_of, every_equation, every_program

# JAX's own, beside those that `jax.extend.core.primitives` lists.
_ALSO_KNOWN = frozenset({
    "debug_callback", "debug_print", "empty", "from_edtype", "geqp3", "geqrf", "layout_constraint",
    "lu_pivots_to_permutation", "mulhi", "optimization_barrier", "ormqr", "platform_index",
    "random_clone", "random_unwrap", "random_wrap", "reshard", "scatter-sub", "split", "stack",
    "symmetric_product", "tie", "tile", "to_edtype", "unstack", "zeros_like",
})  # fmt: skip
# References: what one example writes into them, another may read.
_STATE = frozenset({"get", "swap"})
_FOREIGN = {
    "custom_vmap_call": "a function with a rule of its own for batches (custom_vmap)",
    "pure_callback": "a call of Python code (pure_callback)",
    "io_callback": "a call of Python code (io_callback)",
    "ffi_call": "a call of foreign code (ffi_call)",
    "pallas_call": "a kernel of its own (pallas_call)",
}
_COLLECTIVE = re.compile(
    "psum|pmax|pmin|ppermute|(ragged_)?all_|reduce_scatter|axis_index|pgather|pbroadcast|pcast|pvary"
)
_DRAWS_ALIKE = frozenset({"rng_uniform", "rng_bit_generator"})


def check_apart(program: Jaxpr, parameters: int) -> None:
    """Looks at a loss, or at its gradient.

    Args:
        parameters: how many of the program's inputs are the same for every example; the others are the
            example.

    Raises:
        InvalidArgument: one example could move what another one adds, in a way that clipping does not see.
    """
    for equation in every_equation(program):
        _check_operation(equation)
    _check_keys(program, [place >= parameters for place in range(len(program.invars))])
    _check_convolutions(program)


def joins_devices(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"The loss contains '{what}', which joins what several devices or examples hold.",
        remedy="Leave it out: the loss is of one example, and sums over devices are made afterwards.",
    )


def _check_operation(equation: JaxprEqn) -> None:
    name = equation.primitive.name
    if _COLLECTIVE.match(name):
        if not all(isinstance(axis, int) for axis in _axes(equation.params)):
            raise joins_devices(name)
    elif name in _FOREIGN:
        raise InvalidArgument(
            f"The loss contains {_FOREIGN[name]}. In a batch that may see other examples.",
            remedy="Write it in JAX, for one example; or compute it before training, as a column.",
        )
    elif equation.primitive not in _known_primitives():
        raise InvalidArgument(
            f"The loss contains the operation '{name}', which is not known to keep the examples of a batch "
            "apart.",
            remedy="Write it with functions of jax.numpy, jax.lax, jax.nn or jax.scipy, for one example; or "
            "compute it before training, as a column.",
        )


@cache
def _known_primitives() -> frozenset[Primitive]:
    """The known operations, compared by identity: another operation could have the same name."""
    listed = {item for item in vars(primitives).values() if isinstance(item, Primitive)}
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "jax"]
    more = {
        item
        for module in modules
        for item in list(vars(module).values())
        if isinstance(item, Primitive) and item.name in _ALSO_KNOWN
    }
    return frozenset(item for item in listed | more if item.name not in _STATE)


def _axes(params: dict[str, Any]) -> tuple[Any, ...]:
    """What a collective operation goes over: numbers are axes of one example, names are not."""
    axes = params.get("axes", params.get("axis_name"))
    return tuple(axes) if isinstance(axes, tuple | list) else (axes,)


def _check_keys(program: Jaxpr, is_of_example: Sequence[bool]) -> list[bool]:
    """Which results depend on the example, if no key that `vmap` shares among examples does.

    What is drawn from such a key is the same for all examples, or a function of the first one's key.
    """
    depends: dict[Var, bool] = dict(zip(program.invars, is_of_example, strict=True))

    def look_up(atom: Any) -> bool:
        return not isinstance(atom, Literal) and depends.get(atom, False)

    for equation in program.eqns:
        operands = [look_up(atom) for atom in equation.invars]
        body = body_of(equation)
        if body is not None:
            results = _check_keys(body, operands)
        else:
            results = [any(operands)] * len(equation.outvars)
            inner = [each for program in every_program(equation) for each in every_equation(program)]
            for each in [equation, *inner] if any(operands) else ():
                _check_draw(each)
        depends |= zip(equation.outvars, results, strict=True)
    return [look_up(atom) for atom in program.outvars]


def _check_draw(equation: JaxprEqn) -> None:
    kinds = [getattr(atom.aval, "dtype", None) for atom in equation.invars]
    keys = [kind for kind in kinds if kind is not None and jnp.issubdtype(kind, jax.dtypes.prng_key)]
    if equation.primitive.name in _DRAWS_ALIKE or any(kind != _usual_key() for kind in keys):
        raise InvalidArgument(
            "The loss makes random numbers, from the example, with a key of another kind than threefry2x32, "
            "as 'rbg'. In a batch such keys may give all examples the numbers of the first.",
            remedy='Use a key of the default kind: jax.random.key(seed, impl="threefry2x32").',
        )


@cache
def _usual_key() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32")).dtype


def _check_convolutions(program: Jaxpr) -> None:
    """XLA:CPU reads beyond an image that is cropped at its start and padded at its end (openxla/xla#48713).

    There lies the next example of the batch, so that one example would move what another one adds.
    """
    for padding in _convolutions(program):
        if any(low < 0 < high for low, high in padding):
            raise InvalidArgument(
                f"A convolution of the loss, or of its gradient, has the padding {padding}: an axis that is "
                "cropped at its start (below 0) and padded at its end. Compiled for a CPU it reads the "
                "memory of other examples.",
                remedy="Crop the image by slicing it before the convolution, and pad it with 0 or more.",
            )


def _convolutions(program: Jaxpr) -> Iterator[tuple[tuple[int, int], ...]]:
    """The padding of every convolution."""
    for equation in every_equation(program):
        if equation.primitive is conv_general_dilated_p:
            yield tuple((int(low), int(high)) for low, high in equation.params["padding"])
