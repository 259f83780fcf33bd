"""The noise that mechanisms add: its law, its scale, and what it refuses.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammainc, ndtr

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PureDp,
    RandomizedResponse,
)
from reticent.mechanisms.gaussian import add_gaussian_noise
from reticent.mechanisms.laplace import add_laplace_noise, add_vector_laplace_noise
from reticent.mechanisms.response import estimate_shares, randomize
from reticent.mechanisms.selection import exponential_mechanism, noisy_max_gaussian, noisy_max_laplace
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


def laplace_cdf(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


def test_gaussian_noise_has_the_scale_of_event_and_bound() -> None:
    total = BoundedSum(value={"w": jnp.full(DRAWS, 7.0)}, max_norm=0.5)
    noisy = add_gaussian_noise(key(), total, Gaussian(noise_multiplier=3.0))
    noise = np.asarray(noisy["w"]) - 7.0
    assert distance(noise / 1.5, ndtr) < 2.6
    assert distance(noise / 0.75, ndtr) > 10  # planted: half the noise


def test_gaussian_noise_differs_between_leaves_and_keys() -> None:
    total = BoundedSum(value=[jnp.zeros(50), jnp.zeros(50)], max_norm=1.0)
    first, second = add_gaussian_noise(key(), total, Gaussian(noise_multiplier=1.0))
    assert not np.allclose(first, second)
    other, _ = add_gaussian_noise(key(1), total, Gaussian(noise_multiplier=1.0))
    assert not np.allclose(first, other)


def test_narrow_floats_are_widened_and_whole_numbers_refused() -> None:
    event = Gaussian(noise_multiplier=1.0)
    narrow = BoundedSum(value=jnp.zeros(4, jnp.bfloat16), max_norm=1.0)
    assert add_gaussian_noise(key(), narrow, event).dtype == jnp.float32
    with pytest.raises(InvalidArgument, match="int32"):
        add_gaussian_noise(key(), BoundedSum(value=jnp.zeros(4, jnp.int32), max_norm=1.0), event)


def test_laplace_noise_has_the_scale_of_event_and_bound() -> None:
    total = BoundedSum(value=jnp.zeros(DRAWS), max_norm=0.5, norm="l1")
    noise = np.asarray(add_laplace_noise(key(), total, Laplace(noise_multiplier=4.0)))
    assert distance(noise / 2.0, laplace_cdf) < 2.6
    assert distance(noise / 1.0, laplace_cdf) > 10  # planted: half the noise


def test_laplace_noise_wants_a_bound_in_l1() -> None:
    with pytest.raises(InvalidArgument, match="L1"):
        add_laplace_noise(key(), BoundedSum(value=jnp.zeros(3), max_norm=1.0), Laplace(noise_multiplier=1.0))


@pytest.mark.parametrize(("adjacency", "reach"), [(Adjacency.ADD_OR_REMOVE, 1), (Adjacency.REPLACE, 2)])
def test_vector_laplace_noise_has_a_gamma_length_and_no_direction(adjacency: Adjacency, reach: int) -> None:
    total = BoundedSum(value={"a": jnp.zeros(3), "b": jnp.zeros((1, 2))}, max_norm=0.25)

    def one(step: jax.Array) -> jax.Array:
        noisy, _ = add_vector_laplace_noise(
            jax.random.fold_in(root, step), total, epsilon=0.5, adjacency=adjacency
        )
        return jnp.concatenate([noisy["a"], noisy["b"].ravel()])

    root = key()
    noise = np.asarray(jax.jit(lambda: jax.lax.map(one, jnp.arange(4_000)))(), np.float64)
    scale = 0.25 * reach / 0.5
    assert distance(np.linalg.norm(noise, axis=1) / scale, lambda r: gammainc(5, r)) < 2.6
    # The mean direction of 4,000 vectors: each coordinate beyond 6 standard errors with probability 2e-9.
    directions = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    assert np.abs(directions.mean(axis=0)).max() < 6 / np.sqrt(5 * 4_000)


def test_vector_laplace_noise_says_what_it_costs() -> None:
    total = BoundedSum(value=jnp.zeros(3), max_norm=1.0)
    _, event = add_vector_laplace_noise(key(), total, epsilon=0.5, adjacency=Adjacency.REPLACE)
    assert event == PureDp(epsilon=0.5, adjacency=Adjacency.REPLACE)


def shares(choose, count: int, options: int) -> np.ndarray:
    root = key()
    chosen = jax.jit(lambda: jax.lax.map(lambda s: choose(jax.random.fold_in(root, s)), jnp.arange(count)))()
    return np.bincount(np.asarray(chosen), minlength=options) / count


@pytest.mark.parametrize(
    ("adjacency", "is_monotone", "divisor"),
    [
        (Adjacency.ADD_OR_REMOVE, False, 2),
        (Adjacency.ADD_OR_REMOVE, True, 1),
        (Adjacency.REPLACE, False, 4),
    ],
)
def test_exponential_mechanism_has_the_published_probabilities(adjacency, is_monotone, divisor) -> None:
    scores = jnp.array([0.0, 1.0, 3.0, 2.0])
    event = ExponentialMechanism(epsilon=2.0, adjacency=adjacency)
    found = shares(
        lambda k: exponential_mechanism(k, scores, event, max_change=0.5, is_monotone=is_monotone), DRAWS, 4
    )
    weights = np.exp(2.0 * np.asarray(scores) / (divisor * 0.5))
    exact = weights / weights.sum()
    # Four shares, each beyond 5.5 standard errors with probability 4e-8.
    assert np.all(np.abs(found - exact) < 5.5 * np.sqrt(exact * (1 - exact) / DRAWS) + 1e-12)


def test_noisy_max_of_two_equals_its_closed_form() -> None:
    scores = jnp.array([0.0, 1.0])
    laplace = shares(lambda k: noisy_max_laplace(k, scores, PureDp(epsilon=1.0), max_change=1.0), DRAWS, 2)
    # P(Lap(2) + 1 > Lap(2)') for scale b = 2 and gap d = 1: 1 - e^{-d/b} (2 + d/b) / 4.
    exact = 1 - np.exp(-0.5) * 2.5 / 4
    assert abs(laplace[1] - exact) < 5.5 * np.sqrt(exact * (1 - exact) / DRAWS)
    normal = shares(
        lambda k: noisy_max_gaussian(k, scores, Gaussian(noise_multiplier=2.0), max_norm=1.0), DRAWS, 2
    )
    exact = float(ndtr(1 / (2 * np.sqrt(2))))
    assert abs(normal[1] - exact) < 5.5 * np.sqrt(exact * (1 - exact) / DRAWS)


def test_no_score_is_monotone_when_records_are_replaced() -> None:
    event = ExponentialMechanism(epsilon=1.0, adjacency=Adjacency.REPLACE)
    with pytest.raises(InvalidArgument, match="monotone"):
        exponential_mechanism(key(), jnp.zeros(2), event, max_change=1.0, is_monotone=True)


@pytest.mark.parametrize("choices", [2, 5])
def test_randomised_response_keeps_the_truth_as_often_as_it_says(choices: int) -> None:
    event = RandomizedResponse(truth=0.6, choices=choices)
    answers = jnp.full(DRAWS, choices - 1)
    blurred = np.asarray(randomize(key(), answers, event))
    exact = np.full(choices, 0.4 / (choices - 1))
    exact[-1] = 0.6
    found = np.bincount(blurred, minlength=choices) / DRAWS
    assert np.all(np.abs(found - exact) < 5.5 * np.sqrt(exact * (1 - exact) / DRAWS))
    estimated = np.asarray(estimate_shares(jnp.asarray(blurred), event))
    assert estimated[-1] == pytest.approx(1.0, abs=0.05)
    assert estimated.sum() == pytest.approx(1.0, abs=1e-4)


def test_a_bound_must_be_positive_and_its_norm_known() -> None:
    with pytest.raises(InvalidArgument):
        BoundedSum(value=jnp.zeros(1), max_norm=0.0)
    with pytest.raises(InvalidArgument):
        BoundedSum(value=jnp.zeros(1), max_norm=1.0, norm="l3")  # type: ignore[arg-type]
    assert BoundedSum(value=jnp.zeros(1), max_norm=2.0).sensitivity(Adjacency.REPLACE) == 4.0
