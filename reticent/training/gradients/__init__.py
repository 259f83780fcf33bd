"""The sum of the clipped gradients of a batch, from a plain loss of one example.

    gradient_sum = clipped_gradient_sum(loss, max_norm=1.0)      # loss(params, example) -> scalar
    total, unreleased = gradient_sum(params, batch, is_real)

Two strategies, the same sum: `vmap` forms the gradient of every example; `book-keeping` finds its length
and the sum without forming it wherever it can (`explain` says where).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, get_args

import jax
import jax.numpy as jnp

from reticent.core import checks, trees
from reticent.core.errors import InvalidArgument
from reticent.training.clipping import Clipping, flat, paths_of
from reticent.training.gradients import bookkeeping, inputs, vmapped
from reticent.training.gradients.choices import explain as explain
from reticent.training.gradients.tracing import trace

Strategy = Literal["auto", "vmap", "book-keeping"]
Loss = Callable[[Any, Any], jax.Array]


class Unreleased(NamedTuple):
    """What is known about each example of a batch, and private: to be shown only when asked for.

    Padding has norm and loss 0.
    """

    norms: jax.Array
    losses: jax.Array


class GradientSum(Protocol):
    """Sums the clipped gradients of a batch; see `clipped_gradient_sum`."""

    def __call__(
        self, params: Any, batch: Any, is_real: jax.Array, *, max_norm: jax.typing.ArrayLike | None = None
    ) -> tuple[Any, Unreleased]: ...


def clipped_gradient_sum(
    loss: Loss,
    *,
    max_norm: float | None = None,
    clipping: Clipping | None = None,
    strategy: Strategy = "auto",
    microbatch: int | None = None,
) -> GradientSum:
    """Makes the function that sums the clipped gradients of a batch.

    Args:
        loss: of the parameters and one example, a scalar. It sees one example, so it cannot mix them.
        max_norm: the bound of flat clipping, or `clipping` for another kind.
        strategy: `auto` is book-keeping, or vmap for a loss that book-keeping has to refuse.
        microbatch: how many examples are in memory at once; the sum is the same up to rounding.

    Returns:
        A function of the parameters, a batch (a tree of arrays with one row an example) and the mask of the
        rows that are no padding. It returns the sum, a tree like the parameters in float32, and what is
        not to be released. Its own `max_norm` replaces the bound for one call, and may be traced.

    Guarantee:
        One example moves the sum by at most `clipping.sensitivity` in L2 norm, up to rounding (one
        part in 100,000), whatever it holds: if its gradient is not finite, it moves it by nothing, as
        padding does. With book-keeping the same holds for a gradient longer than 1e19.

    Raises:
        InvalidArgument: a bound that is not positive, parameters without a gradient, a loss that is
            not scalar, a batch whose arrays disagree on the number of rows.

    Example:
        >>> loss = lambda w, example: 0.5 * (w - example) ** 2
        >>> rows, is_real = jnp.array([0.0, 5.0, 7.0]), jnp.array([True, True, False])
        >>> total, _ = clipped_gradient_sum(loss, max_norm=2.0)(jnp.float32(1.0), rows, is_real)
        >>> float(total)  # 1 from the first, -4 cut to -2 from the second, nothing from padding
        -1.0
    """
    clipping = _one_clipping(max_norm, clipping)
    checks.one_of(get_args(Strategy), strategy=strategy)
    if microbatch is not None:
        checks.count(microbatch=microbatch)

    def gradient_sum(
        params: Any, batch: Any, is_real: jax.Array, *, max_norm: jax.typing.ArrayLike | None = None
    ) -> tuple[Any, Unreleased]:
        params = jax.tree.map(jnp.asarray, params)
        batch, is_real = inputs.checked(loss, params, batch, is_real)
        stretch = 1.0 if max_norm is None else inputs.checked_norm(max_norm) / clipping.sensitivity
        sum_rows = _row_sum(loss, clipping, strategy, params, inputs.row_of(batch))
        rows = is_real.shape[0]
        if microbatch is None or microbatch >= rows:
            return sum_rows(params, batch, is_real, stretch)
        return _in_chunks(sum_rows, microbatch, params, batch, is_real, stretch)

    return gradient_sum


def _one_clipping(max_norm: float | None, clipping: Clipping | None) -> Clipping:
    if (max_norm is None) == (clipping is None):
        raise InvalidArgument(
            f"Exactly one of max_norm and clipping is needed, got {max_norm} and {clipping}.",
            remedy="Pass for example max_norm=1.0, or clipping=automatic().",
        )
    return clipping or flat(max_norm)  # type: ignore[arg-type]  # one of the two is there


def _row_sum(loss: Loss, clipping: Clipping, strategy: Strategy, params: Any, row: Any) -> Callable[..., Any]:
    """The sum over the rows of one chunk, by the strategy that fits the loss."""
    if strategy == "vmap":
        return partial(_by_vmap, loss, clipping)
    traced = trace(loss, params, row)
    if not traced.refusal:
        return partial(_by_book, bookkeeping.keep_book(traced), clipping)
    if strategy == "auto":
        return partial(_by_vmap, loss, clipping)
    raise InvalidArgument(
        f"Book-keeping cannot be applied to this loss: {traced.refusal}.",
        remedy="Use strategy='auto', which falls back to vmap.",
    )


def _by_vmap(
    loss: Loss, clipping: Clipping, params: Any, batch: Any, is_real: jax.Array, stretch: jax.typing.ArrayLike
) -> tuple[Any, Unreleased]:
    clip = partial(clipping.clip, stretch=stretch)
    total, norms, losses = vmapped.clipped_sum(loss, params, batch, is_real, clip)
    return total, _unreleased(norms, losses, is_real)


def _by_book(
    book: bookkeeping.Book,
    clipping: Clipping,
    params: Any,
    batch: Any,
    is_real: jax.Array,
    stretch: jax.typing.ArrayLike,
) -> tuple[Any, Unreleased]:
    layers = clipping.layers(paths_of(params))

    def factors(squares: list[jax.Array]) -> list[jax.Array]:
        by_leaf = list(squares)
        for layer in layers:
            norm = jnp.sqrt(sum((squares[leaf] for leaf in layer.leaves), jnp.float32(0)))
            for leaf in layer.leaves:
                by_leaf[leaf] = clipping.factor(norm, layer.max_norm * stretch)
        return by_leaf

    leaves, structure = jax.tree.flatten(params)
    total, norms, losses = bookkeeping.clipped_sum(book, leaves, jax.tree.leaves(batch), is_real, factors)
    return jax.tree.unflatten(structure, total), _unreleased(norms, losses, is_real)


def _in_chunks(
    sum_rows: Callable[..., Any],
    microbatch: int,
    params: Any,
    batch: Any,
    is_real: jax.Array,
    stretch: jax.typing.ArrayLike,
) -> tuple[Any, Unreleased]:
    """The same sum, a chunk of rows after the other; the last chunk is filled up with padding."""
    rows = is_real.shape[0]
    missing = -rows % microbatch

    def chunked(leaf: jax.Array) -> jax.Array:
        filled = jnp.concatenate([leaf, jnp.zeros((missing, *leaf.shape[1:]), leaf.dtype)])
        return filled.reshape(-1, microbatch, *leaf.shape[1:])

    def add_chunk(total: Any, chunk: tuple[Any, jax.Array]) -> tuple[Any, Unreleased]:
        found, unreleased = sum_rows(params, *chunk, stretch)
        return trees.add(total, found), unreleased

    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), params)
    total, unreleased = jax.lax.scan(add_chunk, start, jax.tree.map(chunked, (batch, is_real)))
    return total, jax.tree.map(lambda leaf: leaf.reshape(-1)[:rows], unreleased)


def _unreleased(norms: jax.Array, losses: jax.Array, is_real: jax.Array) -> Unreleased:
    return Unreleased(*(jnp.where(is_real, found.astype(jnp.float32), 0) for found in (norms, losses)))
