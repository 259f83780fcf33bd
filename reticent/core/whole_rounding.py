"""Rounding by chance that hides what was rounded: to whole numbers, by the discrete normal law around it.

A fraction of 8 bits is rounded by a table of its own (`core/alias.py`). One look-up takes three words, which
decide in every case: 5 bits for the cell, 91 for its threshold.

Guarantee:
    A rounded number plus an independent whole normal number of a large deviation has, within 2^-70, the law
    of post-processing a real normal number around what was rounded. Nothing else is told about the fraction.
    The proof is in docs/arithmetic.md.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from reticent.core.alias import FEWEST, OUTCOME_BITS, OUTCOME_FIRST_BITS, rounding_table
from reticent.core.whole_normals import DrawPart
from reticent.core.words import align, key_words, words_at

FARTHEST = 17  # no number is rounded farther than that
_WORDS = 9  # the purpose of the words: none of `whole_normals`
_BITS = (1 << OUTCOME_FIRST_BITS) - 1


def round_normally(
    key: jax.Array, fractions: jax.Array, *, part: DrawPart | None = None, stage: int = 0
) -> jax.Array:
    """What fractions are rounded to, in whole numbers from -15 to 16: int32.

    Args:
        key: used for nothing else.
        fractions: from 0 to 255, in 256 parts of 1: (count,) int32.
        part: where these numbers stand in a longer draw.
        stage: of several with one key; each draws words of its own.
    """
    count = fractions.shape[0]
    first = jnp.uint32(0) if part is None else jnp.asarray(part.first, jnp.uint32)
    counters = first + jnp.arange(align(count), dtype=jnp.uint32)
    words = [row[:count] for row in words_at(key_words(key), counters, _WORDS + stage)]
    table = [jnp.asarray(column) for column in rounding_table()]
    outcome, bits = words[0] >> OUTCOME_FIRST_BITS, words[0] & _BITS
    cell = (fractions.astype(jnp.uint32) << OUTCOME_BITS) + outcome
    entry, second, third = (column.at[cell].get(mode="promise_in_bounds") for column in table)
    threshold = entry & _BITS
    is_below = (bits < threshold) | (
        (bits == threshold) & ((words[1] < second) | ((words[1] == second) & (words[2] < third)))
    )
    return jnp.where(is_below, outcome, entry >> OUTCOME_FIRST_BITS).astype(jnp.int32) + FEWEST
