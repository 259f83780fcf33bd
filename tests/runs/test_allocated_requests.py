"""`reticent train --sampling allocation`: from the words of a request to the batches of its plan."""

from __future__ import annotations

import pytest

from reticent.core.errors import InvalidArgument
from reticent.data.allocation import Allocation
from reticent.data.sampling import Poisson
from reticent.mechanisms.adjacency import Adjacency
from reticent.runs.method import Terms
from reticent.runs.methods import descent
from reticent.runs.request import Request


def test_batches_are_drawn_as_asked():
    terms = Terms(rows=800, records=1000, model="linear", epsilon=1.0, delta=1e-5, beside=None)
    plan = descent.stochastic(terms._replace(sampling="allocation")).plan
    assert isinstance(plan.sampler, Allocation)
    assert plan.adjacency is Adjacency.ADD_OR_REMOVE
    assert plan.guarantee().epsilon <= 1.0
    assert isinstance(descent.stochastic(terms).plan.sampler, Poisson)


def test_allocation_stands_for_sgd_and_goes_with_nothing_else():
    assert Request(source="digits", epsilon=1.0, sampling="allocation").method == "sgd"
    for other, said in (
        ({"method": "gd"}, "not for 'gd'"),
        ({"noise": "banded", "bands": 4}, "'banded' noise"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            Request(source="digits", epsilon=1.0, sampling="allocation", **other)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Available: poisson, allocation"):
        Request(source="digits", epsilon=1.0, sampling="shuffled")  # type: ignore[arg-type]
