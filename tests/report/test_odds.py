"""Odds are computed from claims that hold on a machine: samplers take their share of every delta."""

from __future__ import annotations

import pytest

from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian, PoissonSampled, Repeated
from reticent.report.facts.odds import ClaimPoint, claim_points

_RUN = Repeated(event=PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0)), times=200)


@pytest.mark.parametrize("event", [Gaussian(noise_multiplier=0.8), _RUN])
def test_no_claim_is_smaller_than_the_guarantee_at_its_delta(event):
    stated = guarantee(event, 1e-5)
    found = claim_points(event, ClaimPoint(stated.epsilon, stated.delta), Adjacency.ADD_OR_REMOVE)
    assert found[0] == (stated.epsilon, stated.delta)
    assert len(found) > 3
    for epsilon, delta in found[1:]:
        assert epsilon >= guarantee(event, delta).epsilon - 1e-9  # both are 0 where delta is large
        assert epsilon <= tight(event, delta).upper * 1.02 + 1e-3  # and hardly more
