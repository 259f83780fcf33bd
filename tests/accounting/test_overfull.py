"""The chance of an overfull batch against many digits, and what becomes of it when it cannot be computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mpmath import exp, log, log1p, loggamma, mp, mpf

from reticent.accounting import overfull as module
from reticent.accounting.loss_distribution.dominating import Neighbours, directions
from reticent.accounting.overfull import overfull
from reticent.accounting.tight_epsilon import guarantee, tight, upper_bound
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian, PoissonSampled, PureDp, Repeated, TruncatedPoissonSampled

_ALONE = Neighbours(Adjacency.ADD_OR_REMOVE)


def _exact(capacity: int, most: int, rate: float) -> Any:
    """P(K > capacity), summed upwards from the first term; wants a capacity above the mean."""
    r, k = mpf(rate), capacity + 1
    term = exp(
        loggamma(most + 1) - loggamma(k + 1) - loggamma(most - k + 1) + k * log(r) + (most - k) * log1p(-r)
    )
    total = mpf(0)
    while term > total * mpf(10) ** -20:
        total += term
        term *= mpf(most - k) / (k + 1) * r / (1 - r)
        k += 1
    return total


def _case(rng: np.random.Generator) -> tuple[int, int, float]:
    most = int(10 ** rng.uniform(0.5, 16))
    mean = min(10 ** rng.uniform(-1, 5), most * rng.uniform(0, 1))
    rate = mean / most
    capacity = int(mean + rng.uniform(0.2, 25) * math.sqrt(mean * (1 - rate) + 1))
    return min(max(capacity, 1), most - 1), most, rate


def test_the_chance_is_never_below_the_exact_one_and_next_to_it():
    rng = np.random.default_rng(7)
    with mp.workdps(60):
        for _ in range(100):
            capacity, most, rate = _case(rng)
            if capacity < most * rate or (exact := _exact(capacity, most, rate)) < mpf(10) ** -300:
                continue
            ratio = mpf(overfull(capacity, most, rate)) / exact
            assert 1 <= ratio <= 1 + mpf(10) ** -8, (capacity, most, rate, float(ratio))


def test_without_the_special_function_chernoff_bounds_it(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(8)
    with mp.workdps(60):
        for wrong in (math.nan, 0.0, 1.0, -1.0, math.inf, 1e-290):
            monkeypatch.setattr(module, "betainc", lambda *_, wrong=wrong: wrong)
            for _ in range(20):
                capacity, most, rate = _case(rng)
                if capacity < most * rate or (exact := _exact(capacity, most, rate)) < mpf(10) ** -280:
                    continue
                found = overfull(capacity, most, rate)
                assert exact <= found, (wrong, capacity, most, rate)
                assert found <= max(exact * 30 * math.sqrt(capacity + 1), wrong), (
                    wrong,
                    capacity,
                    most,
                    rate,
                )


@pytest.mark.parametrize("most", [10**3, 2**31 - 1, 2**31, 10**12, 2**53 + 1, 10**19, 10**300, 10**400])
def test_a_capacity_below_the_mean_is_exceeded(most: int):
    assert overfull(most // 1000, most, 0.5) == pytest.approx(1.0)
    assert overfull(most, most, 0.5) == 0.0
    assert overfull(most // 2, most, 0.0) == 0.0
    assert overfull(most // 2, most, 1.0) == 1.0
    assert 0 < overfull(most - 1, most, 1e-3) <= 1.0


@pytest.mark.parametrize("most", [2**31 - 1, 10**13])
def test_batches_that_are_always_overfull_cost_twice_the_distance_however_many_examples_there_are(most: int):
    """scipy's own binomial tail is NaN from 2^31 - 1 on."""

    def run(mean: float) -> Repeated:
        step = TruncatedPoissonSampled(
            rate=mean / most, capacity=1000, examples=most - 1, event=Gaussian(noise_multiplier=0.5)
        )
        return Repeated(event=step, times=100)

    twice = Repeated(event=PoissonSampled(rate=3000 / most, event=Gaussian(noise_multiplier=0.25)), times=100)
    expected = tight(twice, 1e-12).upper
    for found in (tight(run(3000), 1e-12).upper, upper_bound(run(3000), 1e-12, _ALONE)):
        assert expected * (1 - 1e-9) <= found <= expected * 1.01
    assert 0 < directions(run(500).event, _ALONE).slack < 1e-60
    assert upper_bound(run(500), 1e-12, _ALONE) <= tight(run(3000), 1e-12).upper


def test_a_claim_on_batches_that_are_always_overfull_protects_nobody():
    step = TruncatedPoissonSampled(rate=0.5, capacity=10, examples=1000, event=PureDp(epsilon=0.1))
    assert math.isinf(tight(step, 1e-5).upper)
    assert math.isinf(upper_bound(step, 1e-5, _ALONE))
    assert str(guarantee(step, 1e-5)).startswith("No privacy guarantee")
