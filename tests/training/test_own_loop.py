"""A loop of one's own: the noise of the plan, its divisor, its batches, and nothing past its last step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.core.errors import DataError, InvalidArgument, KeyReuse
from reticent.core.keys import Keys
from reticent.data.sampling import Poisson
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import flat
from reticent.training.own_loop import PrivateBatch, private_batches, private_noise
from reticent.training.plan import AdaptiveNorm, Plan

RECORDS, STEPS, NUMBERS = 60, 5, 20_000
PLAN = Plan(
    sampler=Poisson(examples=RECORDS, batch_size=12),
    clipping=flat(0.5),
    noise_multiplier=3.0,
    steps=STEPS,
    delta=1e-5,
    adjacency=Adjacency.ADD_OR_REMOVE,
)


def updates_for(total: Any, steps: int = 1, seed: int = 0) -> list[np.ndarray]:
    noise: Any = private_noise(PLAN, keys=Keys.seeded(seed))
    state, update, found = noise.init(total), jax.jit(noise.update), []
    for _ in range(steps):
        mean, state = update(total, state)
        found.append(np.asarray(mean))
    return found


def test_an_update_is_the_sum_over_the_batch_size_with_the_noise_of_the_plan():
    """A deviation that is off by 5% is ten deviations of its estimate away: false alarms below 1e-20."""
    (update,) = updates_for(jnp.full(NUMBERS, 7.0))
    noise = update - 7.0 / 12
    assert np.std(noise) == pytest.approx(PLAN.noise_deviation, rel=0.05)
    assert abs(np.mean(noise)) < 8 * PLAN.noise_deviation / np.sqrt(NUMBERS)
    assert np.std(noise / 2) != pytest.approx(PLAN.noise_deviation, rel=0.05)  # half of it would be seen


def test_every_step_has_noise_of_its_own():
    first, second = updates_for(jnp.zeros(NUMBERS), steps=2)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05  # seven deviations


def test_a_second_start_would_repeat_the_noise_and_is_refused():
    noise: Any = private_noise(PLAN, keys=Keys.seeded(0))
    noise.init(jnp.zeros(3))
    with pytest.raises(KeyReuse):
        noise.init(jnp.zeros(3))


def test_compiled_noise_is_the_same_noise_and_past_the_last_step_there_is_none():
    """What is compiled cannot raise: it gives zeros."""
    noise: Any = private_noise(replace(PLAN, steps=1), keys=Keys.seeded(4))
    state, compiled = noise.init(jnp.zeros(50)), jax.jit(noise.update)
    mean, past = noise.update(jnp.ones(50), state)
    assert np.all(np.asarray(mean) != 0)
    assert np.array_equal(compiled(jnp.ones(50), state)[0], mean)
    with pytest.raises(InvalidArgument, match="All 1 steps of the plan have been taken"):
        noise.update(jnp.ones(50), past)
    assert np.array_equal(compiled(jnp.ones(50), past)[0], np.zeros(50))


def test_it_is_a_link_of_a_chain_and_keeps_the_kind_of_the_parameters():
    optimizer: Any = optax.chain(private_noise(PLAN, keys=Keys.seeded(0)), optax.adam(0.1))
    params = {"w": jnp.zeros(3, jnp.bfloat16)}
    updates, _ = jax.jit(optimizer.update)({"w": jnp.zeros(3)}, optimizer.init(params), params)
    moved: Any = optax.apply_updates(params, updates)
    assert moved["w"].dtype == jnp.bfloat16


def test_numbers_that_are_not_finite_count_as_nothing():
    (update,) = updates_for(jnp.array([jnp.nan, jnp.inf, 1.0]))
    assert np.all(np.isfinite(update))


def test_noise_before_init_is_refused():
    state = private_noise(PLAN, keys=Keys.seeded(0)).init(jnp.zeros(3))
    with pytest.raises(InvalidArgument, match="init"):
        private_noise(PLAN, keys=Keys.seeded(1)).update(jnp.zeros(3), state)


# Batches


def batches_of(records: int, plan: Plan = PLAN) -> list[PrivateBatch]:
    data = {"number": 1 + np.arange(records, dtype=np.float32)}
    return list(private_batches(data, plan, keys=Keys.seeded(9)))


def test_batches_hold_each_record_at_most_once_and_as_often_as_the_plan_says():
    """150 batches of 12 of 60: a mean that is off by 1.5 is six deviations away."""
    batches = batches_of(RECORDS, replace(PLAN, steps=150))
    assert len(batches) == 150
    for rows, is_real in batches:
        drawn = rows["number"][is_real]
        assert len(set(drawn.tolist())) == len(drawn)
        assert np.all(drawn > 0)
        assert not np.any(rows["number"][~is_real])
    assert np.mean([batch.is_real.sum() for batch in batches]) == pytest.approx(12, abs=1.5)


def test_without_one_record_every_other_stays_in_its_row():
    missing = 0
    for (rows, is_real), (fewer, is_left) in zip(batches_of(RECORDS), batches_of(RECORDS - 1), strict=True):
        is_gone = rows["number"] == RECORDS
        assert np.array_equal(np.where(is_gone, 0, rows["number"]), fewer["number"])
        assert np.array_equal(is_real & ~is_gone, is_left)
        missing += int(is_gone.sum())
    assert missing  # or the test would have shown nothing


def test_batches_are_drawn_once_with_the_same_keys():
    keys, data = Keys.seeded(0), {"number": np.ones(RECORDS, np.float32)}
    private_batches(data, PLAN, keys=keys)
    with pytest.raises(KeyReuse):
        private_batches(data, PLAN, keys=keys)


def test_more_records_than_declared_are_refused():
    with pytest.raises(DataError, match="made for 60 examples and the data have 600"):
        batches_of(600)


@pytest.mark.parametrize("changes", [{"adaptive": AdaptiveNorm()}, {"unit": "user", "rows_per_user": 2}])
def test_plans_that_need_more_than_noise_are_refused(changes: dict[str, Any]):
    plan = replace(PLAN, **changes)
    with pytest.raises(InvalidArgument, match=r"rt\.train"):
        private_noise(plan, keys=Keys.seeded(0))
    with pytest.raises(InvalidArgument, match=r"rt\.train"):
        batches_of(RECORDS, plan)
