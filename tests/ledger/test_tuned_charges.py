"""A tuned release is charged like any other: once, for all of its runs."""

from __future__ import annotations

import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import BudgetExceeded
from reticent.ledger.ledger import DatasetBudget, Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import BestOfTrials, Gaussian

_TUNED = BestOfTrials(shape=0.0, gamma=0.1, event=Gaussian(noise_multiplier=20.0))


def pay(budget: DatasetBudget) -> None:
    budget.charge(_TUNED, adjacency=Adjacency.ADD_OR_REMOVE, purpose="tune")


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_tuned_release_is_charged_and_refused_where_it_does_not_fit(ledger: Ledger, adaptive: bool):
    once = tight(_TUNED, 1e-6).upper
    ledger.limit("tuned", epsilon=1.2 * once, delta=1e-6, adaptive=adaptive)
    budget = ledger.for_dataset("tuned")
    pay(budget)
    with pytest.raises(BudgetExceeded):
        pay(budget)
    assert ledger.account("tuned").released[_TUNED] == 1
    if not adaptive:
        assert budget.guarantee().epsilon == pytest.approx(once)
