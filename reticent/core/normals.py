"""Standard normal numbers in bulk: 128-bit keys, a few nanoseconds each, and tails out to six deviations.

JAX's own generator for keys of 128 bits takes several times as long on a CPU, and its normal numbers
end at 5.4 deviations. Words come from Threefry-4x32 with all 20 rounds, numbers from them by the inverse
of the error function.

Reference:
    Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3 (the words).
    Giles (2012), Approximating the erfinv function (the variables of its two polynomials).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_STRETCH = 1 << 14  # counters
_PARITY = 0x1BD11BDA
_ROTATIONS = np.array(  # of the two mixes in each of eight rounds, which then repeat
    [[10, 26], [11, 21], [13, 27], [23, 5], [6, 20], [17, 11], [25, 10], [18, 20]], np.uint32
)
# erfinv(1 - p) / (1 - p) by w = -ln(p (2 - p)): in w - 2.5 below 5, in sqrt(w) - 3 from there to the last
# word's 22.2. Fitted by least squares to a relative error of 4e-7; coefficients from the highest power.
_CENTRE = (2.85342684e-08, 3.4372634e-07, -3.52885331e-06, -4.39677343e-06, 0.000218602171,
           -0.00125370754, -0.00417770772, 0.246640726, 1.50140942)  # fmt: skip
_TAIL = (-1.08439828e-05, -0.000138048409, 0.0011498155, -0.00339587268, 0.00581009571,
         -0.00771754804, 0.00942791388, 1.00168227, 2.83297734)  # fmt: skip


class Part(NamedTuple):
    """Where some numbers stand in a longer draw: from `first` on, which may be traced, of `of` in all."""

    first: jax.typing.ArrayLike
    of: int


def standard_normals(key: jax.Array, count: int, *, part: Part | None = None) -> jax.Array:
    """`count` independent standard normal numbers, in float32.

    Args:
        key: of 128 bits, as `Keys` gives them, or of 64; it must be used for nothing else.
        part: the numbers that a longer draw from this key would have there, without drawing the others.
    """
    data = jax.random.key_data(key)
    key_words = jnp.pad(data, (0, 4 - data.shape[0]))  # a key of 64 bits is no stronger for it
    if part is None:
        return normal_of_word(random_words(key_words, -(-count // 4))[:count])
    return normal_of_word(_words_at(key_words, count, part))


def random_words(key: jax.Array, blocks: int) -> jax.Array:
    """Four random words for each of the counters below `blocks`, and for some more: uint32, flat.

    One stretch of counters after the other: on many at once XLA would put several threads to work, each of
    which computes what the others do.
    """
    stretch = min(blocks, _STRETCH)
    starts = jnp.arange(0, max(blocks, 1), max(stretch, 1), dtype=jnp.uint32)
    return _stretches(key, starts, stretch)


def _words_at(key: jax.Array, count: int, part: Part) -> jax.Array:
    """The words of `random_words` from one place on: whole stretches are made, two more at most."""
    stretch = max(min(-(-part.of // 4), _STRETCH), 1)
    first = jnp.asarray(part.first, jnp.uint32)
    begun = first // (4 * stretch)
    starts = (begun + jnp.arange(-(-count // (4 * stretch)) + 1, dtype=jnp.uint32)) * stretch
    words = _stretches(key, starts, stretch)
    return lax.dynamic_slice_in_dim(words, first - begun * (4 * stretch), count)


def _stretches(key: jax.Array, starts: jax.Array, stretch: int) -> jax.Array:
    def words_from(first: jax.Array) -> jax.Array:
        counters = jnp.zeros((4, stretch), jnp.uint32)
        return threefry(key, counters.at[0].set(first + jnp.arange(stretch, dtype=jnp.uint32)))

    return lax.map(words_from, starts).reshape(-1)


def threefry(key: jax.Array, counters: jax.Array) -> jax.Array:
    """Threefry-4x32 with 20 rounds: key (4,) and counters (4, n), all uint32.

    The rounds are rolled into a loop: written out, XLA would compute each of them over and over.
    """
    parity = jnp.uint32(_PARITY) ^ key[0] ^ key[1] ^ key[2] ^ key[3]
    schedule = jnp.stack([*key, parity])
    rotations = jnp.asarray(_ROTATIONS.reshape(2, 4, 2))

    def four_rounds(group: jax.Array, x: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        a, b, c, d = x
        turns = rotations[group % 2]
        for number in range(4):
            a, c = (a + b, c + d) if number % 2 == 0 else (a + d, c + b)
            if number % 2 == 0:
                b, d = _turned(b, turns[number, 0]) ^ a, _turned(d, turns[number, 1]) ^ c
            else:
                d, b = _turned(d, turns[number, 0]) ^ a, _turned(b, turns[number, 1]) ^ c
        later = jnp.asarray(group, jnp.uint32) + 1
        keys = [schedule[(later + place) % 5] for place in range(4)]
        return a + keys[0], b + keys[1], c + keys[2], d + keys[3] + later

    start = tuple(counters[place] + key[place] for place in range(4))
    return jnp.stack(lax.fori_loop(0, 5, four_rounds, start))


def normal_of_word(words: jax.Array) -> jax.Array:
    """The standard normal number of each word: its lowest bit is the sign, the others say how rare it is.

    With p the probability of a number as far out on either side, the number is sqrt(2) erfinv(1 - p).
    """
    rarity = ((words >> 1).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-31)  # in [2^-32, 1]
    w = -jnp.log(rarity * (2.0 - rarity))
    centre, tail = jnp.float32(_CENTRE[0]), jnp.float32(_TAIL[0])
    near, far = w - 2.5, jnp.sqrt(jnp.maximum(w, 5.0)) - 3.0
    for at_centre, at_tail in zip(_CENTRE[1:], _TAIL[1:], strict=True):
        centre = centre * near + jnp.float32(at_centre)
        tail = tail * far + jnp.float32(at_tail)
    size = jnp.float32(2**0.5) * (1.0 - rarity) * jnp.where(w < 5.0, centre, tail)
    return jnp.where(words & 1 == 0, size, -size)


def _turned(words: jax.Array, turn: jax.Array) -> jax.Array:
    return (words << turn) | (words >> (jnp.uint32(32) - turn))
