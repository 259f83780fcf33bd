"""Correlated noise through the public entry point: its law, what a record can do, bugs that are seen."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.stats import norm

import reticent as rt
from reticent.core.errors import InvalidArgument
from reticent.data.cyclic import CyclicPoisson, participation_of
from reticent.noise.strategies import NoiseStrategy, Tree
from reticent.training import noise_streams
from reticent.training.checkpoint import Checkpoints
from reticent.training.own_loop import private_noise
from reticent.training.plan_noise import is_correlated

STEPS, ROWS, NUMBERS, NORM = 11, 60, 6000, 0.5
FALSE_ALARM = 1e-6
STRATEGIES: list[tuple[NoiseStrategy, str]] = [
    (rt.noise.banded(bands=4), "cyclic-poisson"),
    (rt.noise.toeplitz(bands=3), "cyclic"),
    (rt.noise.blt(buffers=2), "cyclic"),
    (rt.noise.tree(restart=6), "cyclic"),
]


def plan_of(noise: NoiseStrategy | None, sampling: Any = "cyclic", *, epsilon: float = 2.0) -> rt.Plan:
    return rt.Plan.for_budget(
        epsilon=epsilon,
        delta=1e-3,
        examples=ROWS,
        batch_size=12,
        steps=STEPS,
        max_norm=NORM,
        sampling=sampling,
        noise=noise,
        adjacency=rt.Adjacency.ZERO_OUT,
    )


def loss(params: Any, row: Any) -> jax.Array:
    return jnp.sum(params["w"]) * row["x"] + jnp.sum(params["b"]) * row["y"]  # clipped, whatever it is


def watching() -> optax.GradientTransformation:
    """Moves nothing and keeps what every step releases."""

    def init(params: Any) -> Any:
        return jnp.int32(0), jax.tree.map(lambda leaf: jnp.zeros((STEPS, *leaf.shape)), params)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        at, seen = state
        seen = jax.tree.map(lambda kept, new: kept.at[at].set(new), seen, updates)
        return jax.tree.map(jnp.zeros_like, updates), (at + 1, seen)

    return optax.GradientTransformation(init, update)


def released(plan: rt.Plan, data: dict[str, np.ndarray], seed: int = 0, **options: Any) -> np.ndarray:
    """The sum that each step releases, in clipping norms: (steps, numbers)."""
    params = {"w": jnp.zeros(NUMBERS // 2), "b": jnp.zeros((NUMBERS // 4, 2))}
    run = rt.train(loss, params, data, plan, optimizer=watching(), keys=rt.Keys.seeded(seed), **options)
    seen = run.state.opt_state[1]
    flat = np.concatenate([np.asarray(seen[name], float).reshape(STEPS, -1) for name in ("b", "w")], axis=1)
    return flat * plan.sampler.batch_size / plan.clipping.sensitivity


def nobody() -> dict[str, np.ndarray]:
    return {"x": np.zeros(ROWS, np.float32), "y": np.zeros(ROWS, np.float32)}


@cache
def noise_of(at: int) -> np.ndarray:
    return released(plan_of(*STRATEGIES[at]), nobody())


def inverse_of(noise: NoiseStrategy) -> np.ndarray:
    """C^-1 of a strategy: what noise is made of."""
    if isinstance(noise, Tree):
        size = noise.restart or STEPS
        sums = np.zeros((STEPS, STEPS))  # which nodes a prefix sum takes
        for step in range(STEPS):
            for start in range(0, step + 1, size):
                end = min(step + 1 - start, size)
                while end:
                    sums[step, start + end - 1] += 1
                    end &= end - 1
        return np.diff(sums, axis=0, prepend=0)
    column = np.concatenate([noise.column(STEPS), np.zeros(STEPS)])  # type: ignore[attr-defined]
    return np.linalg.inv([[column[i - j] if i >= j else 0.0 for j in range(STEPS)] for i in range(STEPS)])


def worst_z(found: np.ndarray, noise: NoiseStrategy, deviation: float) -> float:
    """How unlikely C w is as independent normal numbers: the largest mean product, in deviations."""
    whitened = np.linalg.solve(inverse_of(noise), found) / deviation
    products = whitened @ whitened.T / found.shape[1]
    spread = np.sqrt((1 + np.eye(STEPS)) / found.shape[1])
    return float(np.max(np.abs(products - np.eye(STEPS)) / spread))


LIMIT = float(norm.isf(FALSE_ALARM / STEPS**2))


@pytest.mark.parametrize("at", range(len(STRATEGIES)), ids=lambda at: STRATEGIES[at][0].name)
def test_released_noise_has_the_covariance_of_its_strategy(at: int) -> None:
    plan = plan_of(*STRATEGIES[at])
    found = noise_of(at)
    assert worst_z(found, plan.noise, plan.noise_multiplier) < LIMIT
    # Bugs that must be seen: independent noise, other bands, a step's noise twice, a tenth too little.
    independent = np.random.default_rng(0).normal(0, plan.noise_multiplier, found.shape)
    repeated = found.copy()
    repeated[5] = repeated[4]
    for wrong in (independent, repeated, 0.9 * found):
        assert worst_z(wrong, plan.noise, plan.noise_multiplier) > LIMIT
    other = rt.noise.banded(bands=2)
    assert worst_z(found, other, plan.noise_multiplier) > LIMIT


def test_noise_that_is_drawn_from_one_key_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: fresh numbers of every step from the key of the first."""
    noise, sampling = STRATEGIES[0]

    class Stale(noise_streams.BandedStream):
        def next(self, memory: Any, at: Any, draws: Any) -> Any:
            return super().next(memory, at, draws._replace(fresh=lambda _: draws.fresh(jnp.int32(0))))

    monkeypatch.setattr(noise_streams, "BandedStream", Stale)
    noise_streams.stream_of.cache_clear()
    plan = plan_of(noise, sampling)
    try:
        assert worst_z(released(plan, nobody()), plan.noise, plan.noise_multiplier) > LIMIT
    finally:
        noise_streams.stream_of.cache_clear()


@pytest.mark.parametrize("at", range(len(STRATEGIES)), ids=lambda at: STRATEGIES[at][0].name)
def test_a_record_moves_c_times_the_sums_no_farther_than_its_sensitivity(at: int) -> None:
    """Noise depends on keys alone: what one record changes is the difference of two runs with them."""
    noise, sampling = STRATEGIES[at]
    plan = plan_of(noise, sampling)
    data = nobody()
    data["x"][7], data["y"][7] = 3e15, -1e13
    moved = released(plan, data) - noise_of(at)
    steps = np.flatnonzero(np.linalg.norm(moved, axis=1) > 0.1)
    part = participation_of(plan.sampler, STEPS)
    assert 1 <= len(steps) <= part.times
    assert np.all(np.diff(steps) % part.separation == 0)
    through = np.linalg.solve(inverse_of(plan.noise), moved)
    farthest = np.linalg.norm(through)
    rounding = 1e-4  # of float32, in which sums come out: post-processing
    assert farthest <= plan.noise.sensitivity(STEPS, part) * (1 + rounding)
    if sampling == "cyclic" and not isinstance(plan.noise, Tree):
        assert farthest > 0.8 * np.sqrt(len(steps))


def test_one_band_is_dp_sgd_to_the_bit() -> None:
    plain, banded = (plan_of(noise, "poisson") for noise in (None, rt.noise.banded(bands=1)))
    assert plain.event == banded.event
    assert plain.noise_multiplier == banded.noise_multiplier
    assert not is_correlated(banded.noise, STEPS)
    assert np.array_equal(released(plain, nobody()), released(banded, nobody()))


def test_what_is_saved_has_no_noise_and_a_resumed_run_begins_anew(tmp_path: Path) -> None:
    noise, sampling = STRATEGIES[1]
    plan, kept = plan_of(noise, sampling), tmp_path / "kept"
    stop_at = 5

    def stop(moment: Any) -> Any:
        return rt.Stop("enough") if moment.step >= stop_at else None

    params = {"w": jnp.zeros(NUMBERS // 2), "b": jnp.zeros((NUMBERS // 4, 2))}
    options: dict[str, Any] = {"optimizer": watching(), "checkpoints": kept, "progress_every": 1}
    first = rt.train(loss, params, nobody(), plan, keys=rt.Keys.seeded(1), on_progress=stop, **options)
    assert int(first.state.step) == stop_at
    assert not any(leaf.dtype == jnp.int32 and leaf.size > 1 for leaf in jax.tree.leaves(first.state))
    plain = Checkpoints(path=kept)
    assert kept.stat().st_size < 4 * NUMBERS * (STEPS + 4)  # parameters, their mean and what was watched
    assert plain.path.exists()
    second = rt.train(loss, params, nobody(), plan, keys=rt.Keys.seeded(2), **options)
    seen = second.state.opt_state[1]
    found = np.concatenate([np.asarray(seen[name], float).reshape(STEPS, -1) for name in ("b", "w")], axis=1)
    found *= plan.sampler.batch_size / plan.clipping.sensitivity
    strategy = np.linalg.inv(inverse_of(plan.noise))
    strategy[stop_at:, :stop_at] = 0
    white = strategy @ found / plan.noise_multiplier
    products = white @ white.T / NUMBERS
    spread = np.sqrt((1 + np.eye(STEPS)) / NUMBERS)
    assert np.max(np.abs(products - np.eye(STEPS)) / spread) < LIMIT
    assert "came in the same order" in str(second.guarantee)
    assert "order" not in str(first.guarantee)
    # The noise of the second block takes back nothing of the first.
    assert worst_z(found, plan.noise, plan.noise_multiplier) > LIMIT


def test_a_record_has_no_turn_more_if_a_run_is_resumed_between_two_turns(tmp_path: Path) -> None:
    """Other keys lay records anew: one of a part whose turn is over comes to one whose turn is next."""
    sampler = CyclicPoisson(examples=ROWS, batch_size=12, parts=5)  # everybody joins when it is their turn
    plan = rt.Plan.without_privacy(sampling=sampler, steps=10, max_norm=NORM)
    assert plan.adjacency is rt.Adjacency.ADD_OR_REMOVE
    options: dict[str, Any] = {"optimizer": watching(), "checkpoints": tmp_path / "kept", "progress_every": 1}
    rows = {"x": np.eye(ROWS, dtype=np.float32)}

    def part(params: Any, row: Any) -> jax.Array:
        return 9 * jnp.vdot(params, row["x"])

    def stop(moment: Any) -> Any:
        return rt.Stop("enough") if moment.step == 2 else None

    rt.train(part, jnp.zeros(ROWS), rows, plan, keys=rt.Keys.seeded(1), on_progress=stop, **options)
    with pytest.warns(UserWarning, match="Steps 2 to 4 are left out"):
        run = rt.train(part, jnp.zeros(ROWS), rows, plan, keys=rt.Keys.seeded(2), **options)
    turns = (np.asarray(run.state.opt_state[1]) > 0).sum(axis=0)
    assert run.is_complete
    assert turns.min() == 1
    assert turns.max() == 2 == -(-plan.steps // sampler.parts)  # of which the event counts as many


def test_loops_of_ones_own_and_steps_alone_refuse_it() -> None:
    plan = plan_of(rt.noise.banded(bands=3))
    with pytest.raises(InvalidArgument, match="adds independent noise"):
        private_noise(plan, keys=rt.Keys.seeded(0))
    with pytest.raises(InvalidArgument, match="takes back some"):
        rt.audit.replay_plan(
            loss,
            {"w": jnp.zeros(2), "b": jnp.zeros(2)},
            {"x": np.zeros(3, np.float32), "y": np.zeros(3, np.float32)},
            {"x": np.ones(1, np.float32), "y": np.ones(1, np.float32)},
            plan,
        )
    with pytest.raises(InvalidArgument, match="no one deviation"):
        _ = plan.noise_deviation


def test_noise_that_may_not_fit_into_a_word_is_refused() -> None:
    plan = plan_of(rt.noise.blt(buffers=2))
    stream = noise_streams.stream_of(plan.noise, STEPS, 1.0, 2.0**15)
    assert stream is not None
    with pytest.raises(InvalidArgument, match="Rounding of the buffers"):
        stream.margin(10**15)
