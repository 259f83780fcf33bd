"""Orders, sets and numbers of rows by chance, as exact as their events say, inside compiled code."""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_MOST_ENTRIES = 1 << 18  # of a table that is filled anew for every batch


def random_order(key: jax.Array, rows: int) -> jax.Array:
    """All rows in a uniformly random order, int32: sorted by 128 random bits each.

    `jax.random.permutation` sorts by 32 bits, and rows that tie stay in their order.
    """
    words = jax.random.bits(key, (4, rows), jnp.uint32)
    return jax.lax.sort((*words, jnp.arange(rows, dtype=jnp.int32)), num_keys=4)[4]


def uniform_below(key: jax.Array, bound: int, count: int) -> jax.Array:
    """Draws whole numbers below `bound`, at most 2^31: the whole part of `bound` times a 128-bit fraction.

    Guarantee:
        Each is within bound 2^-128 of the uniform law, in total variation.
    """
    low, high = jnp.uint32(bound & 0xFFFF), jnp.uint32(bound >> 16)
    carry = jnp.zeros(count, jnp.uint32)
    # Multiplied digit by digit, 16 bits each, the least first. What is carried stays below `bound`.
    for word in jax.random.bits(key, (4, count), jnp.uint32):
        for digit in (word & 0xFFFF, word >> 16):
            carry = digit * high + (carry >> 16) + ((digit * low + (carry & 0xFFFF)) >> 16)
    return carry.astype(jnp.int32)


class BinomialTable(NamedTuple):
    """Thresholds of a 96-bit number: how many it reaches, plus `least`, is binomially distributed."""

    least: int
    words: tuple[jax.Array, jax.Array, jax.Array]  # of each threshold, the upper 32 bits first

    def draw(self, key: jax.Array) -> jax.Array:
        a, b, c = jax.random.bits(key, (3,), jnp.uint32)
        high, middle, low = self.words
        reaches = (a > high) | ((a == high) & ((b > middle) | ((b == middle) & (c >= low))))
        return self.least + jnp.sum(reaches, dtype=jnp.int32)


@functools.lru_cache(maxsize=8)
def binomial_law(rows: int, successes: int) -> tuple[int, tuple[int, ...]]:
    """The least count that happens, and in units of 2^-96 the chances of at most that many, of one more...

    Args:
        successes: of 2^32, the probability of a coin.

    Guarantee:
        Within 2^-80 of the binomial law in total variation: whole numbers of 240 bits all the way. SciPy's
        `bdtr` is off by 6e-11 at 60,000 rows and by 2e-6 at a billion, which steps would add up.
    """
    failures = 2**32 - successes
    mode = min((rows + 1) * successes // 2**32, rows)
    weights = [1 << 240]
    while mode + len(weights) <= rows and weights[-1] >> 140:  # beyond: less than 2^-90 of all
        count = mode + len(weights)
        weights.append(weights[-1] * (rows - count + 1) * successes // (count * failures))
    below = [1 << 240]
    while mode - len(below) >= 0 and below[-1] >> 140:
        count = mode - len(below)
        below.append(below[-1] * (count + 1) * failures // ((rows - count) * successes))
    masses = below[:0:-1] + weights
    total = sum(masses)
    cumulative = itertools.accumulate(masses)
    return mode - len(below) + 1, tuple((reached << 96) // total for reached in cumulative)


def binomial_table(rows: int, rate: float, most: int) -> BinomialTable:
    """The law of how many rows join, each with a chance of `rate`, a multiple of 2^-32; at most `most`."""
    least, law = binomial_law(rows, round(rate * 2.0**32))
    thresholds = law[: max(min(most, rows) - least, 0)]
    parts = [[min(number, 2**96 - 1) >> place & 0xFFFFFFFF for number in thresholds] for place in (64, 32, 0)]
    return BinomialTable(least, tuple(jnp.asarray(np.array(part, np.uint32)) for part in parts))  # type: ignore[arg-type]


def _is_first(drawn: jax.Array, numbers: int) -> jax.Array:
    """Which entries have no equal before them; all are below `numbers`."""
    places = jnp.arange(drawn.shape[0], dtype=jnp.int32)
    if numbers <= _MOST_ENTRIES:  # a table takes a tenth of the time of a sort
        first = jnp.full(numbers, drawn.shape[0], jnp.int32).at[drawn].min(places, mode="promise_in_bounds")
        return first.at[drawn].get(mode="promise_in_bounds") == places
    order = jnp.argsort(drawn, stable=True)
    ordered = drawn[order]
    is_repeat = jnp.concatenate([jnp.zeros(1, bool), ordered[1:] == ordered[:-1]])
    return jnp.zeros(drawn.shape[0], bool).at[order].set(~is_repeat)


def distinct_rows(key: jax.Array, rows: int, capacity: int, count: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first `count` distinct records of a long uniform sequence, in `capacity` places, and which count.

    Numbers are drawn below the next power of two and dropped when there is no such record, so each
    record is exactly equally likely. The sequence is so long that it runs out with probability 1e-25.
    """
    bits = max((rows - 1).bit_length(), 1)
    accepted = rows / 2**bits
    repeats = capacity * capacity / (2 * rows)
    needed = (capacity + repeats + 12 * math.sqrt(repeats + 1)) / accepted
    length = int(needed + 12 * math.sqrt(needed) + 32)
    drawn = (jax.random.bits(key, (length,), jnp.uint32) >> (32 - bits)).astype(jnp.int32)
    is_new = _is_first(drawn, 2**bits) & (drawn < rows)
    chosen = jnp.flatnonzero(is_new, size=capacity, fill_value=0)
    enough = jnp.minimum(count, jnp.sum(is_new, dtype=jnp.int32))
    is_real = jnp.arange(capacity, dtype=jnp.int32) < enough
    return jnp.where(is_real, drawn[chosen], 0), is_real
