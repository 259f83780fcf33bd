"""The noise of a step whose clipping norm adapts: by the norm that clipped, and on the count as planned.

Every test states how often it would fail on correct code; seeds are fixed, so none of them flickers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from compiling import AS_SHIPPED
from scipy.special import chdtrc

from reticent.core.keys import Keys, Stream
from reticent.data.sampling import Batch, FullBatch
from reticent.mechanisms.adjacency import Adjacency
from reticent.training import step as step_module
from reticent.training.clipping import flat
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.plan import AdaptiveNorm, Plan
from reticent.training.step import Blocks, Roots, TrainState, private_step

ROWS, STEPS, NOISE, COUNT_NOISE, NUMBERS = 100, 300, 2.0, 6.0, 256
FIRST_NORM = 0.5
NORMS = FIRST_NORM * 2.0 ** (np.arange(STEPS) % 7 - 3)  # a step begins with this one, whatever came before
# So fast that the next norm is one and a half times this one, or two thirds of it, in a usual step.
ADAPTIVE = AdaptiveNorm(quantile=0.5, rate=12.5, noise_multiplier=COUNT_NOISE)


class Seen(NamedTuple):
    """A run of which half the gradients are zero and half are far above any norm, with opposite signs."""

    noise: np.ndarray  # (steps, NUMBERS): what a step released, and the sum is zero
    next_norms: np.ndarray  # (steps,): that would clip the step after each
    below: int  # how many gradients are no longer than the norm


def plan() -> Plan:
    return Plan(
        sampler=FullBatch(examples=ROWS),
        clipping=flat(FIRST_NORM),
        noise_multiplier=NOISE,
        steps=STEPS,
        delta=1e-5,
        adjacency=Adjacency.ADD_OR_REMOVE,
        adaptive=ADAPTIVE,
    )


def runs(*seeds: int, options: Any = None) -> list[Seen]:
    """One run per seed, of one compiled program."""
    recipe = plan()
    optimizer = optax.sgd(float(ROWS))  # undoes the division by the batch size
    step = private_step(
        clipped_gradient_sum(lambda p, e: e["x"] * jnp.sum(p), clipping=recipe.clipping),
        recipe,
        optimizer,
        None,
        lambda average, params, at: average,
        contribution=Contribution(),
        blocks=Blocks.of(recipe),
    )
    pushes = np.concatenate([np.zeros(ROWS // 2), np.tile([1e20, -1e20], ROWS // 4)])
    source = DeviceRows({"x": jnp.asarray(pushes, jnp.float32)})
    zero = jnp.zeros(NUMBERS)
    fresh = TrainState(jnp.int32(0), zero, optimizer.init(zero), jnp.float32(FIRST_NORM), zero)

    def all_steps(roots: Roots) -> Any:
        def one(state: TrainState, given: tuple[Batch, jax.Array]) -> Any:
            batch, norm = given
            # From zero each time, so that a small noise is not lost beside the sum of larger ones.
            after, _ = step(state._replace(params=zero, max_norm=norm), source, batch, roots)
            return after, (after.params, after.max_norm)

        batches = recipe.sampler.draw(roots.sampling, jnp.arange(STEPS), ROWS)
        return jax.lax.scan(one, fresh, (batches, jnp.asarray(NORMS, jnp.float32)))[1]

    def seen(seed: int) -> Seen:
        keys = Keys.seeded(seed)
        streams = (Stream.SAMPLING, Stream.NOISE, Stream.VIEWS)
        sampling, noise, views = (keys.take(stream, steps=range(STEPS)) for stream in streams)
        roots = Roots(sampling, noise, views)
        released, next_norms = compiled(roots)
        return Seen(np.asarray(-released, np.float64), np.asarray(next_norms, np.float64), ROWS // 2)

    compiled = jax.jit(all_steps, compiler_options=options)
    return [seen(seed) for seed in seeds]


@pytest.fixture(scope="module")
def honest() -> list[Seen]:
    return runs(*range(3), options=AS_SHIPPED)


def noisy_counts(seen: Seen) -> np.ndarray:
    """What each step released about who was below the norm, told from how the norm moved: (steps,)."""
    moved = -np.log(seen.next_norms / NORMS) / ADAPTIVE.rate
    return (moved + ADAPTIVE.quantile) * ROWS


def variance_is_right(values: np.ndarray, deviation: float) -> bool:
    """A two-sided chi-squared test with a false-alarm probability of 1e-6."""
    tail = chdtrc(values.size, float(np.square(values / deviation).sum()))
    return 5e-7 < tail < 1 - 5e-7


def looks_independent(first: np.ndarray, second: np.ndarray) -> bool:
    """A correlation above 5.5 standard errors has probability 4e-8 on independent noise around 0."""
    if not (first.any() and second.any()):
        return True  # no noise at all is for the variance to see
    # Not centred: noise that is the same number every time is all mean.
    together = np.mean(first * second) / np.sqrt(np.mean(first**2) * np.mean(second**2))
    return abs(together) < 5.5 / np.sqrt(len(first))


def problems(seen: Seen) -> list[str]:
    """Everything that is wrong with a run's noise. On correct code, anything at all: below 1e-3."""
    found = [
        f"noise of step {at}"
        for at, (noise, norm) in enumerate(zip(seen.noise, NORMS, strict=True))
        if not variance_is_right(noise, NOISE * norm)
    ]
    count_noise = noisy_counts(seen) - seen.below
    if not variance_is_right(count_noise, COUNT_NOISE / 2):  # an example moves the centred count by 1/2
        found.append("size of the count's noise")
    if not looks_independent(count_noise[1:], count_noise[:-1]):
        found.append("count's noise from step to step")
    in_units = seen.noise / NORMS[:, None]
    if not all(looks_independent(count_noise, in_units[:, place]) for place in range(8)):
        found.append("count's noise and the sum's")
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_sum_has_noise_by_the_norm_that_clipped_and_the_count_has_its_own(
    honest: list[Seen], seed: int
) -> None:
    seen = honest[seed]
    factors = np.exp(np.abs(np.log(seen.next_norms / NORMS)))
    assert np.median(factors) > 1.2, "the norm hardly moves, and no two norms could be told apart"
    assert np.abs(noisy_counts(seen) / ROWS - 0.5).max() < 0.4, "shares are cut off at 0 and 1"
    assert problems(seen) == []


def test_planted_noise_by_another_norm_is_seen(honest: list[Seen]) -> None:
    """A step starts from zero, so what it releases is as long as the norm that its noise goes by."""
    seen = honest[0]
    for wrong in (seen.next_norms, np.full(STEPS, FIRST_NORM)):
        planted = seen._replace(noise=seen.noise * (wrong / NORMS)[:, None])
        assert sum(problem.startswith("noise of step") for problem in problems(planted)) > 100


@pytest.mark.parametrize("left", [0.0, 0.8])
def test_planted_count_with_too_little_noise_is_seen(left: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = step_module._next_norm

    def quieter(recipe: Plan, max_norm: jax.Array, seen: Any, key: jax.Array) -> jax.Array:
        noise = left * COUNT_NOISE if left else 1e-9
        return right(replace(recipe, adaptive=replace(ADAPTIVE, noise_multiplier=noise)), max_norm, seen, key)

    monkeypatch.setattr(step_module, "_next_norm", quieter)
    assert "size of the count's noise" in problems(*runs(0))


def test_planted_count_with_the_same_noise_in_every_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right, one_key = step_module._next_norm, jax.random.key(0, impl="rbg")
    monkeypatch.setattr(
        step_module, "_next_norm", lambda recipe, norm, seen, key: right(recipe, norm, seen, one_key)
    )
    assert "count's noise from step to step" in problems(*runs(0))
