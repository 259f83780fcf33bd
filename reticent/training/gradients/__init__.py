"""The sum of the clipped gradients of a batch, from a plain loss of one example.

    gradient_sum = clipped_gradient_sum(loss, max_norm=1.0)      # loss(params, example) -> scalar
    total, unreleased = gradient_sum(params, batch, is_real)

Two strategies, the same sum: `vmap` forms the gradient of every example; `book-keeping` finds its length
and the sum without forming it wherever it can (`explain` says where).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from reticent.core import checks, trees
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.training.clipping import Clipping, flat, paths_of
from reticent.training.gradients import inputs, vmapped
from reticent.training.gradients.bookkeeping import Book, clipped_sum
from reticent.training.gradients.choices import book_for
from reticent.training.gradients.choices import explain as explain
from reticent.training.gradients.totals import (
    LEAST_SCALE,
    ROUNDING,
    SLACK,
    Grid,
    grid_for,
    product_error,
    terms_rounding,
)
from reticent.training.gradients.tracing import trace

Strategy = Literal["auto", "vmap", "book-keeping"]
LossFunction = Callable[[Any, Any], jax.Array]


class UnreleasedExamples(NamedTuple):
    """What is known about each example of a batch, and private: to be shown only when asked for.

    Padding has norm and loss 0.
    """

    norms: Float[Array, " examples"]
    losses: Float[Array, " examples"]


@dataclass(frozen=True)
class GradientSum:
    """Sums the clipped gradients of a batch; made by `clipped_gradient_sum`.

    Example:
        >>> from reticent.training.clipping import flat
        >>> summed = clipped_gradient_sum(lambda w, x: w * x, clipping=flat(1.0))
        >>> total, unreleased = summed(jnp.float32(0.0), jnp.array([0.5, 30.0]), jnp.ones(2, bool))
        >>> round(float(total), 2), unreleased.norms.round().tolist()
        (1.5, [1.0, 30.0])
    """

    loss: LossFunction
    clipping: Clipping
    strategy: Strategy
    microbatch: int | None

    def __call__(
        self,
        params: ArrayTree,
        batch: ArrayTree,
        is_real: Bool[Array, " examples"],
        *,
        max_norm: jax.typing.ArrayLike | None = None,
    ) -> tuple[Any, UnreleasedExamples]:
        """The sum in float32, a tree like the parameters, and what is not to be released."""
        rows = jnp.shape(is_real)[0]
        # Three more roundings in each of two neighbours: to a float, times the step, and times the step of
        # the grid that noise is added on.
        at_once = min(self.microbatch or rows, rows)
        grid = grid_for(rows, additions=-(-rows // max(at_once, 1)), rows=max(at_once, 1))
        total, unreleased = self.on_grid(
            params, batch, is_real, grid, max_norm=max_norm, margin=6 * rows * ROUNDING
        )
        norm = self.clipping.sensitivity if max_norm is None else max_norm
        step = norm / grid.steps
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32) * step, total), unreleased

    def on_grid(
        self,
        params: ArrayTree,
        batch: ArrayTree,
        is_real: Bool[Array, " examples"],
        grid: Grid,
        *,
        max_norm: jax.typing.ArrayLike | None = None,
        margin: jax.typing.ArrayLike = 0.0,
    ) -> tuple[Any, UnreleasedExamples]:
        """The sum in steps of a grid: whole numbers, or float32 where the rule `outer` adds up.

        Args:
            grid: says how many examples are in all the sums that will be added to this one, and in each.
            margin: the share of the clipping norm that is left for what comes after. It and the steps of
                the grid may be traced; then nothing is summed where rounding would take half of the norm.

        Guarantee:
            The sums of two neighbours differ by at most (1 - margin) `grid.steps`, in L2 norm, times the
            reach of the adjacency, as computed: every rounding on the way is within the bound.
        """
        params = jax.tree.map(jnp.asarray, params)
        batch, is_real = inputs.checked(self.loss, params, batch, is_real)
        norm = self.clipping.sensitivity if max_norm is None else inputs.checked_norm(max_norm)
        rows = is_real.shape[0]
        if min(self.microbatch or rows, rows) > grid.largest_block:
            raise AssertionError(f"a block of {rows} rows on a grid for {grid.largest_block}")
        if not rows:
            nobody = jnp.zeros(0, jnp.float32)
            return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), params), UnreleasedExamples(
                nobody, nobody
            )
        sum_rows = self._row_sum(params, batch, grid, _steps_per_unit(grid, norm), margin)
        if self.microbatch is None or self.microbatch >= rows:
            return sum_rows(batch, is_real)
        return _in_chunks(sum_rows, self.microbatch, batch, is_real)

    def _row_sum(
        self,
        params: ArrayTree,
        batch: ArrayTree,
        grid: Grid,
        steps_per_unit: jax.typing.ArrayLike,
        margin: Any,
    ) -> Callable[[Any, jax.Array], tuple[Any, UnreleasedExamples]]:
        """The sum over the rows of one chunk, by the strategy that fits the loss."""
        book = self._book(params, inputs.row_of(batch), grid)
        leaves, structure = jax.tree.flatten(params)
        layers = self.clipping.layers(paths_of(params))
        left = margin + (SLACK if book is None else margin_of(book, grid))
        if not isinstance(left, Tracer) and not left <= 0.5:
            raise InvalidArgument(
                f"Rounding would take {left:.0%} of the clipping norm: noise is so large beside it, or "
                "the parameters are so many, that the grid is too coarse.",
                remedy="Take fewer steps, which need less noise, or train fewer parameters.",
            )

        def scales(squares: list[jax.Array]) -> list[jax.Array]:
            by_leaf = list(squares)
            for layer in layers:
                norm = jnp.sqrt(sum((squares[leaf] for leaf in layer.leaves), jnp.float32(0)))
                norm *= 1 + terms_rounding(len(layer.leaves) + 2)
                # In steps: the clipping norm may be tiny, what it is in steps is not.
                bound = grid.steps * (1 - left) * (layer.max_norm / self.clipping.sensitivity)
                if isinstance(left, Tracer):
                    bound = jnp.where(left <= 0.5, bound, 0.0)
                scale = self.clipping.factor(norm, bound, at_most=steps_per_unit).astype(jnp.float32)
                counts = jnp.isfinite(scale) & (scale >= LEAST_SCALE)
                for leaf in layer.leaves:
                    by_leaf[leaf] = jnp.where(counts, scale, 0)
            return by_leaf

        def sum_rows(batch: ArrayTree, is_real: jax.Array) -> tuple[Any, UnreleasedExamples]:
            if book is None:
                total, norms, losses = vmapped.clipped_sum(self.loss, params, batch, is_real, scales)
            else:
                rows = jax.tree.leaves(batch)
                total, norms, losses = clipped_sum(book, leaves, rows, is_real, scales, grid)
            return jax.tree.unflatten(structure, total), _unreleased(norms, losses, is_real)

        return sum_rows

    def _book(self, params: ArrayTree, row: ArrayTree, grid: Grid) -> Book | None:
        """What book-keeping does, or None where the gradients are formed one by one."""
        if self.strategy == "vmap":
            return None
        traced = trace(self.loss, params, row)
        if not traced.refusal:
            return book_for(traced, grid)
        if self.strategy == "auto":
            return None
        raise InvalidArgument(
            f"Book-keeping cannot be applied to this loss: {traced.refusal}.",
            remedy="Use strategy='auto', which falls back to vmap.",
        )


def _steps_per_unit(grid: Grid, norm: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
    """What a short gradient is multiplied by. No length is below 2^-40: more than 2^100 is never needed."""
    if isinstance(norm, jax.Array):
        return grid.steps / norm
    return min(grid.steps / float(norm), 2.0**100)  # type: ignore[arg-type]  # found to be a number


def margin_of(book: Book, grid: Grid) -> float:
    """The share of the clipping norm that rounding may take, the same for all blocks of a sum."""
    adds_products = any(fast.rule.name == "outer" for fast in book.fast.values())
    return SLACK + (product_error(grid) if adds_products else 0.0)


def clipped_gradient_sum(
    loss: LossFunction,
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
        A function of the parameters, a batch (a tree of arrays with one row per example) and the mask of the
        rows that are not padding. It returns the sum, a tree like the parameters in float32, and what is
        not to be released. Its own `max_norm` replaces the bound for one call, and may be traced.

    | edge | what happens |
    |---|---|
    | `max_norm` of 0, infinity or NaN | InvalidArgument |
    | a batch without rows, or of padding alone | a sum of zeros |
    | a gradient of zeros | adds zeros |
    | a gradient with NaN or infinity, or longer than 1e19 | adds nothing, as padding does |

    Guarantee:
        One example moves the computed sum by at most `clipping.sensitivity` in L2 norm, whatever it holds:
        every rounding on the way is taken off the bound before (`explain` says how much that is). If its
        gradient is not finite, or longer than 1e19, it moves the sum by nothing, as padding does.

    Raises:
        InvalidArgument: a bound that is not positive, parameters without a gradient, a loss that is
            not scalar, a batch whose arrays disagree on the number of rows.

    Example:
        >>> loss = lambda w, example: 0.5 * (w - example) ** 2
        >>> rows, is_real = jnp.array([0.0, 5.0, 7.0]), jnp.array([True, True, False])
        >>> total, _ = clipped_gradient_sum(loss, max_norm=2.0)(jnp.float32(1.0), rows, is_real)
        >>> round(float(total), 3)  # 1 from the first, -4 cut to -2 from the second, nothing from padding
        -1.0
    """
    clipping = _one_clipping(max_norm, clipping)
    require_strategy(strategy)
    if microbatch is not None:
        checks.count(microbatch=microbatch)
    return GradientSum(loss, clipping, strategy, microbatch)


def require_strategy(strategy: str) -> None:
    """
    Raises:
        InvalidArgument: there is no such strategy.
    """
    checks.one_of(get_args(Strategy), strategy=strategy)


def _one_clipping(max_norm: float | None, clipping: Clipping | None) -> Clipping:
    if (max_norm is None) == (clipping is None):
        raise InvalidArgument(
            f"Exactly one of max_norm and clipping is needed, got {max_norm} and {clipping}.",
            remedy="Pass for example max_norm=1.0, or clipping=automatic().",
        )
    return clipping or flat(max_norm)  # type: ignore[arg-type]  # one of the two is there


def _in_chunks(
    sum_rows: Callable[[Any, jax.Array], tuple[Any, UnreleasedExamples]],
    microbatch: int,
    batch: ArrayTree,
    is_real: jax.Array,
) -> tuple[Any, UnreleasedExamples]:
    """The same sum, a chunk of rows after the other; the last chunk is filled up with padding."""
    rows = is_real.shape[0]
    missing = -rows % microbatch

    def chunked(leaf: jax.Array) -> jax.Array:
        filled = jnp.concatenate([leaf, jnp.zeros((missing, *leaf.shape[1:]), leaf.dtype)])
        return filled.reshape(-1, microbatch, *leaf.shape[1:])

    def add_chunk(total: ArrayTree, chunk: tuple[Any, jax.Array]) -> tuple[Any, UnreleasedExamples]:
        found, unreleased = sum_rows(*chunk)
        return trees.add(total, found), unreleased

    chunks = jax.tree.map(chunked, (batch, is_real))
    shapes, _ = jax.eval_shape(sum_rows, *jax.tree.map(lambda leaf: leaf[0], chunks))
    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, unreleased = jax.lax.scan(add_chunk, start, chunks)
    return total, jax.tree.map(lambda leaf: leaf.reshape(-1)[:rows], unreleased)


def _unreleased(
    norms: Float[Array, " examples"], losses: Float[Array, " examples"], is_real: Bool[Array, " examples"]
) -> UnreleasedExamples:
    return UnreleasedExamples(
        *(jnp.where(is_real, found.astype(jnp.float32), 0) for found in (norms, losses))
    )
