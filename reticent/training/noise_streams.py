"""Correlated noise, one step after the other, in whole numbers: what a step takes back of earlier ones.

A stream makes the noise w of a step from a fresh whole normal number z and from what it keeps of earlier w:

    banded, Toeplitz    w = z + round(-(c1 w' + c2 w'' + ...)), which keeps as many vectors as there are
    bands, less 1 buffers             the same, with the sum kept in buffers that decay: two words for each,
    of which one is a fraction tree                w = z - the numbers of the nodes that the new one
    replaces, drawn anew from their keys

`round` is by chance, as `core/whole_rounding.py` does it. Then sums plus w are post-processing of C X + G,
with G independent real normal numbers; docs/arithmetic.md has the proof. What is kept is as secret as keys:
noise that is known can be subtracted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from reticent.core import trees
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.core.whole_normals import DrawPart
from reticent.core.whole_rounding import FARTHEST, round_normally
from reticent.noise.series import inverse
from reticent.noise.strategies import COEFFICIENT_BITS, Banded, Buffered, NoiseStrategy, Toeplitz, Tree
from reticent.training import noise_buffers

_PART = (1 << COEFFICIENT_BITS) - 1


class Memory(NamedTuple):
    """What a run keeps of its noise. Secret: it is in no checkpoint, and a resumed run begins without it.

    Args:
        begun: the step that noise begins with; nothing before is taken back.
    """

    begun: Int[Array, ""]
    kept: Any


class Draws(NamedTuple):
    """What the noise of a step is made from.

    Args:
        fresh: the whole normal numbers of a step, as a tree.
        coins: a key for rounding in this step.
        parts: where each leaf stands among all numbers, if not one after the other.
    """

    fresh: Callable[[jax.Array], Any]
    coins: jax.Array
    parts: Sequence[DrawPart] | None

    def round(self, fractions: Any, stage: int = 0) -> Any:
        """What a tree of fractions, in 256 parts, is rounded to."""
        leaves, structure = jax.tree.flatten(fractions)
        starts = np.cumsum([0, *(leaf.size for leaf in leaves)], dtype=int).tolist()
        parts = self.parts or [DrawPart(start, starts[-1]) for start in starts[:-1]]
        rounded = [
            round_normally(self.coins, leaf.reshape(-1), part=part, stage=stage).reshape(leaf.shape)
            for leaf, part in zip(leaves, parts, strict=True)
        ]
        return jax.tree.unflatten(structure, rounded)


class NoiseStream(Protocol):
    @property
    def reach(self) -> float:
        """How many times the largest fresh number, and what rounding adds to it, noise is at most."""
        ...

    def margin(self, numbers: int) -> float:
        """The share of the distance between neighbours that is set aside for rounding in what is kept."""
        ...

    def empty(self, params: ArrayTree) -> Any: ...

    def next(self, memory: Memory, at: jax.Array, draws: Draws) -> tuple[Any, Memory]:
        """The noise of step `at`, and what is kept from then on."""
        ...


def begin(stream: NoiseStream, params: ArrayTree, at: jax.typing.ArrayLike) -> Memory:
    """Before the first step of a run, or the first after an interruption."""
    return Memory(jnp.asarray(at, jnp.int32), stream.empty(params))


@functools.lru_cache(64)
def stream_of(noise: NoiseStrategy, steps: int, sensitivity: float, grid_steps: float) -> NoiseStream | None:
    """How the noise of a plan is made; None where every step has its own.

    Args:
        sensitivity: of the strategy, for a contribution of length 1.
        grid_steps: of the grid of sums, in a contribution of length 1.

    Raises:
        InvalidArgument: the strategy is not one that steps can follow.
    """
    if noise.bands(max(steps, 1)) == 1:
        return None
    if isinstance(noise, Tree):
        return TreeStream(noise.memory(steps), min(noise.restart or steps, steps))
    if isinstance(noise, Banded | Toeplitz):
        column = noise.column(steps)
        whole = tuple(round(each * 2**COEFFICIENT_BITS) for each in column[1:].tolist())
        return BandedStream(whole, float(np.sum(np.abs(inverse(column, steps)))) * (1 + 1e-6))
    if isinstance(noise, Buffered):
        return noise_buffers.stream_of(noise, steps, sensitivity * grid_steps)
    raise InvalidArgument(
        f"Runs are not trained with {noise.in_words}: it is what other strategies are measured against.",
        remedy="Use rt.noise.toeplitz or rt.noise.banded.",
    )


def largest_noise(stream: NoiseStream | None, largest: float) -> float:
    """No noise is farther from 0, if no fresh number is farther than `largest`."""
    return largest if stream is None else stream.reach * (largest + FARTHEST)


@dataclass(frozen=True)
class BandedStream:
    """
    Args:
        lags: 256 times the coefficients of lags 1, 2, ...
    """

    lags: tuple[int, ...]
    reach: float

    def margin(self, numbers: int) -> float:
        return 0.0

    def empty(self, params: ArrayTree) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros((len(self.lags), *leaf.shape), jnp.int32), params)

    def next(self, memory: Memory, at: jax.Array, draws: Draws) -> tuple[Any, Memory]:
        count = len(self.lags)
        ages = (at - 1 - jnp.arange(count, dtype=jnp.int32)) % count  # of the slots of the ring, less 1
        weights = jnp.asarray(self.lags, jnp.int32)[ages]
        whole, fractions = split(jax.tree.map(lambda ring: _weigh(ring, weights), memory.kept))
        noise = _sum(draws.fresh(at), whole, draws.round(fractions))
        kept = jax.tree.map(
            lambda ring, new: jax.lax.dynamic_update_index_in_dim(ring, new, at % count, 0),
            memory.kept,
            noise,
        )
        return noise, Memory(memory.begun, kept)


class _Fixed(NamedTuple):
    """A number as whole + fraction / 256."""

    whole: jax.Array
    fraction: jax.Array


def split(numbers: Any) -> tuple[Any, Any]:
    """Two trees, from a tree of pairs."""
    is_pair = lambda leaf: isinstance(leaf, _Fixed)  # noqa: E731
    return (
        jax.tree.map(lambda pair: pair.whole, numbers, is_leaf=is_pair),
        jax.tree.map(lambda pair: pair.fraction, numbers, is_leaf=is_pair),
    )


def _weigh(ring: jax.Array, weights: jax.Array) -> _Fixed:
    """Minus the sum of weights / 256 times the slots of a ring: exact, since what comes out fits into 31
    bits.

    Sums may overflow on the way. They are right modulo 2^32, and so is what is left.
    """
    column = weights.reshape(-1, *[1] * (ring.ndim - 1))
    high = jnp.sum((ring >> COEFFICIENT_BITS) * column, axis=0, dtype=jnp.int32)
    low = -jnp.sum((ring & _PART) * column, axis=0, dtype=jnp.int32)
    return _Fixed((low >> COEFFICIENT_BITS) - high, low & _PART)


def _sum(first: Any, *more: Any) -> Any:
    return functools.reduce(trees.add, more, first)


@dataclass(frozen=True)
class TreeStream:
    """
    Args:
        reach: how many levels there are: a step replaces a node in each at most.
        size: of a tree, in steps.
    """

    reach: float
    size: int

    def margin(self, numbers: int) -> float:
        return 0.0

    def empty(self, params: ArrayTree) -> Any:
        return ()

    def next(self, memory: Memory, at: jax.Array, draws: Draws) -> tuple[Any, Memory]:
        inside = (at - memory.begun) % self.size + 1  # counted from 1
        replaced = jax.lax.population_count((inside & -inside) - 1)  # one for each trailing zero

        def without(level: jax.Array, noise: ArrayTree) -> Any:
            end = ((inside - 1) >> level) << level
            return trees.subtract(noise, draws.fresh(at - inside + end))

        return jax.lax.fori_loop(0, replaced, without, draws.fresh(at)), memory
