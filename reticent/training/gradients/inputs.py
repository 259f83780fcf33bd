"""What the gradient sum accepts, and what it says about the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr
from jax.extend.core.primitives import conv_general_dilated_p

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.training.clipping import paths_of
from reticent.training.gradients.tracing import Kind, every_equation, trace


def checked(
    loss: Callable[[Any, Any], Any], params: Any, batch: Any, is_real: jax.typing.ArrayLike
) -> tuple[Any, jax.Array]:
    """The batch and the mask as arrays.

    Raises:
        InvalidArgument: they do not fit together, or the loss has no gradient that can be clipped.
    """
    batch, is_real = jax.tree.map(jnp.asarray, batch), jnp.asarray(is_real)
    check_parameters(params)
    _check_rows(batch, is_real)
    check_loss(loss, params, row_of(batch))
    return batch, is_real


def row_of(batch: Any) -> Any:
    """The shapes of one row of a batch."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch)


def checked_norm(max_norm: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
    if not isinstance(max_norm, jax.Array):  # a traced bound cannot be looked at
        checks.positive(max_norm=max_norm)  # type: ignore[arg-type]
    return max_norm


def check_parameters(params: Any) -> None:
    for path, leaf in zip(paths_of(params), jax.tree.leaves(params), strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InvalidArgument(
                f"Parameter '{path}' holds {leaf.dtype}, which has no gradient.",
                remedy="Let the loss close over what is not trained, and pass floating-point leaves only.",
            )


def check_loss(loss: Callable[[Any, Any], Any], params: Any, row: Any) -> None:
    try:
        traced, found = jax.make_jaxpr(loss, return_shape=True)(params, row)
    except NameError as error:
        if "axis name" not in str(error):
            raise
        raise _joins_devices("a collective operation") from error
    if not isinstance(found, jax.ShapeDtypeStruct):
        raise InvalidArgument(
            f"The loss of one example must be one number, got {jax.tree.structure(found)}.",
            remedy="Return the loss alone, without anything beside it.",
        )
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InvalidArgument(
            f"The loss of one example must be one number, got {found.dtype} of shape {found.shape}.",
            remedy="Sum or average inside the loss; it is given one example, not a batch.",
        )
    _check_apart(loss, params, row, traced.jaxpr)
    if any(_convolutions(traced.jaxpr)):
        _check_convolutions(jax.make_jaxpr(jax.value_and_grad(loss))(params, row).jaxpr)


# What sees more than one example of a batch, whatever the loss is written for.
_MIXING = {
    "custom_vmap_call": "a function with a rule of its own for batches (custom_vmap)",
    "pure_callback": "a call of Python code (pure_callback)",
    "io_callback": "a call of Python code (io_callback)",
    "ffi_call": "a call of foreign code (ffi_call)",
}
_COLLECTIVE = re.compile("psum|pmax|pmin|ppermute|all_|reduce_scatter|axis_index|pgather|pbroadcast|pcast")


def _check_apart(loss: Callable[[Any, Any], Any], params: Any, row: Any, jaxpr: Jaxpr) -> None:
    """
    Raises:
        InvalidArgument: one example could move what another one adds, in a way that clipping does not see.
    """
    for equation in every_equation(jaxpr):
        name = equation.primitive.name
        if name in _MIXING:
            raise InvalidArgument(
                f"The loss contains {_MIXING[name]}. In a batch that may see other examples.",
                remedy="Write it in JAX, for one example; or compute it before training, as a column.",
            )
        if _COLLECTIVE.match(name) and any(isinstance(axis, str) for axis in _axes(equation.params)):
            raise _joins_devices(name)
        if name == "rng_uniform" or name == "rng_bit_generator" or any(map(_is_shared_key, equation.invars)):
            if _depends_on_example(loss, params, row):
                raise InvalidArgument(
                    "The loss makes random numbers from a key of the kind 'rbg'. In a batch such keys give "
                    "all examples the numbers of the first.",
                    remedy='Use a key of the default kind: jax.random.key(seed, impl="threefry2x32").',
                )
            return


def _axes(params: dict[str, Any]) -> tuple[Any, ...]:
    axes = params.get("axes", params.get("axis_name", ()))
    return tuple(axes) if isinstance(axes, tuple | list) else (axes,)


def _joins_devices(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"The loss contains '{what}', which joins what several devices or examples hold.",
        remedy="Leave it out: the loss is of one example, and sums over devices are made afterwards.",
    )


def _is_shared_key(atom: Any) -> bool:
    return "rbg" in str(getattr(atom.aval, "dtype", ""))


def _depends_on_example(loss: Callable[[Any, Any], Any], params: Any, row: Any) -> bool:
    """Whether random numbers of a kind that `vmap` shares are made from the example."""
    traced = trace(loss, params, row)
    for equation in traced.equations:
        if traced.kind_of_equation(equation) is not Kind.EXAMPLE:
            continue
        inner = [each for value in equation.params.values() for each in _programs(value)]
        for each in [equation, *(e for program in inner for e in every_equation(program))]:
            if each.primitive.name in ("rng_uniform", "rng_bit_generator") or any(
                map(_is_shared_key, each.invars)
            ):
                return True
    return False


def _programs(value: Any) -> list[Jaxpr]:
    parts = value if isinstance(value, tuple | list) else (value,)
    return [part for part in (getattr(part, "jaxpr", part) for part in parts) if isinstance(part, Jaxpr)]


def _check_convolutions(jaxpr: Jaxpr) -> None:
    """XLA:CPU reads beyond an image that is cropped at its start and padded at its end (openxla/xla#48713).

    There lies the next example of the batch, so that one example would move what another one adds.
    """
    for padding in _convolutions(jaxpr):
        if any(low < 0 < high for low, high in padding):
            raise InvalidArgument(
                f"A convolution of the loss, or of its gradient, has the padding {padding}: an axis that is "
                "cropped at its start (below 0) and padded at its end. Compiled for a CPU it reads the "
                "memory of other examples.",
                remedy="Crop the image by slicing it before the convolution, and pad it with 0 or more.",
            )


def _convolutions(jaxpr: Jaxpr) -> Iterator[tuple[tuple[int, int], ...]]:
    """The padding of every convolution."""
    for equation in every_equation(jaxpr):
        if equation.primitive is conv_general_dilated_p:
            yield tuple((int(low), int(high)) for low, high in equation.params["padding"])


def _check_rows(batch: Any, is_real: jax.Array) -> None:
    if is_real.ndim != 1 or is_real.dtype != jnp.bool_:
        raise InvalidArgument(
            f"is_real must be one boolean a row, got {is_real.dtype} of shape {is_real.shape}.",
            remedy="Pass jnp.ones(rows, bool) for a batch without padding.",
        )
    paths, leaves = paths_of(batch), jax.tree.leaves(batch)
    if not leaves:
        raise InvalidArgument("The batch holds no array.", remedy="Pass at least one array of examples.")
    for path, leaf in zip(paths, leaves, strict=True):
        if leaf.shape[:1] != is_real.shape:
            raise InvalidArgument(
                f"The batch has {is_real.shape[0]} rows in is_real and shape {leaf.shape} in '{path}'.",
                remedy="Give every array of the batch one row an example.",
            )
