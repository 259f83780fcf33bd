"""Gaussian noise: its law, its scale, and what it refuses.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.core.whole_normals import floor_deviation
from reticent.mechanisms import gaussian
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.gaussian import NoiseGrid, add_gaussian_noise, dither_growth, round_by_chance
from reticent.mechanisms.sensitivity import BoundedSum

pytestmark = pytest.mark.usefixtures("compiled_as_shipped")

DRAWS = 20_000


def key(seed: int = 0) -> jax.Array:
    return Keys.seeded(seed).take(Stream.NOISE)


def distance(samples: np.ndarray, cumulative) -> float:
    """Kolmogorov's distance, times the root of the number of samples: above 2.6 with probability 3e-6."""
    ordered = np.sort(np.asarray(samples, np.float64).ravel())
    exact = cumulative(ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    gap = max(np.max(steps[1:] - exact), np.max(exact - steps[:-1]))
    return float(gap * np.sqrt(len(ordered)))


def test_gaussian_noise_has_the_scale_of_event_and_bound_and_differs_between_leaves_and_keys() -> None:
    total = BoundedSum(value={"v": jnp.full(DRAWS, 7.0), "w": jnp.full(DRAWS, 7.0)}, max_norm=0.5)
    event = Gaussian(noise_multiplier=3.0)
    noisy = jax.jit(lambda key: add_gaussian_noise(key, total, event))
    draws = [np.asarray(leaf) - 7.0 for seed in (0, 1) for leaf in noisy(key(seed)).values()]
    for noise in draws:
        assert distance(noise / 1.5, ndtr) < 2.6
        assert distance(noise / 0.75, ndtr) > 10  # planted: half the noise
    # Five deviations of a correlation of nothing.
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 5 / np.sqrt(DRAWS)


def test_narrow_floats_are_widened_and_whole_numbers_refused() -> None:
    event = Gaussian(noise_multiplier=1.0)
    narrow = BoundedSum(value=jnp.zeros(4, jnp.bfloat16), max_norm=1.0)
    assert jax.eval_shape(lambda: add_gaussian_noise(key(), narrow, event)).dtype == jnp.float32
    with pytest.raises(InvalidArgument, match="int32"):
        add_gaussian_noise(key(), BoundedSum(value=jnp.zeros(4, jnp.int32), max_norm=1.0), event)


def on_grid(values: Any, max_norm: float, noise: float) -> tuple[np.ndarray, NoiseGrid]:
    """Where numbers come to lie before noise, in steps, and on which grid."""
    seen: list[tuple[Any, NoiseGrid]] = []

    def spying(key: jax.Array, whole: Any, grid: NoiseGrid) -> jax.Array:
        seen.append((whole, grid))
        return jnp.zeros(len(values))

    total = BoundedSum(value=jnp.asarray(values, jnp.float32), max_norm=max_norm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "add_whole_noise", spying)
        add_gaussian_noise(key(), total, Gaussian(noise_multiplier=noise))
    ((whole, grid),) = seen
    return np.asarray(whole.high, np.int64) * 2**16 + np.asarray(whole.low, np.int64), grid


@pytest.mark.parametrize(
    ("noise", "max_norm"),
    [(0.02, 1.0), (500.0, 1.0), (1.0, 0.7), (3.3, 0.7), (0.02, 2.0**40), (500.0, 2.0**40)],
)
def test_sums_of_neighbours_stay_as_near_as_is_charged_however_large_they_are(noise: float, max_norm: float):
    bases = np.array([0.0, 2.0**10, 2.0**20, 2.0**22, 2.0**23, 2.0**24 - 200])
    sums = (bases[:, None] + np.arange(12)).ravel().astype(np.float32) * np.float32(max_norm)
    others = (sums + np.float32(max_norm)).astype(np.float32)
    (here, grid), (there, _) = on_grid(sums, max_norm, noise), on_grid(others, max_norm, noise)
    apart = (others.astype(np.float64) - sums) / max_norm * grid.steps
    assert np.abs(there - here - apart).max() <= 1
    paid = floor_deviation(grid.multiple) / 2.0**grid.shift
    assert paid >= noise * grid.steps * (1 + dither_growth(len(sums), grid.steps))
    assert paid <= noise * grid.steps * (1 + 1e-3)


def test_sums_beyond_the_grid_are_brought_back_and_do_not_jump():
    places, grid = on_grid(np.resize([1e15, 3e38, -1e15, -3e38, np.inf, np.nan], 72), 1.0, 1.0)
    assert places[-6:].tolist() == [2**45, 2**45, -(2**45), -(2**45), 0, 0]
    assert 2**45 / grid.steps >= 2**24
    quiet, grid = on_grid(np.resize([0.0, 1.0, 1e15], 72), 1.0, 1e-6)
    assert quiet[-3:].tolist() == [0, grid.steps, 2**45]


def test_sums_in_float64_are_never_rounded_to_float32(monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []
    honest = gaussian.add_whole_normals

    def spying(source: Any, values: np.ndarray, **terms: Any) -> np.ndarray:
        seen.append(float(values[0]))
        return honest(source, values, **terms)

    monkeypatch.setattr(gaussian, "add_whole_normals", spying)
    event = Gaussian(noise_multiplier=1.0)
    for value in (1e9 + 31, 1e9 + 32):
        noisy = add_gaussian_noise(key(), BoundedSum(value=np.array([value]), max_norm=1.0), event)
        assert noisy.dtype == jnp.float32
        assert float(noisy[0]) == pytest.approx(value, abs=64)
    assert seen == [1e9 + 31, 1e9 + 32]

    @jax.jit
    def compiled(part: jax.Array) -> Any:
        total = BoundedSum(value=[part, np.array([1e9 + 31])], max_norm=1.0)
        return add_gaussian_noise(key(), total, event)

    with pytest.raises(InvalidArgument, match="float64"):
        compiled(jnp.zeros(2))


def test_noise_on_float64_has_the_scale_of_event_and_bound():
    total = BoundedSum(value=np.full(DRAWS, 7.0), max_norm=0.5)
    noise = np.asarray(add_gaussian_noise(key(), total, Gaussian(noise_multiplier=3.0))) - 7.0
    assert distance(noise / 1.5, ndtr) < 2.6


def test_a_bound_must_be_positive_and_its_norm_known() -> None:
    with pytest.raises(InvalidArgument):
        BoundedSum(value=jnp.zeros(1), max_norm=0.0)
    with pytest.raises(InvalidArgument):
        BoundedSum(value=jnp.zeros(1), max_norm=1.0, norm="l3")  # type: ignore[arg-type]
    assert BoundedSum(value=jnp.zeros(1), max_norm=2.0).sensitivity(Adjacency.REPLACE) == 4.0


@pytest.mark.parametrize(("size", "is_wide"), [(2.0**16, False), (2.0**22, False), (2.0**22, True)])
def test_large_sums_are_rounded_up_as_often_as_their_fraction_says(size: float, is_wide: bool):
    """A coin added to a float of 2^22 is rounded to halves: whole numbers would go up one time in four."""
    step = float(np.spacing(np.float32(size)))
    fractions = np.arange(0, 1, max(step, 1 / 64))
    values = jnp.asarray(np.repeat(size + fractions, 4096), jnp.float32)
    grid = NoiseGrid(steps=1.0, shift=0, multiple=0, is_wide=is_wide)
    rounded = jax.jit(lambda key, values: round_by_chance(key, {"w": values}, grid))
    came_out = rounded(jax.random.key(1, impl="rbg"), values)
    if is_wide:
        came_out = {"w": came_out.high["w"] * 65536 + came_out.low["w"]}
    ups = (np.asarray(came_out["w"]) - size).reshape(len(fractions), -1)
    assert set(np.unique(ups)) <= {0.0, 1.0}
    assert np.all(ups[0] == 0)
    # 4,096 coins: a mean off by 5.5 / (2 sqrt(4096)) has a chance below 1e-7; eight bits add 1/256.
    assert np.abs(ups.mean(axis=1) - fractions).max() < 0.043 + 1 / 256
