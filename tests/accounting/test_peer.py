"""dp-accounting's privacy-loss distributions, where they can be trusted: delta >= 1e-8 and T <= 1e5.

Its upper bounds come from a lattice of spacing h, so they may lie above the truth by their discretisation
error (about T h^2 / 2 times the tilt), and below it by rounding that it does not count.
"""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from reticent.accounting.tight_epsilon import Cost, tight
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    Composed,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    TruncatedPoissonSampled,
)

_H = 1e-4


def _agrees(cost: Cost, theirs: float, *, steps: int, delta: float, spacing: float = _H) -> None:
    """Ours may not be above their upper bound, but for our width; nor below it by more than their error."""
    tilt = 2 * math.log(1 / delta) / max(theirs, 0.05)  # a generous guess of how steep delta is
    discretisation = steps * spacing**2 * (1 + tilt) + spacing
    assert cost.lower <= theirs + 2e-5, (cost, theirs)
    assert theirs <= cost.upper + discretisation, (cost, theirs)


def _random(count: int, seed: int) -> list[tuple[float, float, int, float]]:
    """Noise, rate, steps, delta."""
    rng = np.random.default_rng(seed)
    settings = []
    for _ in range(count):
        noise = float(np.exp(rng.uniform(np.log(0.6), np.log(8))))
        rate = float(np.exp(rng.uniform(np.log(1e-3), np.log(0.5))))
        steps = int(np.exp(rng.uniform(0, np.log(3000))))
        settings.append((round(noise, 3), round(rate, 5), steps, float(10.0 ** -rng.integers(3, 9))))
    return settings


def _composed(pld: Any, steps: int, delta: float) -> float:
    return float(pld.self_compose(steps).get_epsilon_for_delta(delta))


@pytest.mark.parametrize(("noise", "rate", "steps", "delta"), _random(3, seed=0))
def test_poisson_sampled_gaussian(noise: float, rate: float, steps: int, delta: float):
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        noise, value_discretization_interval=_H, sampling_prob=rate
    )
    event = Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), times=steps)
    _agrees(tight(event, delta), _composed(pld, steps, delta), steps=steps, delta=delta)


@pytest.mark.parametrize(("noise", "rate", "steps", "delta"), _random(3, seed=1))
def test_poisson_sampled_laplace(noise: float, rate: float, steps: int, delta: float):
    pld = privacy_loss_distribution.from_laplace_mechanism(
        noise, value_discretization_interval=_H, sampling_prob=rate
    )
    event = Repeated(event=PoissonSampled(rate=rate, event=Laplace(noise_multiplier=noise)), times=steps)
    _agrees(tight(event, delta), _composed(pld, steps, delta), steps=steps, delta=delta)


@pytest.mark.parametrize(("noise", "steps", "delta"), [(5.0, 20, 1e-5), (100.0, 2000, 1e-8), (1.0, 1, 1e-3)])
def test_laplace(noise: float, steps: int, delta: float):
    pld = privacy_loss_distribution.from_laplace_mechanism(noise, value_discretization_interval=_H)
    cost = tight(Repeated(event=Laplace(noise_multiplier=noise), times=steps), delta)
    _agrees(cost, _composed(pld, steps, delta), steps=steps, delta=delta)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "group", "delta"),
    [
        (1.0, 0.0064, 782, 2, 1e-6),
        (3.0, 0.1, 100, 3, 1e-5),
    ],
)
def test_groups_under_poisson_sampling(noise: float, rate: float, steps: int, group: int, delta: float):
    weights = [math.comb(group, k) * rate**k * (1 - rate) ** (group - k) for k in range(group + 1)]
    coarse = 2e-3  # theirs takes minutes on a fine one
    pld = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        noise, list(range(group + 1)), weights, value_discretization_interval=coarse
    )
    event = Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), times=steps)
    theirs = _composed(pld, steps, delta)
    _agrees(tight(event, delta, group=group), theirs, steps=steps, delta=delta, spacing=coarse)


@pytest.mark.parametrize(("truth", "choices", "steps"), [(0.6, 2, 100), (0.3, 5, 50), (0.55, 2, 1000)])
def test_randomised_response(truth: float, choices: int, steps: int):
    # Theirs says something random, which may be the truth, with the probability given.
    noise = (1 - truth) * choices / (choices - 1)
    pld = privacy_loss_distribution.from_randomized_response(noise, choices, value_discretization_interval=_H)
    event = Repeated(event=RandomizedResponse(truth=truth, choices=choices), times=steps)
    # They round each of few losses up to the lattice, so the error grows with T h, not T h^2.
    theirs = _composed(pld, steps, 1e-6)
    cost = tight(event, 1e-6, Adjacency.REPLACE)
    assert cost.lower <= theirs + 2e-5
    assert theirs <= cost.upper + steps * _H


def test_different_releases_together():
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        2.0, value_discretization_interval=_H, sampling_prob=0.02
    ).self_compose(200)
    pld = pld.compose(
        privacy_loss_distribution.from_laplace_mechanism(20.0, value_discretization_interval=_H)
    )
    pld = pld.compose(
        privacy_loss_distribution.from_gaussian_mechanism(5.0, value_discretization_interval=_H)
    )
    event: Event = Composed(
        events=(
            Repeated(event=PoissonSampled(rate=0.02, event=Gaussian(noise_multiplier=2.0)), times=200),
            Laplace(noise_multiplier=20.0),
            Gaussian(noise_multiplier=5.0),
        )
    )
    _agrees(tight(event, 1e-6), float(pld.get_epsilon_for_delta(1e-6)), steps=202, delta=1e-6)


def test_truncated_batches_cost_at_least_as_much_as_untruncated_ones():
    """dp-accounting's own analysis of truncation is under other neighbours, so only its floor is compared."""
    step = TruncatedPoissonSampled(
        rate=0.01, capacity=200, examples=10_000, event=Gaussian(noise_multiplier=1.0)
    )
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 500)
    poisson = accountant.get_epsilon(1e-5)
    cost = tight(Repeated(event=step, times=500), 1e-5)
    assert poisson - 2e-3 <= cost.upper <= 1.1 * poisson
    assert cost.lower <= poisson + 2e-5


def test_zeroing_out_is_what_adding_or_removing_is_for_sums():
    event = Repeated(event=PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0)), times=100)
    assert tight(event, 1e-5, Adjacency.ZERO_OUT) == tight(event, 1e-5)


def test_planted_wrong_settings_disagree_with_the_peer():
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, value_discretization_interval=_H, sampling_prob=0.01
    )
    theirs = _composed(pld, 1000, 1e-6)
    for noise, rate, steps in [(0.5, 0.01, 1000), (2.0, 0.01, 1000), (1.0, 0.0097, 1000), (1.0, 0.01, 960)]:
        event = Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), times=steps)
        with pytest.raises(AssertionError):
            _agrees(tight(event, 1e-6), theirs, steps=1000, delta=1e-6)
