"""`Limited` keeps everybody to the participation that its event counts, whoever comes when."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reticent as rt
from reticent.core.errors import InvalidArgument, Unproven
from reticent.data.limited import Limited
from reticent.mechanisms.events import Gaussian, Repeated
from reticent.training import plan_json
from reticent.training.plan import Plan


@pytest.mark.parametrize(
    ("examples", "size", "times", "separation"), [(10, 4, 3, 2), (12, 3, 2, 4), (7, 2, 9, 1)]
)
def test_nobody_comes_too_often_or_too_soon_whoever_is_there(examples, size, times, separation) -> None:
    sampler = Limited(examples=examples, batch_size=size, times=times, separation=separation)
    chance = np.random.default_rng(0)
    for share in (1.0, 0.7, 0.2):
        earlier: dict[int, list[int]] = {}
        for step in range(30):
            there = np.flatnonzero(chance.random(examples) < share).tolist()
            chosen = sampler.choose(step, earlier, there)
            assert len(set(chosen)) == len(chosen) <= size
            assert set(chosen) <= set(there)
            for unit in chosen:
                earlier.setdefault(unit, []).append(step)
            if share == 1.0:  # a simulation takes the same, in the same order
                drawn = sampler.draw(jax.random.key(0), jnp.array([step]), examples)
                assert tuple(np.asarray(drawn.indices[0])[np.asarray(drawn.is_real[0])].tolist()) == chosen
        for steps in earlier.values():
            assert len(steps) <= times
            assert all(gap >= separation for gap in np.diff(steps))


def test_the_event_counts_the_times_and_the_noise_of_a_plan_knows_the_separation() -> None:
    sampler = Limited(examples=100, batch_size=10, times=4, separation=8)
    assert sampler.event(Gaussian(noise_multiplier=2.0), 100) == Repeated(
        event=Gaussian(noise_multiplier=2.0), times=4
    )
    assert sampler.event(Gaussian(noise_multiplier=2.0), 9) == Repeated(
        event=Gaussian(noise_multiplier=2.0), times=2
    )
    given = {"epsilon": 2.0, "delta": 1e-4, "steps": 30, "max_norm": 1.0, "unit": "user", "rows_per_user": 5}
    plan = Plan.for_budget(sampling=sampler, noise=rt.noise.banded(bands=8), **given)
    assert rt.data.participation_of(plan.sampler, 30) == sampler.participation(30)
    assert plan_json.from_json(plan_json.to_json(plan)) == plan
    independent = Plan.for_budget(sampling=sampler, **given)
    assert plan.expected_error < independent.expected_error
    with pytest.raises(Unproven):
        Plan.for_budget(sampling=sampler, adjacency="add-or-remove", **given)
    with pytest.raises(InvalidArgument, match="nobody back before 8 steps need 160"):
        Limited(examples=100, batch_size=20, times=4, separation=8)
