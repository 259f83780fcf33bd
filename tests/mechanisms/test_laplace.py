"""Laplace noise on trees: its scale, its grid, and what it refuses.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainc

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Laplace, PureDp
from reticent.mechanisms.laplace import add_laplace_noise, add_vector_laplace_noise
from reticent.mechanisms.sensitivity import BoundedSum
from reticent.mechanisms.vectors import vector_grid
from reticent.mechanisms.whole import laplace_grid

DRAWS = 20_000
RARE = 1e-6  # a false alarm of each statistical test


def key(seed: int = 0) -> jax.Array:
    return Keys.seeded(seed).take(Stream.NOISE)


def is_on_grid(numbers: object, step: float) -> bool:
    steps = np.asarray(numbers, np.float64) / step
    return np.array_equal(np.rint(steps), steps)


def test_laplace_noise_has_the_scale_of_event_and_bound() -> None:
    total = BoundedSum(value=jnp.zeros(DRAWS), max_norm=0.5, norm="l1")
    noise = np.asarray(add_laplace_noise(key(), total, Laplace(noise_multiplier=4.0)), np.float64)
    assert stats.kstest(noise / 2.0, "laplace").pvalue > RARE
    assert stats.kstest(noise / 1.0, "laplace").pvalue < RARE  # planted: half the noise


def test_laplace_noise_lies_on_a_grid_that_all_leaves_share() -> None:
    value = {"a": jnp.full((3, 5), np.pi), "b": np.float64(1e6 / 3), "c": jnp.ones(2, jnp.bfloat16)}
    total = BoundedSum(value=value, max_norm=0.7, norm="l1")
    noisy = add_laplace_noise(key(), total, Laplace(noise_multiplier=3.0))
    step, _ = laplace_grid(18, max_norm=0.7, scale=2.1)
    assert all(leaf.dtype == jnp.float32 and is_on_grid(leaf, step) for leaf in noisy.values())
    assert jax.tree.map(jnp.shape, noisy) == jax.tree.map(jnp.shape, value)
    assert not is_on_grid(np.pi, step)
    other = add_laplace_noise(key(1), total, Laplace(noise_multiplier=3.0))
    assert not np.any(noisy["a"] == other["a"])


def test_laplace_noise_wants_a_bound_in_l1() -> None:
    with pytest.raises(InvalidArgument, match="L1"):
        add_laplace_noise(key(), BoundedSum(value=jnp.zeros(3), max_norm=1.0), Laplace(noise_multiplier=1.0))


@pytest.mark.parametrize("bad", [jnp.array([1, 2]), jnp.array([1.0, jnp.nan]), np.array([np.inf])])
def test_noise_hides_neither_integers_nor_what_is_no_number(bad: object) -> None:
    with pytest.raises(InvalidArgument):
        add_laplace_noise(
            key(), BoundedSum(value=bad, max_norm=1.0, norm="l1"), Laplace(noise_multiplier=1.0)
        )
    with pytest.raises(InvalidArgument):
        add_vector_laplace_noise(
            key(), BoundedSum(value=bad, max_norm=1.0), epsilon=1.0, adjacency=Adjacency.REPLACE
        )


def test_whole_numbers_are_not_drawn_inside_a_compiled_function() -> None:
    def noisy(value: jax.Array) -> jax.Array:
        total = BoundedSum(value=value, max_norm=1.0, norm="l1")
        return add_laplace_noise(key(), total, Laplace(noise_multiplier=1.0))

    with pytest.raises(InvalidArgument, match="on the host"):
        jax.jit(noisy)(jnp.zeros(3))


def test_keys_that_are_too_short_are_refused() -> None:
    """JAX's usual keys hold 64 bits, which can be tried one after the other."""
    total = BoundedSum(value=jnp.zeros(3), max_norm=1.0, norm="l1")
    for short in (jax.random.key(0, impl="threefry2x32"), jax.random.split(key(), 2)):
        with pytest.raises(InvalidArgument, match="128 bits"):
            add_laplace_noise(short, total, Laplace(noise_multiplier=1.0))


@pytest.mark.parametrize(("adjacency", "reach"), [(Adjacency.ADD_OR_REMOVE, 1), (Adjacency.REPLACE, 2)])
def test_vector_laplace_noise_has_a_gamma_length_and_a_grid(adjacency: Adjacency, reach: int) -> None:
    total = BoundedSum(value={"a": jnp.zeros(3), "b": jnp.full((1, 2), np.pi)}, max_norm=0.25)
    root, noise = key(), []
    for step in range(150):
        drawn = jax.random.fold_in(root, step)
        noisy, _ = add_vector_laplace_noise(drawn, total, epsilon=0.5, adjacency=adjacency)
        assert is_on_grid(noisy["b"], vector_grid(5, max_norm=0.25 * reach, epsilon=0.5))
        noise.append(np.append(noisy["a"], np.asarray(noisy["b"]) - np.pi))
    lengths = np.linalg.norm(noise, axis=1) / (0.25 * reach / 0.5)
    assert stats.kstest(lengths, lambda r: gammainc(5, r)).pvalue > RARE
    assert stats.kstest(2 * lengths, lambda r: gammainc(5, r)).pvalue < RARE  # planted: half the noise
    # The mean direction of 150 vectors: each coordinate beyond 6 standard errors with probability 2e-9.
    directions = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    assert np.abs(directions.mean(axis=0)).max() < 6 / np.sqrt(5 * 150)


def test_vector_laplace_noise_says_what_it_costs() -> None:
    total = BoundedSum(value=jnp.zeros(3), max_norm=1.0)
    _, event = add_vector_laplace_noise(key(), total, epsilon=0.5, adjacency=Adjacency.REPLACE)
    assert event == PureDp(epsilon=0.5, adjacency=Adjacency.REPLACE)
