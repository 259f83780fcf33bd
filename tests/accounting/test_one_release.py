"""A single release has its exact epsilon: both ends of its bracket agree to nine digits."""

from __future__ import annotations

import math

import pytest
from mpmath import erfc, exp, findroot, log, mp, mpf, sqrt

from reticent.accounting.loss_distribution.one_release import lower_of_one, upper_of_one
from reticent.accounting.loss_distribution.pairs import AtomPair, GaussianPair
from reticent.accounting.tight_epsilon import tight
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    Event,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDp,
    RandomizedResponse,
)

_GAUSSIAN = Gaussian(noise_multiplier=1.3)


@pytest.mark.parametrize("delta", [0.01, 1e-6, 1e-15])
@pytest.mark.parametrize(
    ("event", "adjacency", "group"),
    [
        (PoissonSampled(rate=0.02, event=_GAUSSIAN), Adjacency.ADD_OR_REMOVE, 1),
        (PoissonSampled(rate=0.02, event=_GAUSSIAN), Adjacency.REPLACE, 1),
        (PoissonSampled(rate=0.02, event=_GAUSSIAN), Adjacency.ADD_OR_REMOVE, 3),
        (FixedSizeSampled(batch_size=3, examples=40, event=_GAUSSIAN), Adjacency.REPLACE, 1),
        (Laplace(noise_multiplier=2.0), Adjacency.ADD_OR_REMOVE, 1),
        (PureDp(epsilon=0.5), Adjacency.ADD_OR_REMOVE, 1),
        (RandomizedResponse(truth=0.4, choices=4), Adjacency.REPLACE, 1),
    ],
)
def test_both_ends_of_a_single_release_agree(event: Event, adjacency: Adjacency, group: int, delta: float):
    cost = tight(event, delta, adjacency, group=group)
    assert 0 <= cost.lower <= cost.upper <= cost.lower * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("rate", "noise", "delta"), [(0.02, 1.3, 1e-6), (0.4, 0.5, 1e-3), (1e-3, 0.7, 1e-12)]
)
def test_a_sampled_gaussian_has_the_epsilon_of_its_formula(rate: float, noise: float, delta: float):
    """In forty digits: delta of the removed record, with the edge where the loss is epsilon."""
    with mp.workdps(40):
        q, mu = mpf(rate), 1 / mpf(noise)

        def above(z: mpf) -> mpf:
            return erfc(z / sqrt(mpf(2))) / 2

        def cost(epsilon: mpf) -> mpf:
            z = log((exp(epsilon) - 1 + q) / q) / mu + mu / 2
            return (1 - q - exp(epsilon)) * above(z) + q * above(z - mu)

        wanted = findroot(lambda e: cost(e) - mpf(delta), tight(_sampled(rate, noise), delta).upper)
    found = tight(_sampled(rate, noise), delta)
    assert found.lower * (1 - 1e-15) <= float(wanted) <= found.upper * (1 + 1e-15)


def _sampled(rate: float, noise: float) -> Event:
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))


def test_ends_that_are_special():
    both = 0.99 * math.exp(-0.1)
    disclosing = AtomPair((-math.inf, 0.1, math.inf), (0.0, 0.99, 0.01), (1 - both, both, 0.0))
    assert math.isinf(upper_of_one(disclosing, 1e-3))
    assert upper_of_one(disclosing, 0.02) == pytest.approx(0.1 + math.log(0.98 / 0.99), rel=1e-9)
    assert upper_of_one(GaussianPair(1.0), 0.999) == 0.0
    assert lower_of_one(GaussianPair(1.0), 0.999) < 1e-300
    cost = tight(_sampled(0.5, 0.01), 1e-5)  # e^epsilon has no float: far apart, and still a bracket
    assert 699 < cost.lower < 5400 < cost.upper < 5430
