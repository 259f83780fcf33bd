"""What the gradient sum accepts, and what it says about the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.training.clipping import paths_of
from reticent.training.gradients.apart import check_apart, joins_devices


def checked(
    loss: Callable[[Any, Any], Any], params: ArrayTree, batch: ArrayTree, is_real: jax.typing.ArrayLike
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


def row_of(batch: ArrayTree) -> Any:
    """The shapes of one row of a batch."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch)


def checked_norm(max_norm: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
    if not isinstance(max_norm, jax.Array):  # a traced bound cannot be looked at
        checks.positive(max_norm=max_norm)  # type: ignore[arg-type]
    return max_norm


def check_parameters(params: ArrayTree) -> None:
    for path, leaf in zip(paths_of(params), jax.tree.leaves(params), strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InvalidArgument(
                f"Parameter '{path}' holds {leaf.dtype}, which has no gradient.",
                remedy="Let the loss close over what is not trained, and pass floating-point leaves only.",
            )


def check_loss(loss: Callable[[Any, Any], Any], params: ArrayTree, row: ArrayTree) -> ClosedJaxpr:
    """Whether the loss is one number, and it and its gradient keep the examples of a batch apart.

    Returns the program of both.
    """
    traced, found = _program_of(loss, params, row)
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
    parameters = len(jax.tree.leaves(params))
    check_apart(traced.jaxpr, parameters)
    # Derivatives that a function brings along are seen only here.
    both, _ = _program_of(jax.value_and_grad(loss), params, row)
    check_apart(both.jaxpr, parameters)
    return both


def _program_of(
    function: Callable[[Any, Any], Any], params: ArrayTree, row: ArrayTree
) -> tuple[ClosedJaxpr, Any]:
    try:
        traced, found = jax.make_jaxpr(function, return_shape=True)(params, row)
    except NameError as error:
        if "axis name" not in str(error):
            raise
        raise joins_devices("a collective operation") from error
    return traced, found


def _check_rows(batch: ArrayTree, is_real: jax.Array) -> None:
    if is_real.ndim != 1 or is_real.dtype != jnp.bool_:
        raise InvalidArgument(
            f"is_real must be one boolean per row, got {is_real.dtype} of shape {is_real.shape}.",
            remedy="Pass jnp.ones(rows, bool) for a batch without padding.",
        )
    paths, leaves = paths_of(batch), jax.tree.leaves(batch)
    if not leaves:
        raise InvalidArgument("The batch holds no array.", remedy="Pass at least one array of examples.")
    for path, leaf in zip(paths, leaves, strict=True):
        if leaf.shape[:1] != is_real.shape:
            raise InvalidArgument(
                f"The batch has {is_real.shape[0]} rows in is_real and shape {leaf.shape} in '{path}'.",
                remedy="Give every array of the batch one row per example.",
            )
