"""Mechanisms whose epsilon is known exactly: what every bound is tried on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reticent.accounting.theorems import gaussian_dp

Mechanism = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def randomised_response(epsilon: float, delta: float) -> Mechanism:
    truth = 1 / (1 + math.exp(-epsilon))

    def scores(included: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        answers = np.where(rng.random(included.shape) < truth, included, ~included)
        return answers + 1e-3 * rng.random(included.shape)

    return scores


def gaussian(epsilon: float, delta: float) -> Mechanism:
    mu = 1 / gaussian_dp.noise_multiplier(epsilon, delta) if epsilon else 0.0
    return lambda included, rng: mu * included + rng.standard_normal(included.shape)


def laplace(epsilon: float, delta: float) -> Mechanism:
    return lambda included, rng: epsilon * included + rng.laplace(size=included.shape)


def leaky(epsilon: float, delta: float) -> Mechanism:
    """Randomised response that gives each coin away with probability delta: all of its delta is used."""
    answer = randomised_response(epsilon, delta)

    def scores(included: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        given_away = rng.random(included.shape) < delta
        return np.where(given_away, np.where(included, 10.0, -10.0), answer(included, rng))

    return scores


def catastrophic(epsilon: float, delta: float) -> Mechanism:
    """Randomised response that gives all coins away at once, with probability delta."""
    answer = randomised_response(epsilon, delta)

    def scores(included: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        given_away = rng.random((*included.shape[:-1], 1)) < delta
        return np.where(given_away, included * 10.0, answer(included, rng))

    return scores


MECHANISMS = {"randomised response": randomised_response, "Gaussian": gaussian, "Laplace": laplace}
LEAKS = {"leaky": leaky, "catastrophic": catastrophic}


def trials(
    mechanism: Mechanism, *, canaries: int, count: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of many audits: (count, canaries) each."""
    rng = np.random.default_rng(seed)
    included = rng.integers(0, 2, (count, canaries)).astype(bool)
    return included, mechanism(included, rng)
