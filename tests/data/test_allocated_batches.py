"""Random allocation: the law of what is drawn, and that the event is the law's."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import bdtrc, chdtrc
from scipy.stats import binom

from reticent.accounting.setting import Setting
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.data.allocation import Allocation, fresh_step_of
from reticent.data.chance import uniform_below
from reticent.data.sampling import Batch, Poisson, Sampler, Shuffled, places_among
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Allocated, Composed, Gaussian, Repeated
from reticent.mechanisms.sampling_events import Sampling

NOISY_SUM = Gaussian(noise_multiplier=1.0)
ONE = Allocation(examples=300, batch_size=32)  # rounds of 10 steps
THREE = Allocation(examples=200, batch_size=50, times=3)  # 3 of 12
STEPS = 600


@cache
def drawn(sampler: Sampler, rows: int, seed: int = 0, first: int = 0, count: int = STEPS) -> Batch:
    root = Keys.seeded(seed).take(Stream.SAMPLING, steps=range(first, first + count))
    draw = jax.jit(lambda root, steps: sampler.draw(root, steps, rows))
    return jax.device_get(draw(root, first + jnp.arange(count)))


def joins(sampler: Sampler, rows: int, seed: int = 0) -> np.ndarray:
    """(steps, rows): who is in which batch."""
    batch = drawn(sampler, rows, seed)
    found = np.zeros((STEPS, rows), bool)
    for step, (indices, is_real) in enumerate(zip(batch.indices, batch.is_real, strict=True)):
        inside = np.asarray(indices)[np.asarray(is_real)]
        assert len(set(inside.tolist())) == len(inside)
        found[step, inside] = True
    return found


def by_round(sampler: Allocation, found: np.ndarray) -> np.ndarray:
    """(rounds, steps of a round, rows)"""
    return found.reshape(-1, sampler.steps_per_round, found.shape[1])


@pytest.mark.parametrize("sampler", [ONE, THREE], ids=str)
def test_every_record_is_in_so_many_batches_of_each_round(sampler: Allocation):
    for rows in (sampler.examples, sampler.examples - 40, sampler.most):
        assert np.all(by_round(sampler, joins(sampler, rows)).sum(axis=1) == sampler.times)


@pytest.mark.parametrize("sampler", [ONE, THREE], ids=str)
def test_a_batch_has_one_shape_and_real_rows_come_first(sampler: Allocation):
    batch = drawn(sampler, sampler.examples)
    assert batch.indices.shape == batch.is_real.shape == (STEPS, sampler.capacity)
    is_real = np.asarray(batch.is_real)
    assert np.all(is_real[:, :-1] >= is_real[:, 1:])
    assert np.all(np.asarray(batch.indices)[~is_real] == 0)


def is_even(counts: np.ndarray, expected: float, freedom: int) -> bool:
    """Pearson's test at one in a million."""
    return chdtrc(freedom, float(np.square(counts - expected).sum() / expected)) > 1e-6


def test_all_choices_of_steps_are_alike():
    rounds = by_round(ONE, joins(ONE, 300))
    counts = rounds.sum(axis=(0, 2))
    assert is_even(counts, counts.sum() / 10, 9)
    chosen = by_round(THREE, joins(THREE, 200)).transpose(0, 2, 1).reshape(-1, 12)
    names = chosen @ (1 << np.arange(12))
    counts = np.unique(names, return_counts=True)[1]
    assert len(counts) == math.comb(12, 3)
    assert is_even(counts, len(names) / 220, 219)


def test_records_and_rounds_are_independent():
    """Pairs of steps of two records, and of one record in two rounds: 100 cells each."""
    steps = by_round(ONE, joins(ONE, 300)).argmax(axis=1)  # (rounds, rows)
    neighbours = steps[:, :-1:2] * 10 + steps[:, 1::2]
    assert is_even(np.bincount(neighbours.ravel(), minlength=100), neighbours.size / 100, 99)
    later = steps[:-1:2] * 10 + steps[1::2]
    assert is_even(np.bincount(later.ravel(), minlength=100), later.size / 100, 99)


def test_batch_sizes_are_binomial_and_those_of_shuffled_batches_are_not():
    """Kolmogorov's distance over 600 sizes, which depend little on one another: below 3e-6 by chance."""
    grid = np.arange(301)

    def distance(sampler: Sampler) -> float:
        sizes = np.sort(joins(sampler, 300).sum(axis=1))
        empirical = np.searchsorted(sizes, grid, side="right") / len(sizes)
        return float(np.abs(empirical - binom.cdf(grid, 300, 0.1)).max())

    assert distance(ONE) < 2.6 / math.sqrt(STEPS)
    assert distance(Shuffled(examples=300, batch_size=30)) > 0.3


def test_draws_do_not_depend_on_how_steps_are_split():
    whole = drawn(ONE, 300)
    for first in (7, 20):
        part = drawn(ONE, 300, first=first, count=15)
        assert np.array_equal(whole.indices[first : first + 15], part.indices)
    assert not np.array_equal(whole.indices[:10], whole.indices[10:20])
    assert not np.array_equal(whole.indices[:10], drawn(ONE, 300, seed=1).indices[:10])


def test_the_event_is_that_of_what_was_drawn():
    event = ONE.event(NOISY_SUM, 25)
    assert isinstance(event, Composed)
    whole, begun = event.events
    assert isinstance(whole, Repeated)
    assert isinstance(begun, Repeated)
    assert (whole.times, begun.times) == (2, 1)
    step = whole.event
    assert isinstance(step, Allocated)
    assert (step.steps, step.times, step.capacity, step.examples) == (10, 1, ONE.capacity, ONE.most)
    assert isinstance(begun.event, Allocated)
    assert begun.event.steps_released == 5
    several = THREE.event(NOISY_SUM, 24)
    assert isinstance(several, Repeated)
    assert isinstance(several.event, Allocated)
    assert (several.times, several.event.times, several.event.steps) == (2, 3, 12)
    plain = Setting(
        examples=300, batch_size=32, steps=25, noise_multiplier=1.0, sampling=Sampling.ALLOCATION
    ).event
    assert isinstance(plain, Composed)
    assert [part.event.steps_released for part in plain.events] == [10, 5]  # type: ignore[union-attr]


def test_there_is_room_for_every_draw():
    sampler = Allocation(examples=60_000, batch_size=256)
    assert sampler.steps_per_round == 235
    assert bdtrc(sampler.capacity, sampler.most + 1, 1 / 235) < 1e-24
    assert sampler.allowed_difference > 0
    assert sampler.adjacencies == (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT)
    assert places_among(sampler, 30_000) < sampler.capacity


def test_one_batch_a_round_is_everybody():
    sampler = Allocation(examples=20, batch_size=20)
    assert joins(sampler, 20).all()
    assert sampler.capacity == sampler.most + 1


@pytest.mark.parametrize("bound", [1, 2, 7, 235, 2**16, 2**16 + 1, 10**7 + 3, 2**31 - 1])
def test_numbers_below_a_bound_are_the_whole_part_of_a_product(bound: int):
    key = jax.random.key(3, impl="rbg")
    found = np.asarray(uniform_below(key, bound, 50))
    words = np.asarray(jax.random.bits(key, (4, 50), jnp.uint32)).T.tolist()
    wide = [sum(word << (32 * place) for place, word in enumerate(each)) for each in words]
    assert found.tolist() == [number * bound >> 128 for number in wide]


def test_a_run_is_resumed_at_the_next_round():
    assert [fresh_step_of(ONE, step) for step in (0, 1, 9, 10, 11)] == [0, 10, 10, 10, 20]
    assert fresh_step_of(Poisson(examples=300, batch_size=30), 7) == 7


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"examples": 10, "batch_size": 11}, "A batch of 11 cannot be drawn from 10"),
        ({"examples": 10, "batch_size": 5, "times": 65}, "at most 64 steps"),
        ({"examples": 10, "batch_size": 5, "times": 0}, "times"),
    ],
)
def test_what_cannot_be_drawn_is_refused(how: dict[str, int], said: str):
    with pytest.raises(InvalidArgument, match=said):
        Allocation(**how)


def test_planted_dependence_is_seen():
    """Rounds in which neighbours share a step have even counts, and are caught all the same."""
    steps = by_round(ONE, joins(ONE, 300)).argmax(axis=1)
    steps[:, 1::2] = steps[:, :-1:2]
    assert is_even(np.bincount(steps.ravel(), minlength=10), steps.size / 10, 9 * 4)
    neighbours = steps[:, :-1:2] * 10 + steps[:, 1::2]
    assert not is_even(np.bincount(neighbours.ravel(), minlength=100), neighbours.size / 100, 99)
