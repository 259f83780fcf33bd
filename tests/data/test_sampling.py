"""Samplers: the law of what they draw, and that their event is the law's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import bdtr, bdtrc
from scipy.stats import binom

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.data import chance
from reticent.data.chance import binomial_law
from reticent.data.sampling import (
    Batch,
    FixedSize,
    FullBatch,
    Poisson,
    Sampler,
    Shuffled,
)
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    FixedSizeSampled,
    Gaussian,
    Repeated,
    TruncatedPoissonSampled,
)

STEPS = 2_000
NOISY_SUM = Gaussian(noise_multiplier=1.0)


@cache
def program(sampler: Sampler, rows: int) -> Callable[[jax.Array, jax.Array], Batch]:
    """Whole-number arithmetic, the same from every compiler: see statistical/test_any_compiler.py."""
    return jax.jit(lambda root, steps: sampler.draw(root, steps, rows))


@cache
def root(seed: int) -> jax.Array:
    return Keys.seeded(seed).take(Stream.SAMPLING, steps=range(STEPS))


@cache
def drawn(sampler: Sampler, rows: int, *, seed: int = 0) -> Batch:
    return jax.device_get(program(sampler, rows)(root(seed), jnp.arange(STEPS)))


def members(batch: Batch) -> list[np.ndarray]:
    return [np.asarray(i)[np.asarray(r)] for i, r in zip(batch.indices, batch.is_real, strict=True)]


SAMPLERS: list[tuple[Sampler, int]] = [
    (Poisson(examples=500, batch_size=50), 500),  # a coin a record
    (Poisson(examples=5_000, batch_size=50), 5_000),  # a count, then so many records
    (Poisson(examples=500, batch_size=50, largest=55), 500),
    (Poisson(examples=64, batch_size=64), 64),
    (FixedSize(examples=500, batch_size=50), 500),
    (FixedSize(examples=5_000, batch_size=50), 5_000),
    (FullBatch(examples=77), 77),
    (Shuffled(examples=500, batch_size=64), 500),
]


@pytest.mark.parametrize(("sampler", "rows"), SAMPLERS, ids=str)
def test_a_batch_has_one_shape_and_no_record_twice(sampler: Sampler, rows: int) -> None:
    batch = drawn(sampler, rows)
    assert batch.indices.shape == batch.is_real.shape == (STEPS, sampler.capacity)
    for inside in members(batch):
        assert len(set(inside.tolist())) == len(inside)
        assert np.all((inside >= 0) & (inside < rows))


@pytest.mark.parametrize(("sampler", "rows"), SAMPLERS, ids=str)
def test_a_neighbours_number_of_records_is_allowed_and_fits(sampler: Sampler, rows: int) -> None:
    """Were it refused, the error itself would tell two neighbours apart."""
    may_differ = Adjacency.ADD_OR_REMOVE in sampler.adjacencies
    assert sampler.allowed_difference >= may_differ
    for other in (rows - sampler.allowed_difference, rows + sampler.allowed_difference):
        batch = jax.eval_shape(lambda rows=other: sampler.draw(root(0), jnp.arange(20), rows))
        assert batch.indices.shape == (20, sampler.capacity)
        if isinstance(sampler, FullBatch):
            assert all(len(inside) == other for inside in members(drawn(sampler, other)))


@pytest.mark.parametrize(("sampler", "rows"), SAMPLERS, ids=str)
def test_real_rows_come_first(sampler: Sampler, rows: int) -> None:
    is_real = np.asarray(drawn(sampler, rows).is_real)
    assert np.all(is_real[:, :-1] >= is_real[:, 1:])


@pytest.mark.parametrize("rows", [500, 5_000])
def test_poisson_includes_every_record_equally_often(rows: int) -> None:
    # Exact binomial tails of up to 5,000 counts, each below 1e-7 with probability 2e-7: a false alarm in
    # one of a thousand seeds, and this one is fixed.
    sampler = Poisson(examples=rows, batch_size=50)
    counts = np.bincount(np.concatenate(members(drawn(sampler, rows))), minlength=rows)
    low = bdtr(counts, STEPS, sampler.rate)
    high = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), STEPS, sampler.rate), 1.0)
    assert np.all(np.minimum(low, high) > 1e-7)


@pytest.mark.parametrize("rows", [500, 5_000])
def test_poisson_batch_sizes_are_binomial(rows: int) -> None:
    # Kolmogorov's distance over 2,000 sizes: above 2.6 / sqrt(2000) with probability below 3e-6.
    sampler = Poisson(examples=rows, batch_size=50)
    sizes = np.asarray(drawn(sampler, rows).is_real).sum(axis=1)
    grid = np.arange(rows + 1)
    empirical = np.searchsorted(np.sort(sizes), grid, side="right") / len(sizes)
    assert np.abs(empirical - bdtr(grid, rows, sampler.rate)).max() < 2.6 / np.sqrt(2_000)


@pytest.mark.parametrize(("rows", "successes"), [(40, 3 << 28), (300, 1 << 26), (300, (1 << 32) - 5), (7, 1)])
def test_the_law_of_batch_sizes_is_binomial_to_80_bits(rows: int, successes: int) -> None:
    least, law = binomial_law(rows, successes)
    chance = Fraction(successes, 2**32)
    exact = [math.comb(rows, k) * chance**k * (1 - chance) ** (rows - k) for k in range(rows + 1)]
    reached = [Fraction(0), *(Fraction(number, 2**96) for number in law)]
    masses = dict(enumerate((after - before for before, after in itertools.pairwise(reached)), least))
    off = sum(abs(mass - masses.get(count, 0)) for count, mass in enumerate(exact)) / 2
    assert off < 2.0**-80


def test_the_law_of_a_billion_rows_is_the_float_one_as_far_as_floats_go() -> None:
    least, law = binomial_law(10**9, 281_474)
    counts = least + np.arange(len(law))
    floats = np.array([number / 2**96 for number in law])
    assert np.abs(floats - binom.cdf(counts, 10**9, 281_474 / 2**32)).max() < 1e-12
    # What batch sizes were drawn from before: off by 2e-6.
    assert np.abs(floats - bdtr(counts, 10**9, 281_474 / 2**32)).max() > 1e-6


@pytest.mark.parametrize("rows", [500, 5_000])
def test_planted_fixed_size_batches_do_not_pass_for_poisson(rows: int) -> None:
    sizes = np.asarray(drawn(FixedSize(examples=rows, batch_size=50), rows).is_real).sum(axis=1)
    grid = np.arange(rows + 1)
    empirical = np.searchsorted(np.sort(sizes), grid, side="right") / len(sizes)
    assert np.abs(empirical - bdtr(grid, rows, 50 / rows)).max() > 0.3


def test_poisson_coins_of_two_records_are_independent() -> None:
    # A correlation of 2,000 pairs of coins exceeds 5.2 / sqrt(2000) with probability below 2e-7.
    joined = np.zeros((STEPS, 100))
    for step, inside in enumerate(members(drawn(Poisson(examples=100, batch_size=50), 100))):
        joined[step, inside] = 1
    correlations = np.corrcoef(joined[:, :6].T) - np.eye(6)
    assert np.abs(correlations).max() < 5.2 / np.sqrt(STEPS)


def test_steps_and_runs_draw_different_batches() -> None:
    sampler = Poisson(examples=500, batch_size=50)
    first, second = drawn(sampler, 500, seed=1), drawn(sampler, 500, seed=2)
    assert not np.array_equal(first.indices, second.indices)
    assert not np.array_equal(first.indices[0], first.indices[1])


@pytest.mark.parametrize("index", [1, 4, 7])
def test_draws_do_not_depend_on_how_steps_are_split(index: int) -> None:
    sampler, rows = SAMPLERS[index]
    parts = [program(sampler, rows)(root(0), first + jnp.arange(10)).indices for first in (0, 10)]
    assert np.array_equal(drawn(sampler, rows).indices[:20], np.concatenate(parts))


def test_an_overfull_draw_keeps_a_random_part() -> None:
    sampler = Poisson(examples=100, batch_size=50, largest=20)
    batch = drawn(sampler, 100)
    assert np.asarray(batch.is_real).sum(axis=1).max() == 20
    counts = np.bincount(np.concatenate(members(batch)), minlength=100)
    # 20 of 100 kept nearly always: each count is near 400, with standard deviation 18; 6 of them: 2e-9 each.
    assert np.all(np.abs(counts - 400) < 6 * 18)


def test_without_a_limit_there_is_room_for_every_draw() -> None:
    sampler = Poisson(examples=60_000, batch_size=1024)
    event = sampler.event(NOISY_SUM, 1)
    assert isinstance(event, Repeated)
    assert isinstance(event.event, TruncatedPoissonSampled)
    assert event.event.examples == 60_977
    assert bdtrc(sampler.capacity, 60_978, sampler.rate) < 1e-24


def test_rate_is_a_multiple_of_a_coin_and_never_too_high() -> None:
    for examples in (3, 60_000, 581_012, 2**31 - 1):
        sampler = Poisson(examples=examples, batch_size=1)
        assert sampler.rate <= 1 / examples
        assert (sampler.rate * 2.0**32).is_integer()


def test_shuffled_gives_every_record_once_an_epoch_in_a_new_order() -> None:
    sampler = Shuffled(examples=500, batch_size=64)
    batch = drawn(sampler, 500)
    first, second = (np.concatenate(members(batch)[a : a + 8]) for a in (0, 8))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(500))
    assert first.tolist() != second.tolist()


def test_events_say_what_was_drawn() -> None:
    assert FullBatch(examples=10).event(NOISY_SUM, 7) == Repeated(event=NOISY_SUM, times=7)
    # Eight batches make an epoch of 500: nine steps have begun a second.
    assert Shuffled(examples=500, batch_size=64).event(NOISY_SUM, 9) == Repeated(event=NOISY_SUM, times=2)
    fixed = FixedSize(examples=500, batch_size=50).event(NOISY_SUM, 3)
    assert fixed == Repeated(event=FixedSizeSampled(batch_size=50, examples=500, event=NOISY_SUM), times=3)


def test_adjacencies_without_a_theorem_are_not_offered() -> None:
    assert Adjacency.ADD_OR_REMOVE not in Shuffled(examples=10, batch_size=2).adjacencies
    assert FixedSize(examples=10, batch_size=2).adjacencies == (Adjacency.REPLACE,)


@pytest.mark.parametrize("kind", [Poisson, FixedSize, Shuffled])
def test_a_batch_larger_than_the_data_is_refused(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="at most 10"):
        kind(examples=10, batch_size=11)


def test_distinct_rows_are_the_same_whether_repeats_are_found_by_a_table_or_by_sorting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, count = jax.random.key(3), jnp.int32(150)
    by_table = chance.distinct_rows(key, 300, 200, count)
    monkeypatch.setattr(chance, "_MOST_ENTRIES", 0)
    by_sorting = chance.distinct_rows(key, 300, 200, count)
    for one, other in zip(by_table, by_sorting, strict=True):
        assert np.array_equal(one, other)
    chosen = np.asarray(by_table[0])[np.asarray(by_table[1])]
    assert len(chosen) == len(set(chosen.tolist())) == 150
