"""The noisy score of a run: exact sums on a grid, and as much noise as is paid for.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import NEARLY_EXACT, RESERVED, delta_left_for
from reticent.accounting.tight_epsilon import tight, upper_bound
from reticent.core.errors import BudgetExceeded, CannotMeet
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ApproximateDp,
    Composed,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    Repeated,
)
from reticent.sklearn import budget, trials
from reticent.sklearn import spending as spending_module
from reticent.sklearn.spending import Spending
from reticent.sklearn.trials import _STEP, _with_noise

RARE = 1e-6  # a false alarm of each statistical test
NOISES = [(Gaussian(noise_multiplier=6.0), "norm"), (Laplace(noise_multiplier=6.0), "laplace")]


def source(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed))


@pytest.mark.parametrize(("noise", "law"), NOISES)
def test_the_noise_is_that_of_a_half_and_on_a_grid(noise: Gaussian | Laplace, law: str) -> None:
    gains, chance = np.full(300, 0.75), source()
    drawn = np.array([_with_noise(chance, gains, noise) for _ in range(2_000)]) - 75.0
    assert stats.kstest(drawn / 3, law).pvalue > RARE
    assert stats.kstest(drawn / 1.5, law).pvalue < RARE  # planted: halved
    assert len(np.unique(drawn)) > 1_900


class Spied:
    """What is summed, in steps, before noise."""

    def __init__(self) -> None:
        self.sums: list[int] = []

    def __call__(self, source: Any, value: np.ndarray, *, max_norm: float, are_whole: bool, **scale: float):
        assert are_whole
        assert max_norm == 0.5 / _STEP
        self.sums.append(int(value))
        return np.float64(0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(allow_infinity=True, allow_nan=True))
def test_one_row_moves_a_score_by_its_own_half(gains: list[float], other: float) -> None:
    """Removed by one half, replaced by one, whatever the gain is and whatever the others are."""
    spied = Spied()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "add_whole_normals", spied)
        for rows in (gains, gains[1:], [other, *gains[1:]]):
            _with_noise(source(), np.array(rows), NOISES[0][0])
    here, removed, replaced = spied.sums
    assert abs(here - removed) <= 0.5 / _STEP
    assert abs(here - replaced) <= 1 / _STEP


def opened(epsilon: float = 1.0, delta: float | None = 1e-5, budget: Any = None) -> Spending:
    return Spending(
        epsilon=epsilon, delta=delta, adjacency="replace", examples=9, keys=Keys.seeded(0), budget=budget
    )


SEVERAL = (
    ExponentialMechanism(epsilon=0.2, adjacency=Adjacency.REPLACE),
    Repeated(event=Gaussian(noise_multiplier=18.979348283082466), times=20),
)


def test_what_a_fit_prints_leaves_room_for_its_samplers() -> None:
    spending = opened(epsilon=2.0)
    for event in SEVERAL:
        spending.pay(event, "test")
    spending.is_basic = False
    said = spending.guarantee()
    assert said.epsilon > tight(Composed(events=SEVERAL), 1e-5, Adjacency.REPLACE).upper
    left = delta_left_for(said.epsilon, 1e-5)
    near = Neighbours(Adjacency.REPLACE)
    assert said.epsilon >= upper_bound(Composed(events=SEVERAL), 1e-5 * (1 - RESERVED), near)
    assert said.epsilon <= tight(Composed(events=SEVERAL), left, Adjacency.REPLACE).upper


def test_a_fit_stretches_only_as_far_as_its_samplers_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    spending, asked = opened(epsilon=1.0), []
    monkeypatch.setattr(spending_module, "cost_within", lambda *terms: asked.append(terms[1:3]) or 2.0)
    assert spending.stretch(lambda value: Gaussian(noise_multiplier=1 / value), 0.5) == 0.5
    assert set(asked) == {(1.0, 1e-5)}


def test_shares_that_use_up_delta_say_what_they_rest_on() -> None:
    spending = opened(epsilon=1.0)
    spending.pay(ExponentialMechanism(epsilon=0.25, adjacency=Adjacency.REPLACE), "test")
    spending.pay(ApproximateDp(epsilon=0.75, delta=1e-5, adjacency=Adjacency.REPLACE), "test")
    said = spending.guarantee()
    assert said.epsilon <= 1.0
    assert NEARLY_EXACT in said.assumptions


def test_a_fit_at_the_end_of_its_samplers_is_refused_before_it_pays() -> None:
    with pytest.raises(CannotMeet, match="the ends of its sampler show"):
        opened(epsilon=200.0)


def test_a_cost_that_is_no_number_fits_no_shared_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = budget.SharedBudget(epsilon=1.0, delta=1e-5)
    monkeypatch.setattr(budget, "cost_within", lambda *terms: float("nan"))
    with pytest.raises(BudgetExceeded):
        shared.charge(Gaussian(noise_multiplier=100.0), adjacency=shared.adjacency, purpose="test")


@pytest.mark.parametrize(("delta", "is_said"), [(0, True), (1e-6, False)])
def test_pure_privacy_says_how_exact_its_noise_is(delta: float, is_said: bool) -> None:
    spending = opened(delta=delta)
    assert (NEARLY_EXACT in spending.assumptions) == is_said
