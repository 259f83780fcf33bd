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

_ALIGNED = 64
_PARITY = 0x1BD11BDA
_EVEN = ((10, 26), (11, 21), (13, 27), (23, 5))  # the rotations of four rounds, and of the four after them
_ODD = ((6, 20), (17, 11), (25, 10), (18, 20))

Words = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def key_words(key: jax.Array) -> jax.Array:
    """The four words of a key; a key of 64 bits is padded and gets no stronger."""
    data = jax.random.key_data(key)
    return jnp.pad(data, (0, 4 - data.shape[0]))


def align(blocks: int) -> int:
    """So many or a few more, such that XLA is fast: it takes twice as long for arrays of odd lengths.

    Example:
        >>> align(1), align(65)
        (64, 128)
    """
    return max(-(-blocks // _ALIGNED), 1) * _ALIGNED


def words_from(key: jax.Array, first: jax.typing.ArrayLike, blocks: int, purpose: int) -> Words:
    """Four words for each of the counters from `first` on: four arrays (blocks,), uint32.

    Args:
        key: four words, as `key_words` gives them.
        purpose: draws with different ones share no counter.
    """
    counter = jnp.asarray(first, jnp.uint32) + jnp.arange(blocks, dtype=jnp.uint32)
    zero = jnp.zeros_like(counter)
    return threefry(key, (counter, zero + jnp.uint32(purpose), zero, zero))


def threefry(key: jax.Array, counters: Words) -> Words:
    """Threefry-4x32 with 20 rounds: key (4,) and four arrays of counters, all uint32.

    The rounds are rolled into loops of eight: written out, XLA would compute each of them over and over.
    """
    parity = jnp.uint32(_PARITY) ^ key[0] ^ key[1] ^ key[2] ^ key[3]
    schedule = jnp.stack([*key, parity])

    def four_rounds(x: Words, group: jax.Array, rotations: tuple[tuple[int, int], ...]) -> Words:
        a, b, c, d = x
        for number, turns in enumerate(rotations):
            if number % 2 == 0:
                a, c = a + b, c + d
                b, d = _rotate(b, turns[0]) ^ a, _rotate(d, turns[1]) ^ c
            else:
                a, c = a + d, c + b
                d, b = _rotate(d, turns[0]) ^ a, _rotate(b, turns[1]) ^ c
        later = jnp.asarray(group, jnp.uint32) + 1
        keys = [schedule[(later + place) % 5] for place in range(4)]
        return a + keys[0], b + keys[1], c + keys[2], d + keys[3] + later

    def eight_rounds(pair: jax.Array, x: Words) -> Words:
        return four_rounds(four_rounds(x, 2 * pair, _EVEN), 2 * pair + 1, _ODD)

    x = (counters[0] + key[0], counters[1] + key[1], counters[2] + key[2], counters[3] + key[3])
    x = lax.fori_loop(0, 2, eight_rounds, x)
    return lax.fori_loop(4, 4 + opaque_one(key[0]), lambda group, x: four_rounds(x, group, _EVEN), x)


def opaque_one(word: jax.Array) -> jax.Array:
    """The number 1, which no compiler knows to be 1: a loop of so many rounds is neither unrolled nor fused.

    Bit 1 of a square is never set.
    """
    return 1 + (jnp.square(word) & 2).astype(jnp.int32)


def _rotate(words: jax.Array, turn: int) -> jax.Array:
    return (words << jnp.uint32(turn)) | (words >> jnp.uint32(32 - turn))
