"""Whole normal numbers: published words, an exact table, the right law far into the tails, and fixed work."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import chdtrc, ndtr

from reticent.core import whole_normals as module
from reticent.core.alias import CELLS, DEVIATION, FIRST_BITS, HALF, normal_masses, normal_table
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.whole_normals import DrawPart, dither, floor_deviation, largest, whole_normals
from reticent.core.words import threefry, words_from

COUNT = 1 << 18


@cache
def drawn(seed: int, step: int, count: int, multiple: int = 0) -> np.ndarray:
    """Whole-number arithmetic, the same from every compiler: see statistical/test_any_compiler.py."""
    return np.asarray(jax.jit(lambda key: whole_normals(key, count, multiple=multiple))(key_of(seed, step)))


@pytest.mark.parametrize(
    ("key", "counter", "wanted"),
    [
        (4 * [0], 4 * [0], "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
        (4 * [0xFFFFFFFF], 4 * [0xFFFFFFFF], "2a881696 57012287 f6c7446e a16a6732"),
        (
            [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89],
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            "59cd1dbb b8879579 86b5d00c ac8b6d84",
        ),
    ],
)
def test_words_are_those_of_the_published_known_answers(key, counter, wanted: str) -> None:
    """The three vectors for 20 rounds of Threefry-4x32 that come with Random123."""
    a, b, c, d = (jnp.array([word], jnp.uint32) for word in counter)
    found = threefry(jnp.array(key, jnp.uint32), (a, b, c, d))
    assert " ".join(f"{int(word[0]):08x}" for word in found) == wanted


def key_of(seed: int, step: int = 0) -> jax.Array:
    return step_key(Keys.seeded(seed).take(Stream.NOISE, steps=range(step + 1)), step)


def test_the_table_has_the_law_that_it_was_made_from_exactly() -> None:
    table, cell = normal_table(), 1 << (FIRST_BITS + 64)
    masses = [0] * CELLS
    for at in range(CELLS):
        first, second, third = (int(part[at]) for part in table)
        threshold = ((first & ((1 << FIRST_BITS) - 1)) << 64) | (second << 32) | third
        masses[at] += threshold
        masses[first >> FIRST_BITS] += cell - threshold
    assert masses == list(normal_masses())


def test_masses_are_those_of_the_discrete_normal_law() -> None:
    weights = np.exp(-np.square(np.arange(-HALF, HALF) / DEVIATION) / 2)
    found = np.array([mass / 2.0**96 for mass in normal_masses()])
    assert np.abs(found - weights / weights.sum()).sum() < 1e-12
    assert sum(normal_masses()) == 2**96


@pytest.mark.parametrize("multiple", [0, 1311, 65536])
def test_numbers_are_normal(multiple: int) -> None:
    """A chi-squared test over 1,000 equally likely cells, and one of the variance: false alarms 1e-6 each."""
    found = drawn(1, 0, COUNT, multiple).astype(np.float64)
    found /= DEVIATION * math.sqrt(multiple**2 + 65537)
    counts = np.bincount((ndtr(found) * 1000).astype(int), minlength=1000)
    assert chdtrc(999, float(np.square(counts - COUNT / 1000).sum() / (COUNT / 1000))) > 1e-6
    assert 5e-7 < chdtrc(COUNT, float(np.square(found).sum())) < 1 - 5e-7
    assert floor_deviation(multiple) < DEVIATION * math.sqrt(multiple**2 + 65537)


def test_numbers_go_on_where_float_noise_ends() -> None:
    """Words that stand for the ends of the table give numbers ten deviations out: nothing ends silently."""
    masses = np.array([float(mass) for mass in normal_masses()])
    assert masses.min() > 0
    assert largest() / floor_deviation() > 10
    words = jnp.arange(0, 2**32, 2**FIRST_BITS, dtype=jnp.uint32)  # every cell, its own value
    ties = jnp.zeros_like(words)
    own = np.asarray(module._look_up(words, ties, jnp.uint32(0)))
    assert own.min() <= -HALF + 1
    assert own.max() >= HALF - 2


def test_ties_are_decided_by_further_words() -> None:
    """Where the bits of a word are those of its threshold, the next 32 decide, and then the last 32."""
    table = normal_table()
    mask = (1 << FIRST_BITS) - 1
    at = np.flatnonzero((table.first >> FIRST_BITS) != np.arange(CELLS))[:500]
    words = jnp.asarray((at.astype(np.uint32) << FIRST_BITS) | (table.first[at] & mask))
    second, third = jnp.asarray(table.second[at]), jnp.asarray(table.third[at])
    own, alias = at - HALF, (table.first[at] >> FIRST_BITS).astype(int) - HALF

    def found(tie: jax.Array, last: jax.Array) -> np.ndarray:
        return np.asarray(module._look_up(words, tie, last))

    has_less = np.asarray(second) > 0
    assert np.array_equal(found(second - 1, third)[has_less], own[has_less])
    assert np.array_equal(found(second + 1, third), alias)
    assert np.array_equal(found(second, third), alias)
    assert np.array_equal(found(second, third - 1)[np.asarray(third) > 0], own[np.asarray(third) > 0])


def test_any_three_of_the_words_that_decide_ties_are_independent() -> None:
    """Each is a sum without carry of five words, told here by five bits: any three have rank 3."""
    lanes = 1
    bits = [jnp.full(2, 1 << place, jnp.uint32) for place in range(5)]
    original = module.words_from
    try:
        module.words_from = lambda *_: (
            jnp.concatenate([bits[0][:1], bits[4][:1]]),
            bits[1],
            bits[2],
            bits[3],
        )
        found, _ = module._tie_words(jnp.zeros(4, jnp.uint32), jnp.uint32(0), lanes, 1)
    finally:
        module.words_from = original
    words = [int(word) for part in found for word in part.ravel()]
    assert len(set(words)) == 16
    assert all(word & 1 for word in words)  # an odd number of them never cancels, two only if they are equal
    assert not any(a ^ b ^ c == 0 for a in words for b in words for c in words)


def test_numbers_of_a_draw_and_of_other_keys_have_nothing_in_common() -> None:
    draw = jax.jit(lambda key: whole_normals(key, COUNT // 4))
    draws = np.stack([draw(key_of(2, step)) for step in range(3)]).astype(np.float64)
    bound = 5 / np.sqrt(COUNT // 4)  # five deviations of a correlation of nothing
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < bound
    for lag in (1, 2, 4096, 4 * 4096, 8 * 4096):  # lanes, rows, halves and stretches lie side by side
        assert abs(np.corrcoef(draws[0][lag:], draws[0][:-lag])[0, 1]) < 1.2 * bound
    words = jnp.concatenate(words_from(jax.random.key_data(key_of(3)), 0, 40_000, 0))
    assert len(np.unique(words)) > 159_980


@pytest.mark.parametrize(("count", "multiple"), [(1000, 1311), (30_000, 0)])
def test_a_part_is_what_the_whole_draw_has_there(count: int, multiple: int) -> None:
    whole = drawn(1, 0, COUNT, multiple)

    @jax.jit
    def part(key: jax.Array, first: jax.Array) -> jax.Array:
        return whole_normals(key, count, multiple=multiple, part=DrawPart(first, COUNT))

    for first in (0, 3, 40_000, COUNT - count):
        assert np.array_equal(part(key_of(1), jnp.uint32(first)), whole[first : first + count])


def test_draws_have_any_length_and_keys_of_either_kind() -> None:
    for key, count in ((key_of(4), 0), (key_of(4), 5), (jax.random.key(0), 101)):
        found = jax.eval_shape(lambda key, count=count: whole_normals(key, count), key)
        assert (found.shape, found.dtype) == ((count,), jnp.int32)


def test_keys_may_be_vectorised_over() -> None:
    """Unlike JAX's own generator for such keys, which then draws all numbers from the first one."""
    keys = jnp.stack([jax.random.key_data(key_of(5, step)) for step in range(3)])
    draw = lambda words: whole_normals(jax.random.wrap_key_data(words, impl="rbg"), 9)  # noqa: E731
    found = jax.jit(jax.vmap(draw))(keys)
    alone = np.stack(list(map(jax.jit(draw), keys)))
    assert np.array_equal(found, alone)


def test_coins_for_rounding_are_even() -> None:
    coins = np.asarray(jax.jit(lambda key: dither(key, 100_000))(key_of(6)))
    assert coins.min() == 0.5 / 256
    assert coins.max() == 255.5 / 256
    counts = np.bincount((coins * 256).astype(int), minlength=256)
    assert chdtrc(255, float(np.square(counts - 390.625).sum() / 390.625)) > 1e-6
