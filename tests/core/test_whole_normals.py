"""Whole normal numbers: published words, an exact table, the right law far into the tails, and fixed work."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import chdtrc, ndtr

from reticent.core import whole_normals as module
from reticent.core.alias import CELLS, DEVIATION, FIRST_BITS, HALF, normal_masses, normal_table
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.whole_normals import DrawPart, dither, floor_deviation, largest, whole_normals
from reticent.core.words import MOST_BLOCKS, threefry, words_from

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


def test_no_bit_of_a_word_is_lost_on_its_way_through_a_complex_number() -> None:
    """One word in 512 spells a signalling NaN, which arithmetic would change: all are as NumPy has them."""
    key = np.array([0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89], np.uint32)
    counters = np.arange(50_000, dtype=np.uint32)
    found = jax.jit(lambda key: words_from(key, 0, len(counters), 5))(jnp.asarray(key))
    wanted = threefry_in_numpy(key, (counters, np.full_like(counters, 5), 0 * counters, 0 * counters))
    spells_nan = [(word & 0x7FC00000 == 0x7F800000) & (word & 0x3FFFFF > 0) for word in wanted]
    assert np.sum(spells_nan) > 200
    for word, right in zip(found, wanted, strict=True):
        assert np.array_equal(word, right)


def threefry_in_numpy(key: np.ndarray, counters: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Written from the paper: words 0 and 1 are mixed and words 2 and 3; then 1 and 3 change places."""
    turns = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    schedule = [*key, np.bitwise_xor.reduce(key) ^ np.uint32(0x1BD11BDA)]
    x = [counter + word for counter, word in zip(counters, key, strict=True)]
    for number in range(20):
        for pair, turn in zip(((0, 1), (2, 3)), turns[number % 8], strict=True):
            x[pair[0]] = x[pair[0]] + x[pair[1]]
            turned = (x[pair[1]] << np.uint32(turn)) | (x[pair[1]] >> np.uint32(32 - turn))
            x[pair[1]] = turned ^ x[pair[0]]
        x[1], x[3] = x[3], x[1]
        if number % 4 == 3:
            later = number // 4 + 1
            x = [word + schedule[(later + place) % 5] for place, word in enumerate(x)]
            x[3] = x[3] + np.uint32(later)
    return x


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
    own = np.asarray(module._settle(words, ties, jnp.uint32(0)))
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
        return np.asarray(module._settle(words, tie, last))

    has_less = np.asarray(second) > 0
    assert np.array_equal(found(second - 1, third)[has_less], own[has_less])
    assert np.array_equal(found(second + 1, third), alias)
    assert np.array_equal(found(second, third), alias)
    assert np.array_equal(found(second, third - 1)[np.asarray(third) > 0], own[np.asarray(third) > 0])


@pytest.mark.parametrize("multiple", [0, 7])
def test_numbers_that_words_leave_open_are_decided_in_as_many_blocks_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, multiple: int
) -> None:
    """Planted: words that tie, in as many blocks as there is room for, and in one more, which stays open."""
    lanes, real = 1024, module.words_at
    table = normal_table()
    cell = int(np.flatnonzero((table.first >> FIRST_BITS) != np.arange(CELLS))[0])
    tie = jnp.uint32((cell << FIRST_BITS) | (int(table.first[cell]) & ((1 << FIRST_BITS) - 1)))
    places = [block * module._BLOCK + block for block in range(module._MOST_TIES + 1)]

    def planted(key: jax.Array, counters: jax.Array, purpose: Any) -> tuple[jax.Array, ...]:
        words = real(key, counters, purpose)
        is_look_up = jnp.isin(jnp.asarray(purpose), jnp.array([module._LOOK_UPS, module._MORE]))
        is_planted = jnp.isin(counters, jnp.array(places, jnp.uint32))
        found = words[0], jnp.where(is_planted, tie, words[1]), *words[2:]
        # Further bits say: the cell's own value.
        return tuple(jnp.where(is_look_up, word, jnp.uint32(0)) for word in found)

    monkeypatch.setattr(module, "words_at", planted)
    key, start = jnp.arange(4, dtype=jnp.uint32), jnp.zeros(1, jnp.uint32)
    found = np.asarray(module._stretches(key, start, lanes, multiple)).reshape(2, 4, lanes)
    at = module._Lanes(start[0], jnp.arange(lanes, dtype=jnp.uint32), lanes)
    wanted = np.stack(module._marked(key, at, multiple, module._decide)) >> 1
    left = np.argwhere(found != wanted)
    assert {tuple(place) for place in left} <= {(1, 0, places[-1]), (0, 2, places[-1])}
    assert len(left) >= 1
    assert wanted[1, 0, places[0]] - found[1, 0, places[-1]] != 0


def test_more_ties_than_there_is_room_for_are_in_the_distance() -> None:
    """P(at least k of n) <= C(n, k) p^k, for the longest stretch, shared by its numbers of three look-ups."""
    numbers, room = module._NUMBERS * module._LANES, module._MOST_TIES
    chance = math.comb(3 * numbers, room + 1) * 2.0 ** (-FIRST_BITS * (room + 1))
    assert chance / numbers < 2.0**-74
    assert module.DISTANCE > 3 * 2.0**-78 + 2.0**-74 + 2.0**-67.3


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


@pytest.mark.parametrize(
    ("draw", "most"),
    [
        (lambda key, count: whole_normals(key, count), module.MOST_NUMBERS),
        (lambda key, count: whole_normals(key, 9, part=DrawPart(0, count)), module.MOST_NUMBERS),
        (lambda key, count: dither(key, count), module.MOST_NUMBERS),
        (lambda key, count: words_from(jax.random.key_data(key), 0, count, 0), MOST_BLOCKS),
    ],
    ids=["normals", "a part", "coins", "words"],
)
def test_a_draw_in_which_numbers_would_come_again_is_refused(draw, most: int) -> None:
    """Counters have 32 bits: those of one draw go round, and the same noise would be on two sums."""
    traced = lambda count: jax.eval_shape(lambda key: draw(key, count), key_of(0))  # noqa: E731
    assert traced(most) is not None
    with pytest.raises(InvalidArgument, match=f"{most + 1:,}"):
        traced(most + 1)


@pytest.mark.parametrize("multiple", [0, 7])
def test_the_longest_draw_takes_no_counter_twice(multiple: int) -> None:
    """Its last stretch, and the one after it that a part may begin, end before the counters do."""
    lanes = module._lanes(module.MOST_NUMBERS)
    stretches = -(-module.MOST_NUMBERS // (lanes * module._NUMBERS))
    rows = 2 if multiple else 4
    at = module._Lanes(jnp.uint32(stretches), jnp.uint32(lanes - 1), lanes)
    assert int(at.counters(rows)[-1, 0]) == (stretches + 1) * rows * lanes - 1 < 2**32


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
