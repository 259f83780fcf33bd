"""The number of runs: drawn from the distribution that is accounted for."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pytest

from reticent.mechanisms import trials
from reticent.mechanisms.events import BestOfTrials, Gaussian
from reticent.mechanisms.trials import draw_trials

_DRAWS = 1000


def _event(shape: float, gamma: float) -> BestOfTrials:
    return BestOfTrials(shape=shape, gamma=gamma, event=Gaussian(noise_multiplier=1.0))


def _probabilities(shape: float, gamma: float) -> np.ndarray:
    """Of 1 to 8 runs, from the definition."""
    weights, weight = [], 1.0
    for k in range(1, 20_000):
        weight *= (1 - gamma) * ((k - 1 + shape) / k if k > 1 else 1.0)
        weights.append(weight)
    return np.array(weights[:8]) / sum(weights)


@cache
def _keys() -> list[jax.Array]:
    words = np.random.default_rng(5).integers(0, 2**32, (_DRAWS, 4), dtype=np.uint32)
    return [jax.random.wrap_key_data(four, impl="rbg") for four in words]


def _draws(event: BestOfTrials) -> np.ndarray:
    return np.array([draw_trials(key, event) for key in _keys()])


def _is_alarm(event: BestOfTrials) -> bool:
    """Whether 1 to 8 runs are drawn too often or too rarely: 6 deviations, by chance below 1e-7."""
    drawn = _draws(event)
    expected = _probabilities(event.shape, event.gamma)
    seen = np.array([(drawn == k).mean() for k in range(1, 9)])
    deviation = np.sqrt(expected * (1 - expected) / _DRAWS)
    return bool((np.abs(seen - expected) > 6 * deviation + 3 / _DRAWS).any())


@pytest.mark.parametrize(("shape", "gamma"), [(-0.5, 0.2), (0.0, 0.05), (1.0, 0.3), (3.0, 0.6)])
def test_as_often_as_the_distribution_says(shape: float, gamma: float):
    assert not _is_alarm(_event(shape, gamma))


def test_a_draw_that_starts_at_the_wrong_probability_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trials, "_of_one", lambda gamma, shape: gamma)  # as if every shape were geometric
    assert not _is_alarm(_event(1.0, 0.3))
    assert _is_alarm(_event(0.0, 0.05))


def test_the_mean_is_the_events():
    event = _event(3.0, 0.6)
    drawn = _draws(event)
    assert drawn.min() == 1
    assert drawn.mean() == pytest.approx(event.mean, abs=6 * drawn.std() / np.sqrt(_DRAWS))


def test_the_same_key_draws_the_same_number():
    key = jax.random.key(3, impl="rbg")
    assert draw_trials(key, _event(0.0, 1e-4)) == draw_trials(key, _event(0.0, 1e-4))
