"""Plans with correlated noise: what they cost, what they refuse, and what `auto` chooses."""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reticent as rt
from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument, Unproven
from reticent.data.cyclic import Cyclic, CyclicPoisson, correlated_event
from reticent.mechanisms import events
from reticent.mechanisms.events import Gaussian
from reticent.noise.strategies import Toeplitz
from reticent.training import plan_json

BUDGET: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "examples": 6000,
    "batch_size": 100,
    "steps": 120,
    "max_norm": 1.0,
}
NOISES = [rt.noise.banded(bands=4), rt.noise.toeplitz(bands=3), rt.noise.blt(buffers=2), rt.noise.tree()]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("sampling", ["cyclic", "shuffled", "full"])
def test_all_steps_are_one_gaussian_release_and_json_goes_both_ways(noise: Any, sampling: Any) -> None:
    budget = {**BUDGET, "batch_size": None} if sampling == "full" else BUDGET
    plan = rt.Plan.for_budget(**budget, noise=noise, sampling=sampling)
    assert isinstance(plan.event, Gaussian)
    reach = plan.noise_multiplier / plan.event.noise_multiplier
    part = rt.data.participation_of(plan.sampler, plan.steps)
    assert reach >= plan.noise.sensitivity(plan.steps, part) > 1
    assert 0.99 < plan.guarantee().epsilon <= 1.0
    assert events.from_json(json.loads(json.dumps(events.to_json(plan.event)))) == plan.event
    assert plan_json.from_json(json.loads(json.dumps(plan_json.to_json(plan)))) == plan
    assert plan.epsilon_after(plan.steps // 2) < plan.epsilon_after(plan.steps)
    assert plan.noise.in_words in repr(plan)


def test_bands_on_random_batches_are_amplified() -> None:
    plan = rt.Plan.for_budget(**BUDGET, noise=rt.noise.banded(bands=4))
    assert plan.sampler == CyclicPoisson(examples=6000, batch_size=100, parts=4)
    assert plan.adjacency is rt.Adjacency.ADD_OR_REMOVE
    assert 0.99 < plan.guarantee().epsilon <= 1.0
    unsampled = rt.Plan.for_budget(**BUDGET, noise=rt.noise.banded(bands=4), sampling="cyclic")
    assert plan.noise_multiplier < 0.5 * unsampled.noise_multiplier
    assert plan_json.from_json(plan_json.to_json(plan)) == plan


def test_amplified_bands_cost_what_their_sampler_and_their_noise_cost() -> None:
    """The loss of a record of the first part over 12,000 runs: its own draws, C, and Gaussian noise.

    Six standard deviations on either side: 2e-9 by chance. Noise that takes back, and is accounted for as if
    it did not, would be seen.
    """
    runs, steps, delta = 12_000, 9, 2e-2
    noise, multiplier = rt.noise.banded(bands=3), 1.3
    sampler = CyclicPoisson(examples=42, batch_size=4, parts=3)
    draw = jax.jit(lambda: sampler.draw(jax.random.key(7), jnp.arange(runs * steps), 42))
    indices, is_real, *_ = jax.device_get(draw())
    joins = np.any((indices == 0) & is_real, axis=1).reshape(runs, steps)
    assert not joins.reshape(runs, 3, 3)[:, :, 1:].any()
    column = noise.column(steps)
    moved = np.zeros((runs, steps))
    for lag, coefficient in enumerate(column.tolist()):
        moved[:, lag:] += coefficient * joins[:, : steps - lag]
    seen = moved + multiplier * np.random.default_rng(3).standard_normal((runs, steps))
    along = seen.reshape(runs, 3, 3) @ column  # a turn moves the rows of its three steps
    ratio = 1 + sampler.rate * np.expm1((along - column @ column / 2) / multiplier**2)
    losses = np.log(ratio).sum(axis=1)

    def found(epsilon: float) -> tuple[float, float]:
        sample = np.maximum(1 - np.exp(epsilon - losses), 0)
        return float(sample.mean()), 6 * float(sample.std()) / math.sqrt(runs)

    cost = tight(correlated_event(noise, multiplier, sampler, steps), delta)
    (high, above), (low, below) = found(cost.upper), found(cost.lower)
    assert high - above <= delta <= low + below
    wrong = tight(sampler.event(Gaussian(noise_multiplier=multiplier), steps), delta)
    planted, spread = found(wrong.upper)
    assert planted - spread > delta


def test_plans_of_independent_noise_are_written_as_before() -> None:
    assert "noise" not in plan_json.to_json(rt.Plan.for_budget(**BUDGET))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"noise": rt.noise.banded(bands=121), "sampling": "cyclic"}, InvalidArgument, "121 bands are more"),
        ({"noise": rt.noise.banded(bands=61)}, InvalidArgument, "61 parts"),
        ({"noise": rt.noise.tree()}, Unproven, "no theorem for correlated noise on Poisson"),
        ({"noise": rt.noise.banded(bands=2), "sampling": "fixed"}, Unproven, "FixedSize"),
        ({"noise": rt.noise.dense(), "sampling": "cyclic"}, InvalidArgument, "dense"),
        ({"noise": "brown"}, InvalidArgument, "not a strategy"),
        (
            {"noise": rt.noise.banded(bands=2), "adaptive": rt.training.AdaptiveNorm()},
            InvalidArgument,
            "fixed clipping",
        ),
        (
            {"noise": rt.noise.banded(bands=2), "steps": None, "noise_multiplier": 2.0},
            InvalidArgument,
            "a run of a fixed length",
        ),
        (
            {
                "noise": rt.noise.banded(bands=2, participation=rt.noise.Participation(times=1)),
                "sampling": "cyclic",
            },
            InvalidArgument,
            "break the declared participation",
        ),
        (
            {
                "noise": rt.noise.banded(
                    bands=2, participation=rt.noise.Participation(times=5, separation=60)
                ),
                "sampling": "shuffled",
            },
            InvalidArgument,
            "break the declared participation",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        rt.Plan.for_budget(**{**BUDGET, **changes})


def test_a_strategy_of_ones_own_could_claim_anything() -> None:
    class Mine(type(rt.noise.tree())):
        def sensitivity(self, steps: int, participation: Any) -> float:
            return 1e-3

    with pytest.raises(InvalidArgument, match=r"not a strategy of rt\.noise"):
        rt.Plan.for_budget(**BUDGET, sampling="cyclic", noise=Mine())
    more = Toeplitz(coefficients=(1.0, 0.5, 0.25))
    assert more.bands(120) == 3
    sampler = CyclicPoisson(examples=6000, batch_size=100, parts=2)
    with pytest.raises(Unproven, match="from 2 parts"):
        rt.Plan.for_budget(epsilon=1.0, delta=1e-5, steps=120, max_norm=1.0, sampling=sampler, noise=more)


def test_more_bands_than_parts_have_no_theorem() -> None:
    sampler = CyclicPoisson(examples=6000, batch_size=100, parts=4)
    rest = {"epsilon": 1.0, "delta": 1e-5, "steps": 120, "max_norm": 1.0}
    with pytest.raises(Unproven, match="from 4 parts"):
        rt.Plan.for_budget(**rest, sampling=sampler, noise=rt.noise.banded(bands=5))
    assert rt.Plan.for_budget(**rest, sampling=sampler, noise=rt.noise.banded(bands=4))


def test_a_longer_run_may_not_follow_a_plan_of_fewer_bands() -> None:
    plan = rt.Plan.for_budget(**BUDGET, noise=rt.noise.toeplitz(), sampling="cyclic")
    assert isinstance(plan.sampler, Cyclic)
    assert plan.noise.bands(plan.steps) == plan.sampler.parts


@pytest.mark.parametrize("sampling", ["poisson", "cyclic", "fixed"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_auto_is_not_worse_than_what_it_chose_from(sampling: Any, epsilon: float) -> None:
    budget = {**BUDGET, "epsilon": epsilon, "sampling": sampling}
    chosen = rt.Plan.for_budget(**budget, noise="auto")
    others = [rt.Plan.for_budget(**budget)]
    if sampling != "fixed":
        others += [rt.Plan.for_budget(**budget, noise=rt.noise.banded(bands=bands)) for bands in (2, 8, 32)]
    assert chosen.expected_error <= 1.02 * min(plan.expected_error for plan in others)
    assert chosen.guarantee().epsilon <= epsilon
    assert (chosen.noise.name == "independent") == (sampling == "fixed")
