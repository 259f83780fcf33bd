"""Normal noise in whole numbers: what is added to a sum that is whole as well, so that no bit is rounded.

A number is 256 X + Y, with X and Y from one table of the discrete normal law of deviation 400. The sum has
the discrete normal law of deviation 400 sqrt(65537), and reaches out to 10 of them. For more noise on the
same grid a multiple of a third number from the table is added. Each look-up takes one word: 13 bits for the
cell, 19 for its threshold. If these agree with the threshold's first 19 bits, which happens once in 524,288
look-ups, further bits decide; they come from words that sixteen look-ups share.

Guarantee:
    A draw of n numbers is within n * DISTANCE, in total variation, of post-processing n real normal numbers
    of deviation `floor_deviation` (added to whole numbers first). Every number takes the same work and the
    same words, whatever comes out. The proof is in docs/arithmetic.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from reticent.core.alias import DEVIATION, FIRST_BITS, HALF, normal_table
from reticent.core.words import align, key_words, words_from

_STEP = 256  # what X is multiplied by
_LANES = 21 * 1024  # groups worked on at once, at most: a device that needs a part draws whole stretches
_NUMBERS = 8  # in a group, of two look-ups each
_SMOOTHING = 1.6  # the deviation of a discrete normal that hides whether its centre was whole

MOST_MULTIPLE = _STEP**2
DISTANCE = 2.0**-66

_LOOK_UPS, _TIES, _MORE, _MORE_TIES, _DITHER = range(5)  # the purposes of words


def floor_deviation(multiple: int = 0) -> float:
    """The deviation of the real normal numbers that whole ones hide at least as much as."""
    return math.sqrt(DEVIATION**2 * (multiple**2 + _STEP**2 + 1) - _SMOOTHING**2)


def largest(multiple: int = 0) -> int:
    """No number is farther from 0."""
    return HALF * (multiple + _STEP + 1)


class DrawPart(NamedTuple):
    """Where some numbers stand in a longer draw: from `first` on, which may be traced, of `of` in all."""

    first: jax.typing.ArrayLike
    of: int


def whole_normals(
    key: jax.Array, count: int, *, multiple: int = 0, part: DrawPart | None = None
) -> jax.Array:
    """`count` independent whole normal numbers, int32.

    Args:
        multiple: of a third number that is added, at most `MOST_MULTIPLE`; see `floor_deviation`.
        key: of 128 bits, as `Keys` gives them, or of 64; it must be used for nothing else.
        part: the numbers that a longer draw from this key would have there, without drawing the others.
    """
    words = key_words(key)
    lanes = _lanes(count if part is None else part.of)
    stretch = lanes * _NUMBERS
    if part is None:
        starts = jnp.arange(-(-count // stretch), dtype=jnp.uint32)
        return _stretches(words, starts, lanes, multiple)[:count]
    first = jnp.asarray(part.first, jnp.uint32)
    begun = first // stretch
    starts = begun + jnp.arange(-(-count // stretch) + 1, dtype=jnp.uint32)
    drawn = _stretches(words, starts, lanes, multiple)
    return lax.dynamic_slice_in_dim(drawn, (first - begun * stretch).astype(jnp.int32), count)


def dither(key: jax.Array, count: int) -> jax.Array:
    """Numbers in (0, 1), each in the middle of one of 256 equal parts, for rounding up or down by chance."""
    four = words_from(key_words(key), 0, align(-(-count // 16)), _DITHER)
    turns = jnp.arange(0, 32, 8, dtype=jnp.uint32)[:, None]
    parts = [((words >> turns) & 0xFF).astype(jnp.float32) for words in four]
    return (jnp.concatenate(parts).reshape(-1)[:count] + 0.5) / 256


def _lanes(count: int) -> int:
    """So many that all stretches are of one length, and the last is nearly full."""
    groups = -(-count // _NUMBERS)
    stretches = max(-(-groups // _LANES), 1)
    return 2 * align(-(-groups // stretches) // 2)  # half of them is a good number, too


def _stretches(key: jax.Array, starts: jax.Array, lanes: int, multiple: int) -> jax.Array:
    halves = lax.map(lambda start: _stretch(key, start, lanes, multiple), starts)
    return jnp.concatenate(halves, axis=1).reshape(
        -1
    )  # later: XLA is slow where it fuses with a concatenation


def _stretch(key: jax.Array, start: jax.Array, lanes: int, multiple: int) -> tuple[jax.Array, jax.Array]:
    """The numbers of one stretch, in two halves: eight of every lane."""
    a, b, c, d = _look_ups(key, start, lanes, _LOOK_UPS, _TIES)
    first, second = _STEP * a + c, _STEP * b + d
    if multiple:
        e, f, g, h = _look_ups(key, start, lanes // 2, _MORE, _MORE_TIES)
        first += multiple * jnp.concatenate([e, f], axis=1)
        second += multiple * jnp.concatenate([g, h], axis=1)
    return first, second


def _look_ups(key: jax.Array, start: jax.Array, lanes: int, main: int, ties: int) -> list[jax.Array]:
    """Sixteen numbers from the table for every lane: four arrays (4, lanes)."""
    four = words_from(key, start * jnp.uint32(4 * lanes), 4 * lanes, main)
    shared, last = _tie_words(key, start, lanes, ties)
    return [_look_up(words.reshape(4, lanes), tie, last) for words, tie in zip(four, shared, strict=True)]


def _tie_words(
    key: jax.Array, start: jax.Array, lanes: int, purpose: int
) -> tuple[list[jax.Array], jax.Array]:
    """Sixteen words per lane from five, any three of them independent, and one word for all lanes.

    Words 1 to 16 are e0 + a e1 + b e2 + c e3 + d e4 for all bits a, b, c, d, added without carry: any three
    of these sums are linearly independent.
    """
    blocks = align(lanes + -(-(lanes + 1) // 4))
    shared = words_from(key, start * jnp.uint32(blocks), blocks, purpose)
    e0, e1, e2, e3 = (words[:lanes] for words in shared)
    rest = jnp.concatenate([words[lanes:] for words in shared])
    e4 = rest[:lanes]
    rows = jnp.stack([e0, e0 ^ e1, e0 ^ e2, e0 ^ e1 ^ e2])  # (4, lanes)
    return [rows, rows ^ e3, rows ^ e4, rows ^ (e3 ^ e4)], rest[lanes]


def _look_up(words: jax.Array, ties: jax.Array, last: jax.Array) -> jax.Array:
    """The value of each word in the table, given what decides where its own bits do not."""
    first, second, third = (jnp.asarray(part) for part in normal_table())
    mask = jnp.uint32((1 << FIRST_BITS) - 1)
    cell, bits = words >> FIRST_BITS, words & mask
    entry, next_bits, last_bits = (
        part.at[cell].get(mode="promise_in_bounds") for part in (first, second, third)
    )
    threshold = entry & mask
    is_below = (bits < threshold) | (
        (bits == threshold) & ((ties < next_bits) | ((ties == next_bits) & (last < last_bits)))
    )
    return jnp.where(is_below, cell, entry >> FIRST_BITS).astype(jnp.int32) - HALF
