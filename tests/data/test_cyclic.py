"""Batches with a schedule: who may be in which batch is enforced by what is drawn."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting import guarantee
from reticent.core.errors import InvalidArgument, Unproven
from reticent.core.keys import Keys, Stream
from reticent.data.cyclic import Cyclic, CyclicPoisson, correlated_event, participation_of
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Shuffled
from reticent.mechanisms import events
from reticent.mechanisms.events import Gaussian, Repeated, TruncatedPoissonSampled
from reticent.noise import banded, independent
from reticent.noise.participation import Participation


def drawn(sampler, steps: int, rows: int | None = None, seed: int = 0) -> list[list[int]]:
    root = Keys.seeded(seed).take(Stream.SAMPLING, steps=range(steps))
    batch = sampler.draw(root, jnp.arange(steps, dtype=jnp.int32), rows or sampler.examples)
    found = []
    for indices, is_real in zip(np.asarray(batch.indices), np.asarray(batch.is_real), strict=True):
        count = int(is_real.sum())
        assert np.all(is_real[:count])  # real rows come first
        assert np.all(indices[count:] == 0)
        found.append(indices[:count].tolist())
    return found


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 30))
def test_cyclic_batches_hold_every_record_once_in_a_turn(examples: int, batch_size: int, steps: int) -> None:
    sampler = Cyclic(examples=examples, batch_size=min(batch_size, examples))
    batches, parts = drawn(sampler, steps), sampler.parts
    for step, batch in enumerate(batches):
        assert batch == list(range(step % parts, examples, parts))
        assert len(batch) <= sampler.capacity
    said = sampler.participation(steps)
    for record in range(examples):
        turns = [step for step, batch in enumerate(batches) if record in batch]
        assert len(turns) <= said.times
        assert all(b - a == said.separation for a, b in itertools.pairwise(turns))


@pytest.mark.parametrize(("examples", "batch_size", "parts"), [(60, 5, 4), (61, 20, 3), (1000, 4, 7)])
def test_records_of_other_parts_wait(examples: int, batch_size: int, parts: int) -> None:
    sampler, steps = CyclicPoisson(examples=examples, batch_size=batch_size, parts=parts), 200
    batches = drawn(sampler, steps)
    for step, batch in enumerate(batches):
        assert len(set(batch)) == len(batch)
        assert all(record % parts == step % parts and record < examples for record in batch)
    turns = np.zeros(examples)
    for batch in batches:
        turns[batch] += 1
    chances = np.array([len(range(record % parts, steps, parts)) for record in range(examples)])
    expected, variance = sampler.rate * chances.sum(), sampler.rate * (1 - sampler.rate) * chances.sum()
    assert abs(turns.sum() - expected) < 5 * np.sqrt(variance) + 1e-9  # false alarms: 6e-7
    assert np.all(turns <= chances)


def test_one_part_is_poisson_sampling_to_the_bit() -> None:
    cyclic, poisson = (
        CyclicPoisson(examples=500, batch_size=20, parts=1),
        Poisson(examples=500, batch_size=20),
    )
    assert drawn(cyclic, 20) == drawn(poisson, 20)
    release = Gaussian(noise_multiplier=1.3)
    assert cyclic.event(release, 20) == poisson.event(release, 20)
    assert correlated_event(banded(bands=1), 1.3, cyclic, 20) == poisson.event(release, 20)
    assert (cyclic.rate, cyclic.capacity, cyclic.allowed_difference) == (
        poisson.rate,
        poisson.capacity,
        poisson.allowed_difference,
    )


def test_a_record_is_charged_for_the_turns_of_its_part() -> None:
    sampler = CyclicPoisson(examples=1000, batch_size=10, parts=4)
    event = correlated_event(banded(bands=3), 2.0, sampler, 10)
    assert isinstance(event, Repeated)
    assert event.times == 3  # of ten steps, in four parts
    assert isinstance(event.event, TruncatedPoissonSampled)
    assert event.event.rate == sampler.rate == pytest.approx(0.04, abs=1e-9)
    reach = np.sqrt(1 + 0.5**2 + 0.375**2)
    assert isinstance(event.event.event, Gaussian)
    assert event.event.event.noise_multiplier == pytest.approx(2.0 / reach, rel=1e-12)
    assert event.event.event.noise_multiplier <= 2.0 / reach


def test_a_place_more_is_in_a_part_with_room() -> None:
    for examples, parts in ((1000, 4), (997, 10), (50, 7)):
        sampler = CyclicPoisson(examples=examples, batch_size=2, parts=parts)
        rows = examples + sampler.allowed_difference
        assert -(-rows // parts) <= sampler._of_part.most
        assert sampler.allowed_difference > 0
        assert all(record < rows for batch in drawn(sampler, 20, rows) for record in batch)


def test_what_each_sampler_enforces() -> None:
    assert participation_of(FullBatch(examples=10), 7) == Participation.cyclic(7, 1)
    assert participation_of(Shuffled(examples=10, batch_size=4), 7) == Participation(times=3, separation=1)
    for sampler in (Poisson(examples=10, batch_size=4), FixedSize(examples=10, batch_size=4)):
        with pytest.raises(Unproven, match="no theorem for correlated noise"):
            participation_of(sampler, 7)


def test_shuffled_batches_may_repeat_a_record_at_once() -> None:
    """So their separation is 1: the last batch of an epoch and the first of the next may share a record."""
    batches = drawn(Shuffled(examples=12, batch_size=4), 60)
    assert any(set(a) & set(b) for a, b in itertools.pairwise(batches))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cyclic(examples=10, batch_size=11),
        lambda: CyclicPoisson(examples=10, batch_size=4, parts=3),
        lambda: CyclicPoisson(examples=10, batch_size=4, parts=0),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make) -> None:
    with pytest.raises(InvalidArgument):
        make()


def test_independent_noise_costs_what_shuffled_batches_cost() -> None:
    release = Gaussian(noise_multiplier=2.0)
    cyclic, shuffled = Cyclic(examples=100, batch_size=30), Shuffled(examples=100, batch_size=30)
    assert cyclic.event(release, 9) == shuffled.event(release, 9)
    whole = correlated_event(independent(), 2.0, cyclic, 9)
    assert whole.noise_multiplier == pytest.approx(2.0 / np.sqrt(3))  # type: ignore[union-attr]


def test_a_group_in_several_parts_has_no_theorem_and_one_part_is_plain_poisson() -> None:
    """Two records of different parts are in twice as many batches as two of one part."""
    release = Gaussian(noise_multiplier=2.0)
    event = CyclicPoisson(examples=1000, batch_size=10, parts=4).event(release, 12)
    assert events.from_json(events.to_json(event)) == event
    with pytest.raises(Unproven):
        guarantee(event, 1e-5, group=2)
    alone = CyclicPoisson(examples=1000, batch_size=10, parts=1).event(release, 12)
    assert "parts" not in str(events.to_json(alone))
    assert guarantee(alone, 1e-5, group=2).epsilon > guarantee(alone, 1e-5).epsilon
