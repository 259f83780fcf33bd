"""Gaussian noise for trees of arrays, in whole numbers on a public grid.

The sum is a whole multiple of a grid, noise is a whole number of the grid's steps, and so is what comes out.
No bit of it is rounded: nothing shows that a machine added the noise. Turning it into floats is
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Key

from reticent.core import checks, trees
from reticent.core.alias import DEVIATION
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.core.whole_normals import (
    MOST_MULTIPLE,
    DrawPart,
    dither,
    floor_deviation,
    largest,
    whole_normals,
)
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.host import flatten_numbers, source_of
from reticent.mechanisms.sensitivity import BoundedSum
from reticent.mechanisms.whole import add_whole_normals

_LOW_BITS = 16  # of a number in two words that stay in the lower one
MOST_PARTS = 2 ** (31 - _LOW_BITS)  # of a sum in two words that are added without a carry
_MOST_SHIFT = 13  # bits: a coarser grid than that is not moved to the grid of the noise
_WORD = 2.0**30
_FEW_STEPS, _USUAL_STEPS = 2.0**15, 2.0**17  # of the grid in one clipping norm
_FEWEST_STEPS = 2.0**10  # fewer are not worth summing up
DITHER_FAILURE = 2.0**-80  # the chance, per release, that rounding moves a sum farther than is charged

_FINE_BITS = 20  # a clipping norm has some 2^20 steps of the grid for sums of floats
_MOST_EXPONENT = 80  # of a step of it: products with float32 neither overflow nor vanish

_NOISE, _DITHER = 0, 1


class NoiseGrid(NamedTuple):
    """How fine the grid of a sum is, beside that of its noise.

    Args:
        steps: of the sum's grid in one clipping norm. They and the multiple may be traced.
        shift: a step of the sum is 2^shift steps of the noise.
        multiple: what the noise is drawn with; see `whole_normals`.
        is_wide: sums are kept in two words, because they may not fit into one.
    """

    steps: Any
    shift: int
    multiple: Any
    is_wide: bool


def noise_grid(
    noise_multiplier: float,
    examples: int,
    block: int = 1,
    largest_noise: Callable[[int], float] = float,
) -> NoiseGrid:
    """The grid on which noise has its whole-number deviation, or a coarser one where sums would not fit.

    Args:
        examples: the most that a sum is over.
        block: how many of them are summed in one word.
        largest_noise: the size of noise, at most, given that of a number that is drawn.

    Raises:
        InvalidArgument: the noise is so small that no sum fits, or so large that it is not drawn.
    """
    multiple = multiple_for(noise_multiplier)
    steps = floor_deviation(multiple) / noise_multiplier
    shift = max(math.ceil(math.log2(steps * max(block, 1) / _WORD)), 0)
    if not shift <= _MOST_SHIFT:
        least = floor_deviation() * block / _WORD / 2**_MOST_SHIFT
        raise InvalidArgument(
            f"A noise multiplier of {noise_multiplier:g} is too small for sums over {block} examples.",
            remedy=f"Use at least {least:.1g}, which protects nobody either, or a smaller microbatch.",
        )
    farthest = largest_noise(largest(multiple))
    if not farthest < _WORD:
        raise InvalidArgument(
            f"Noise of multiplier {noise_multiplier:g} may be {farthest:.3g} steps of its grid, and is kept "
            "below 2^30.",
            remedy="Use less noise, or fewer bands.",
        )
    is_wide = shift > 0 or not examples * steps + farthest < _WORD
    return NoiseGrid(steps / 2**shift, shift, multiple, is_wide)


def multiple_for(noise_multiplier: float) -> int:
    """The multiple that noise is drawn with: 0 for little noise, else enough to keep the grid fine."""
    checks.positive(noise_multiplier=noise_multiplier)
    if noise_multiplier * _FEW_STEPS <= floor_deviation():
        return 0
    needed = math.ceil(noise_multiplier * _USUAL_STEPS / DEVIATION)
    if not noise_multiplier * _FEWEST_STEPS <= floor_deviation(MOST_MULTIPLE):
        raise InvalidArgument(
            f"A noise multiplier of {noise_multiplier:g} is larger than the largest that can be drawn.",
            remedy=f"Use at most {floor_deviation(MOST_MULTIPLE) / _FEWEST_STEPS:.0f}.",
        )
    return min(needed, MOST_MULTIPLE)


class Wide(NamedTuple):
    """Whole numbers too large for one word: high * 2^16 + low, each a tree of int32.

    Sums of blocks have their lower word in [0, 2^16): `MOST_PARTS` of them can be added without a carry.
    """

    high: Any
    low: Any


def carry(total: Wide, bits: int = _LOW_BITS) -> Wide:
    """The same numbers with the lower word in [0, 2^bits): there is one such pair for each number.

    Example:
        >>> total = carry(Wide(jnp.array([0]), jnp.array([65537])))
        >>> total.high.tolist(), total.low.tolist()
        ([1], [1])
    """
    carry = jax.tree.map(lambda low: low >> bits, total.low)
    return Wide(
        trees.add(total.high, carry),
        jax.tree.map(lambda low, over: low - (over << bits), total.low, carry),
    )


def to_block_sum(total: ArrayTree, grid: NoiseGrid) -> Any:
    """The sum of a block, ready to be added to others: whole leaves in two words where one may not do."""

    def ready(leaf: jax.Array) -> Any:
        is_one_word = _is_float(leaf) or not grid.is_wide
        return leaf if is_one_word else carry(Wide(jnp.zeros_like(leaf), leaf))

    return jax.tree.map(ready, total)


def add_blocks(left: Any, right: Any) -> Any:
    """The sum of two sums of blocks."""

    def added(one: Any, other: Any) -> Any:
        both = trees.add(one, other)
        return carry(both) if isinstance(both, Wide) else both

    return jax.tree.map(added, left, right, is_leaf=lambda leaf: isinstance(leaf, Wide))


def round_by_chance(key: Key[Array, ""], total: ArrayTree, grid: NoiseGrid) -> Any:
    """A sum of blocks in whole numbers: float32 leaves are rounded up or down by chance, the others stay.

    Returns:
        A tree of int32, or `Wide` of two.

    Guarantee:
        Two sums at a distance come out at a distance larger by the factor 1 + `dither_growth`, except
        with probability `DITHER_FAILURE` over the public coins.
    """
    leaves, structure = jax.tree.flatten(total, is_leaf=lambda leaf: isinstance(leaf, Wide))
    coins = dither(key, sum(leaf.size for leaf in leaves if _is_float(leaf)))
    start = 0
    for at, leaf in enumerate(leaves):
        if _is_float(leaf):
            coin = coins[start : start + leaf.size].reshape(leaf.shape)
            leaves[at] = _whole(leaf, coin, grid)
            start += leaf.size
    if not grid.is_wide:
        return jax.tree.unflatten(structure, leaves)
    return Wide(*(jax.tree.unflatten(structure, words) for words in zip(*leaves, strict=True)))


def _whole(values: jax.Array, coins: jax.Array, grid: NoiseGrid) -> Any:
    """Floats as whole numbers, in two words if the grid has two; what is not finite counts as 0.

    The fraction is compared with the coin, not added to the value: added to a large value, a coin would be
    rounded, and a fraction of 1/4 would go up with a chance of 1/2.
    """
    values = jnp.where(jnp.isfinite(values), values, 0)
    if grid.is_wide:
        values = jnp.clip(values, -(2.0**45), 2.0**45)
    below = jnp.floor(values)
    goes_up = (values - below >= 1 - coins).astype(jnp.int32)
    if not grid.is_wide:
        return below.astype(jnp.int32) + goes_up
    upper = jnp.floor(below / 2.0**_LOW_BITS)  # exact, and so is what is left
    lower = below - upper * 2.0**_LOW_BITS
    return carry(Wide(upper.astype(jnp.int32), lower.astype(jnp.int32) + goes_up))


def _is_float(leaf: Any) -> bool:
    return not isinstance(leaf, Wide) and jnp.issubdtype(leaf.dtype, jnp.floating)


def dither_growth(numbers: int, steps: float, parts: int = 1) -> float:
    """The share by which rounding by chance may move two sums farther apart.

    A coordinate at distance x comes out at one of the two whole numbers beside x, with mean x up to 1/256.
    The squared distance grows by a sum of independent terms, each within 2|x| + 1 of the others it might have
    been; Hoeffding's inequality bounds it.

    Args:
        numbers: that are rounded.
        steps: the distance, in steps.
        parts: of the sum that are rounded one by one, each on a device of its own.
    """
    root = parts * math.sqrt(numbers)
    mean = root**2 / 4 + 2 * root * steps / 256 + (root / 256) ** 2
    deviation = (2 * steps + root) * math.sqrt(math.log(1 / DITHER_FAILURE) / 2)
    return (mean + deviation) / (2 * steps**2) if numbers else 0.0


def add_whole_noise(
    key: jax.Array, total: ArrayTree, grid: NoiseGrid, *, parts: Sequence[DrawPart] | None = None
) -> Any:
    """A sum in steps of the grid, plus noise, as float32 in units of the clipping norm.

    Args:
        key: used for nothing else.
        total: whole numbers, as a tree or `Wide`.
        parts: for a part of a sum, where each of its leaves stands among all numbers of the whole. Each
            gets the noise that it would have there.

    Guarantee:
        Costs Gaussian(noise_multiplier) of the multiplier that the grid was made for, if neighbours' sums are
        at most `grid.steps` apart, up to `DISTANCE` per number in delta.
    """
    return add_noise(total, whole_noise_like(key, total, grid, parts), grid)


def whole_noise_like(
    key: jax.Array, total: ArrayTree, grid: NoiseGrid, parts: Sequence[DrawPart] | None = None
) -> Any:
    """The noise that `add_whole_noise` adds: a whole number for each of the sum."""
    return _noise_like(key, total.low if isinstance(total, Wide) else total, grid.multiple, parts)


def add_no_noise(total: ArrayTree, grid: NoiseGrid) -> Any:
    """The same sum in the same units, as it is: for a dry run, which promises nothing."""
    like = total.low if isinstance(total, Wide) else total
    return add_noise(total, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), like), grid)


def add_noise(total: ArrayTree, noise: ArrayTree, grid: NoiseGrid) -> Any:
    """A sum in steps of the grid plus whole noise below 2^30, as float32 in units of the clipping norm."""
    if not grid.is_wide:
        return jax.tree.map(lambda k, x: (k + x).astype(jnp.float32) * (1 / grid.steps), total, noise)
    high, low = carry(total)  # below 2^16, so that it can be shifted; sums over devices may be larger
    low = jax.tree.map(lambda k, x: (k << grid.shift) + x, low, noise)
    bits = _LOW_BITS + grid.shift
    wide = carry(Wide(high, low), bits)
    # One pair of words for each whole number: what is made of it is a function of the number alone.
    unit = 1 / (grid.steps * 2.0**grid.shift)
    return jax.tree.map(
        lambda high, low: (high.astype(jnp.float32) * 2.0**bits + low.astype(jnp.float32)) * unit, *wide
    )


def _noise_like(key: jax.Array, tree: ArrayTree, multiple: Any, parts: Sequence[DrawPart] | None) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    if parts is not None:
        own = [
            whole_normals(key, leaf.size, multiple=multiple, part=part)
            for leaf, part in zip(leaves, parts, strict=True)
        ]
    else:  # one draw for all leaves: each number has a place of its own in it
        *starts, end = np.cumsum([0, *(leaf.size for leaf in leaves)], dtype=int).tolist()
        drawn = whole_normals(key, end, multiple=multiple)
        own = [drawn[start : start + leaf.size] for start, leaf in zip(starts, leaves, strict=True)]
    shaped = [noise.reshape(leaf.shape) for noise, leaf in zip(own, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


def add_gaussian_noise(key: Key[Array, ""], total: BoundedSum, event: Gaussian) -> Any:
    """Adds independent noise of `event.noise_multiplier * total.max_norm` to every number of a sum of floats.

    The sum is moved to the grid first, rounded up or down by public coins; that moves neighbours a little
    farther apart, and the noise is larger by as much. Leaves narrower than float32 are widened: noise rounded
    to eight bits is not Gaussian. A tree with leaves of float64 is worked on by the host, in float64, and
    takes a key of 128 bits. Numbers that are not finite count as 0. Those beyond 2^45 steps of the grid, or
    2^25 `max_norm` at usual noise, are clipped to there. The result is float32.

    Guarantee:
        The result costs `event`, whatever the adjacency: how far neighbours move the sum is the
        accountant's to know. A bound in the L1 norm is one in the L2 norm too. That the sum moves by no
        more than its bound, as computed, is up to whoever made it. Nothing more is rounded here, however
        large the sum: the step of the grid is a power of two.

    Raises:
        InvalidArgument: a leaf holds integers, or float64 inside a function that JAX compiles.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)  # Keys.from_os() in a real run
        >>> total = BoundedSum(value=jnp.array([10.0, 20.0]), max_norm=1.0)
        >>> add_gaussian_noise(key, total, Gaussian(noise_multiplier=1.0)).shape
        (2,)
    """
    leaves = jax.tree.leaves(total.value)
    if any(_is_double(leaf) for leaf in leaves) and not any(
        isinstance(leaf, Tracer) for leaf in (key, *leaves)
    ):
        return _add_on_host(key, total, event)
    value = jax.tree.map(to_float32, total.value)
    grid, step = _exact_grid(event.noise_multiplier, total.max_norm, trees.size(value))
    most = min(2.0**45 * step, float(np.finfo(np.float32).max))
    value = jax.tree.map(lambda leaf: jnp.clip(jnp.where(jnp.isfinite(leaf), leaf, 0), -most, most), value)
    whole = round_by_chance(jax.random.fold_in(key, _DITHER), trees.scale(value, 1 / step), grid)
    return trees.scale(add_whole_noise(jax.random.fold_in(key, _NOISE), whole, grid), total.max_norm)


def _exact_grid(noise_multiplier: float, max_norm: float, numbers: int) -> tuple[NoiseGrid, float]:
    """A grid for sums of float32 and its step, a power of two: a float32 over the step is exact.

    Noise of a chosen deviation on such a grid takes a multiple of a third number. From 2^15 of them on, it is
    too large by 2^-15 at most.
    """
    noise_grid(noise_multiplier, 1)  # refuses what is not drawn
    farthest = floor_deviation(MOST_MULTIPLE)
    fine = math.log2(farthest / noise_multiplier)
    shift = min(max(math.ceil(fine - _FINE_BITS), 0), _MOST_SHIFT)
    exponent = math.ceil(math.log2(noise_multiplier) + math.log2(max_norm) - math.log2(farthest))
    while True:
        if not -_MOST_EXPONENT <= exponent + shift <= _MOST_EXPONENT:
            raise InvalidArgument(
                f"A noise of {noise_multiplier * max_norm:g} is too large or too small for float32.",
                remedy="Measure the sum in other units.",
            )
        step = math.ldexp(1.0, exponent + shift)
        steps = max_norm / step
        wanted = noise_multiplier * steps * 2.0**shift * (1 + dither_growth(numbers, steps)) * (1 + 2.0**-40)
        if wanted <= farthest:
            # The deviation grows more slowly than the multiple, so a share of the multiple is enough.
            multiple = math.ceil(MOST_MULTIPLE * (wanted / farthest) * (1 + 2.0**-40))
            return NoiseGrid(steps, shift, min(multiple, MOST_MULTIPLE), is_wide=True), step
        exponent += 1


def _add_on_host(key: jax.Array, total: BoundedSum, event: Gaussian) -> Any:
    numbers, tree_of = flatten_numbers(total.value)
    noisy = add_whole_normals(
        source_of(key, numbers),
        np.where(np.isfinite(numbers), numbers, 0.0),
        max_norm=total.max_norm,
        deviation=event.noise_multiplier * total.max_norm,
    )
    return tree_of(noisy)


def _is_double(leaf: Any) -> bool:
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return dtype == np.float64


def to_float32(leaf: Any) -> jax.Array:
    """A floating leaf in float32.

    Raises:
        InvalidArgument: the leaf holds integers, and noise on them would be rounded away; or float64, which
            float32 would round by more than its neighbours are apart.
    """
    if _is_double(leaf):
        raise InvalidArgument(
            f"A leaf of float64 with shape {np.shape(leaf)} cannot be rounded to float32: the sums of "
            "neighbours would move apart.",
            remedy="Sum in float32, or add the noise outside of the function that JAX compiles.",
        )
    leaf = jnp.asarray(leaf)
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        raise InvalidArgument(
            f"Noise cannot be added to a leaf of {leaf.dtype} with shape {leaf.shape}.",
            remedy="Release floating-point sums, or leave that leaf out of the tree.",
        )
    return leaf.astype(jnp.float32)
