"""Random words in bulk, from keys of 128 bits: Threefry-4x32 with all 20 rounds, about a nanosecond per word.

JAX's own generator for keys of 128 bits takes several times as long on a CPU. Words are known by their
place: any part of a long draw can be made without the rest.

Reference:
    Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Key, UInt32

from reticent.core.errors import InvalidArgument

MOST_BLOCKS = 1 << 32

_ALIGNED = 64
_PARITY = 0x1BD11BDA
_EVEN = ((10, 26), (11, 21), (13, 27), (23, 5))  # the rotations of four rounds, and of the four after them
_ODD = ((6, 20), (17, 11), (25, 10), (18, 20))

Words = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def key_words(key: Key[Array, ""]) -> UInt32[Array, " 4"]:
    """The four words of a key; a key of 64 bits is padded and gets no stronger."""
    data = jax.random.key_data(key)
    return jnp.pad(data, (0, 4 - data.shape[0]))


def align(blocks: int) -> int:
    """Rounds a count up so that XLA is fast: it takes twice as long for arrays of odd lengths.

    Example:
        >>> align(1), align(65)
        (64, 128)
    """
    return max(-(-blocks // _ALIGNED), 1) * _ALIGNED


def words_from(key: UInt32[Array, " 4"], first: jax.typing.ArrayLike, blocks: int, purpose: int) -> Words:
    """Four words for each of the counters from `first` on: four arrays (blocks,), uint32.

    Args:
        key: four words, as `key_words` gives them.
        purpose: draws with different ones share no counter.

    Raises:
        InvalidArgument: more blocks than counters.
    """
    if not blocks <= MOST_BLOCKS:
        raise InvalidArgument(
            f"{blocks:,} blocks of words from one key would repeat: there are {MOST_BLOCKS:,} counters.",
            remedy="Draw fewer at once, each part from a key of its own.",
        )
    return words_at(key, jnp.asarray(first, jnp.uint32) + jnp.arange(blocks, dtype=jnp.uint32), purpose)


def words_at(key: UInt32[Array, " 4"], counters: UInt32[Array, "*shape"], purpose: int | jax.Array) -> Words:
    """Four words for each of these counters: four arrays of their shape, uint32."""
    zero = jnp.zeros_like(counters)
    return threefry(key, (counters, zero + jnp.asarray(purpose, jnp.uint32), zero, zero))


def threefry(key: UInt32[Array, " 4"], counters: Words) -> Words:
    """Threefry-4x32 with 20 rounds: key (4,) and four arrays of counters, all uint32.

    The rounds are the only round of a loop whose end the compiler cannot know, so that nobody who reads the
    words computes them again.
    """

    def rounds(nought: jax.Array, _: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        # The number of the round: a compiler that could leave it out would take the rounds out of the loop.
        return _packed(_twenty_rounds(key, (counters[0] + jnp.asarray(nought, jnp.uint32), *counters[1:])))

    shapes = jax.eval_shape(lambda: _packed(counters))
    nothing = tuple(jnp.zeros(shape.shape, shape.dtype) for shape in shapes)
    return _unpacked(lax.fori_loop(0, opaque_one(key[0]), rounds, nothing))


def _twenty_rounds(key: jax.Array, counters: Words) -> Words:
    schedule = (*key, jnp.uint32(_PARITY) ^ key[0] ^ key[1] ^ key[2] ^ key[3])
    a, b, c, d = (counter + word for counter, word in zip(counters, key, strict=True))
    for group in range(1, 6):
        for number, turns in enumerate(_EVEN if group % 2 else _ODD):
            if number % 2 == 0:
                a, c = a + b, c + d
                b, d = _rotate(b, turns[0]) ^ a, _rotate(d, turns[1]) ^ c
            else:
                a, c = a + d, c + b
                d, b = _rotate(d, turns[0]) ^ a, _rotate(b, turns[1]) ^ c
        keys = [schedule[(group + place) % 5] for place in range(4)]
        a, b, c, d = a + keys[0], b + keys[1], c + keys[2], d + keys[3] + jnp.uint32(group)
    return a, b, c, d


def _packed(words: Words) -> tuple[jax.Array, ...]:
    """On a CPU, two words as one complex number.

    XLA runs all rounds again for each array that comes out of them there: two arrays take half the time of
    four. Bits are moved and never computed with, so a word that spells NaN stays what it is.
    """
    if jax.default_backend() != "cpu":
        return words
    a, b, c, d = (lax.bitcast_convert_type(word, jnp.float32) for word in words)
    return lax.complex(a, b), lax.complex(c, d)


def _unpacked(words: tuple[jax.Array, ...]) -> Words:
    if len(words) == 4:
        return words
    p, q = words
    return _bits(lax.real(p)), _bits(lax.imag(p)), _bits(lax.real(q)), _bits(lax.imag(q))


def opaque_one(word: jax.Array) -> jax.Array:
    """The number 1, which no compiler knows to be 1: a loop of so many rounds is neither unrolled nor fused.

    Bit 1 of a square is never set.
    """
    return 1 + (jnp.square(word) & 2).astype(jnp.int32)


def _bits(words: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(words, jnp.uint32)


def _rotate(words: jax.Array, turn: int) -> jax.Array:
    return (words << jnp.uint32(turn)) | (words >> jnp.uint32(32 - turn))
