"""The noise of a step: its size on every leaf, its independence, and bugs that must be seen.

Every test states how often it would fail on correct code; seeds are fixed, so none of them flickers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from compiling import AS_SHIPPED
from scipy.special import chdtrc

from reticent.core.keys import Keys, Stream
from reticent.data.sampling import Batch, FullBatch
from reticent.mechanisms import gaussian
from reticent.mechanisms.adjacency import Adjacency
from reticent.training import step as step_module
from reticent.training.clipping import flat
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.plan import Plan
from reticent.training.step import Blocks, Roots, TrainState, private_step

STEPS, NOISE, NORM, ROWS = 40, 2.0, 0.5, 8
SHAPES = {"wide": (30, 40), "bias": (60,), "deep": (3, 4, 50)}


def plan() -> Plan:
    return Plan(
        sampler=FullBatch(examples=ROWS),
        clipping=flat(NORM),
        noise_multiplier=NOISE,
        steps=STEPS,
        delta=1e-5,
        adjacency=Adjacency.ADD_OR_REMOVE,
    )


def released(*seeds: int, options: Any = None) -> list[dict[str, np.ndarray]]:
    """What each step added to the parameters when the gradients are zero: only noise, (steps, ...) a leaf.

    One run per seed, of one compiled program.
    """
    recipe = plan()
    optimizer = optax.sgd(float(ROWS))  # undoes the division by the batch size
    zero = {name: jnp.zeros(shape) for name, shape in SHAPES.items()}
    gradient_sum = clipped_gradient_sum(lambda p, e: 0.0 * _total(p) * e["x"], max_norm=NORM)
    blocks = Blocks.of(recipe)
    step = private_step(
        gradient_sum,
        recipe,
        optimizer,
        None,
        lambda average, params, at: average,
        contribution=Contribution(),
        blocks=blocks,
    )
    source = DeviceRows({"x": jnp.ones(ROWS)})
    fresh = TrainState(jnp.int32(0), zero, optimizer.init(zero), jnp.float32(NORM), zero)

    def all_steps(roots: Roots) -> Any:
        def one(state: TrainState, batch: Batch) -> Any:
            after, _ = step(state, source, batch, roots)
            return after, jax.tree.map(jnp.subtract, after.params, state.params)

        batches = recipe.sampler.draw(roots.sampling, jnp.arange(STEPS), ROWS)
        return jax.lax.scan(one, fresh, batches)[1]

    def noise(seed: int) -> dict[str, np.ndarray]:
        keys = Keys.seeded(seed)
        streams = (Stream.SAMPLING, Stream.NOISE, Stream.VIEWS)
        sampling, noise, views = (keys.take(stream, steps=range(STEPS)) for stream in streams)
        roots = Roots(sampling, noise, views)
        return {name: np.asarray(leaf, np.float64) for name, leaf in compiled(roots).items()}

    compiled = jax.jit(all_steps, compiler_options=options)
    return [noise(seed) for seed in seeds]


def _total(params: dict[str, jax.Array]) -> jax.Array:
    return jnp.sum(jnp.stack([jnp.sum(leaf) for leaf in params.values()]))


def variance_is_right(values: np.ndarray, deviation: float) -> bool:
    """A two-sided chi-squared test with a false-alarm probability of 1e-6."""
    statistic = float(np.square(values / deviation).sum())
    tail = chdtrc(values.size, statistic)
    return 5e-7 < tail < 1 - 5e-7


def looks_independent(first: np.ndarray, second: np.ndarray) -> bool:
    """A correlation above 5.5 standard errors has probability 4e-8 on independent noise."""
    size = min(first.size, second.size)
    a, b = first.ravel()[:size], second.ravel()[:size]
    if not (a.any() and b.any()):
        return True  # no noise at all is for the variance to see
    return abs(np.corrcoef(a, b)[0, 1]) < 5.5 / np.sqrt(size)


def problems(noise: dict[str, np.ndarray]) -> list[str]:
    """Everything that is wrong with a run's noise. On correct code, anything at all: below 1e-4."""
    found = []
    for name, leaf in noise.items():
        steps = range(len(leaf))
        found += [
            f"variance of {name} in step {at}"
            for at in steps
            if not variance_is_right(leaf[at], NOISE * NORM)
        ]
        found += [
            f"steps 0 and {at} of {name}" for at in steps[1:] if not looks_independent(leaf[0], leaf[at])
        ]
    found += [
        f"leaves {left} and {right}"
        for left, right in (("wide", "bias"), ("wide", "deep"), ("bias", "deep"))
        if not looks_independent(*beginnings(noise[left], noise[right]))
    ]
    return found


def beginnings(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """As many numbers of each step as the smaller leaf has."""
    flat = [leaf.reshape(len(leaf), -1) for leaf in (first, second)]
    return [leaf[:, : min(part.shape[1] for part in flat)] for leaf in flat]


@pytest.fixture(scope="module")
def honest() -> list[dict[str, np.ndarray]]:
    return released(0, 1, options=AS_SHIPPED)


def test_noise_has_the_planned_size_on_every_leaf_and_step_and_is_independent(
    honest: list[dict[str, np.ndarray]],
) -> None:
    assert problems(honest[0]) == []
    assert np.std(honest[0]["wide"]) == pytest.approx(NOISE * NORM, rel=0.02)


def test_two_runs_share_no_noise(honest: list[dict[str, np.ndarray]]) -> None:
    first, second = honest
    assert all(looks_independent(first[name], second[name]) for name in SHAPES)


def plant(monkeypatch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    monkeypatch.setattr(step_module, "add_whole_noise", change)


def test_planted_noise_a_tenth_too_small_is_seen(honest: list[dict[str, np.ndarray]]) -> None:
    assert problems({name: 0.9 * leaf for name, leaf in honest[0].items()})


def test_planted_leaf_without_noise_is_seen(honest: list[dict[str, np.ndarray]]) -> None:
    planted = {**honest[0], "bias": np.zeros_like(honest[0]["bias"])}
    assert any("variance of bias" in problem for problem in problems(planted))


def test_planted_reused_key_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    constant = jax.random.key(0, impl="rbg")
    plant(monkeypatch, lambda key, total, grid, parts=None: gaussian.add_whole_noise(constant, total, grid))
    assert any("steps" in problem for problem in problems(*released(0)))


def test_planted_one_key_for_all_leaves_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaf_by_leaf(key, total, grid, parts=None):
        return {name: gaussian.add_whole_noise(key, leaf, grid) for name, leaf in total.items()}

    plant(monkeypatch, leaf_by_leaf)
    assert any("leaves" in problem for problem in problems(*released(0)))
