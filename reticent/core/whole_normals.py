"""Normal noise in whole numbers: what is added to a sum that is whole as well, so that no bit is rounded.

A number is 256 X + Y, with X and Y from one table of the discrete normal law of deviation 400. The sum has
the discrete normal law of deviation 400 sqrt(65537), and reaches out to 10 of them. For more noise on the
same grid a multiple of a third number from the table is added. Each look-up takes one word: 13 bits for the
cell, 19 for its threshold. If these agree with the threshold's first 19 bits, which happens once in 524,288
look-ups, 64 further bits decide. They are drawn for a fixed number of blocks, those with ties among them.

Guarantee:
    A draw of n numbers is within n * DISTANCE, in total variation, of post-processing n real normal numbers
    of deviation `floor_deviation` (added to whole numbers first). Every number takes the same work and the
    same words, whatever comes out. The proof is in docs/arithmetic.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key

from reticent.core.alias import DEVIATION, FIRST_BITS, HALF, normal_table
from reticent.core.errors import InvalidArgument
from reticent.core.words import align, key_words, words_at, words_from

_STEP = 256  # what X is multiplied by
_LANES = 21 * 1024  # lanes worked on at once, at most: a device that needs a part draws whole stretches
_NUMBERS = 8  # in a lane, of two look-ups each
_BLOCK = 32  # lanes that are worked out to the end together
_MOST_TIES = 18  # blocks of a stretch that are
_BITS = (1 << FIRST_BITS) - 1
_SMOOTHING = 1.6  # the deviation of a discrete normal that hides whether its centre was whole

MOST_MULTIPLE = _STEP**2
MOST_NUMBERS = 1 << 32  # in a draw: places are counted in 32 bits, and so are the blocks of words they take
DISTANCE = 2.0**-66

# The purposes of words. Those that decide ties have the two numbers after that of the look-ups.
_LOOK_UPS, _MORE, _DITHER = 0, 3, 6


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
    key: jax.Array, count: int, *, multiple: int | jax.Array = 0, part: DrawPart | None = None
) -> jax.Array:
    """`count` independent whole normal numbers, int32.

    Args:
        multiple: of a third number that is added, at most `MOST_MULTIPLE`; see `floor_deviation`. It may be
            traced: then the third number is drawn in any case.
        key: of 128 bits, as `Keys` gives them, or of 64; it must be used for nothing else.
        part: the numbers that a longer draw from this key would have there, without drawing the others.

    Raises:
        InvalidArgument: more numbers in a draw than can be counted: the first would come again.
    """
    whole = count if part is None else part.of
    _require_countable(whole)
    words = key_words(key)
    lanes = _lanes(whole)
    stretch = lanes * _NUMBERS
    if part is None:
        starts = jnp.arange(-(-count // stretch), dtype=jnp.uint32)
        return _stretches(words, starts, lanes, multiple)[:count]
    first = jnp.asarray(part.first, jnp.uint32)
    begun = first // stretch
    starts = begun + jnp.arange(-(-count // stretch) + 1, dtype=jnp.uint32)
    drawn = _stretches(words, starts, lanes, multiple)
    return lax.dynamic_slice_in_dim(drawn, (first - begun * stretch).astype(jnp.int32), count)


def dither(key: Key[Array, ""], count: int) -> Float[Array, " {count}"]:
    """Numbers in (0, 1), each in the middle of one of 256 equal parts, for rounding up or down by chance."""
    _require_countable(count)
    four = words_from(key_words(key), 0, align(-(-count // 16)), _DITHER)
    turns = jnp.arange(0, 32, 8, dtype=jnp.uint32)[:, None]
    parts = [((words >> turns) & 0xFF).astype(jnp.float32) for words in four]
    return (jnp.concatenate(parts).reshape(-1)[:count] + 0.5) / 256


def _require_countable(count: int) -> None:
    if not count <= MOST_NUMBERS:
        raise InvalidArgument(
            f"A draw of {count:,} numbers from one key is too long: places are counted up to "
            f"{MOST_NUMBERS:,}, and after them the same numbers would come again.",
            remedy="Train fewer parameters at once, as docs/finetuning.md shows.",
        )


def _lanes(count: int) -> int:
    """The number of lanes with which all stretches have one length, and the last is nearly full."""
    lanes = -(-count // _NUMBERS)
    stretches = max(-(-lanes // _LANES), 1)
    return -(-2 * align(-(-lanes // stretches) // 2) // _BLOCK) * _BLOCK


def _stretches(key: jax.Array, starts: jax.Array, lanes: int, multiple: int | jax.Array) -> jax.Array:
    """The numbers of whole stretches, eight of every lane; some blocks of lanes are worked out to the end."""

    def stretch(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        lane = jnp.arange(lanes, dtype=jnp.uint32)
        return _marked(key, _Lanes(start, lane, lanes), multiple, _look_up)

    halves = lax.map(stretch, starts)  # two arrays (stretches, 4, lanes)
    block = _blocks_with_ties(halves)  # (stretches, blocks)
    lane = block[:, :, None] * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
    lane = lane.reshape(block.shape[0], block.shape[1] * _BLOCK)
    at = _Lanes(jnp.repeat(starts, lane.shape[1]), lane.reshape(-1).astype(jnp.uint32), lanes)
    rows = jnp.arange(starts.shape[0])[:, None]
    settled = []
    for half, decided in zip(halves, _marked(key, at, multiple, _decide), strict=True):
        numbers = decided.reshape(4, *lane.shape).transpose(1, 2, 0)
        settled.append(half.at[rows, :, lane].set(numbers, mode="promise_in_bounds"))
    return jnp.concatenate(settled, axis=1).reshape(-1) >> 1


class _Lanes(NamedTuple):
    """Some lanes of a stretch, each by its number, and how many lanes the stretch has."""

    start: jax.Array
    lane: jax.Array
    of: int

    def counters(self, rows: int) -> jax.Array:
        """What the words of each lane are made from: (rows, lanes)."""
        row = jnp.arange(rows, dtype=jnp.uint32)[:, None]
        return (self.start * jnp.uint32(rows) + row) * jnp.uint32(self.of) + self.lane


class _Found(NamedTuple):
    """Values from the table, and whether the bits that were looked at left one open."""

    value: jax.Array
    is_open: jax.Array | bool


LookUp = Callable[[jax.Array, jax.Array, int], list[_Found]]


def _marked(
    key: jax.Array, at: _Lanes, multiple: int | jax.Array, look_up: LookUp
) -> tuple[jax.Array, jax.Array]:
    """Twice the numbers of some lanes, plus 1 where one is open: two arrays (4, lanes)."""
    a, b, c, d = look_up(key, at.counters(4), _LOOK_UPS)
    first = _Found(_STEP * a.value + c.value, a.is_open | c.is_open)
    second = _Found(_STEP * b.value + d.value, b.is_open | d.is_open)
    if isinstance(multiple, jax.Array) or multiple:
        e, f, g, h = look_up(key, at.counters(2), _MORE)
        first, second = _plus(first, multiple, e, f), _plus(second, multiple, g, h)
    return _mark(first), _mark(second)


def _plus(found: _Found, multiple: int | jax.Array, *more: _Found) -> _Found:
    """Adds a multiple of further values, two rows of each."""
    value = jnp.concatenate([part.value for part in more])
    is_open = jnp.concatenate([jnp.broadcast_to(part.is_open, part.value.shape) for part in more])
    return _Found(found.value + multiple * value, found.is_open | is_open)


def _mark(found: _Found) -> jax.Array:
    return 2 * found.value + jnp.asarray(found.is_open, jnp.int32)


def _look_up(key: jax.Array, counters: jax.Array, purpose: int) -> list[_Found]:
    """The values of four words for each counter, as far as the words themselves decide."""
    first = jnp.asarray(normal_table().first)
    found = []
    for words in words_at(key, counters, purpose):
        cell, bits = words >> FIRST_BITS, words & _BITS
        entry = first.at[cell].get(mode="promise_in_bounds")
        threshold = entry & _BITS
        found.append(_Found(_value(bits < threshold, cell, entry), bits == threshold))
    return found


def _decide(key: jax.Array, counters: jax.Array, purpose: int) -> list[_Found]:
    """The same values, and where words leave one open, the value that 64 more bits decide on."""
    # All three from one call: they are few, and a compiler works through the rounds once.
    purposes = (purpose + jnp.arange(3, dtype=jnp.uint32)).reshape(3, *[1] * counters.ndim)
    four = words_at(key, jnp.broadcast_to(counters, (3, *counters.shape)), purposes)
    return [_Found(_settle(*words), is_open=False) for words in four]


def _settle(words: jax.Array, ties: jax.Array, last: jax.Array) -> jax.Array:
    """The value of each word in the table, given what decides where its own bits do not."""
    table = [jnp.asarray(part) for part in normal_table()]
    cell, bits = words >> FIRST_BITS, words & _BITS
    entry, next_bits, last_bits = (part.at[cell].get(mode="promise_in_bounds") for part in table)
    threshold = entry & _BITS
    is_below = (bits < threshold) | (
        (bits == threshold) & ((ties < next_bits) | ((ties == next_bits) & (last < last_bits)))
    )
    return _value(is_below, cell, entry)


def _value(is_own: jax.Array, cell: jax.Array, entry: jax.Array) -> jax.Array:
    return jnp.where(is_own, cell, entry >> FIRST_BITS).astype(jnp.int32) - HALF


def _blocks_with_ties(halves: tuple[jax.Array, jax.Array]) -> jax.Array:
    """For each stretch the numbers of up to `_MOST_TIES` blocks of lanes, those with open numbers among them.

    The first are found by counting, not by sorting: the work is the same whoever has ties.
    """
    is_open = jnp.max((halves[0] | halves[1]) & 1, axis=1)  # (stretches, lanes)
    stretches, blocks = is_open.shape[0], is_open.shape[1] // _BLOCK
    has_ties = jnp.max(is_open.reshape(stretches, blocks, _BLOCK), axis=2)
    if blocks <= _MOST_TIES:
        return jnp.broadcast_to(jnp.arange(blocks, dtype=jnp.int32), has_ties.shape)
    so_far = jnp.cumsum(has_ties, axis=1)[:, None, :]
    each = jnp.arange(_MOST_TIES, dtype=so_far.dtype)[None, :, None]
    place = jnp.sum(so_far <= each, axis=2, dtype=jnp.int32)
    return jnp.minimum(place, blocks - 1)
