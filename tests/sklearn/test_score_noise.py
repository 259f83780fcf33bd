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

from reticent.core.keys import Keys
from reticent.mechanisms.events import Gaussian, Laplace
from reticent.sklearn import trials
from reticent.sklearn.spending import NEARLY_EXACT, Spending
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


@pytest.mark.parametrize(("delta", "is_said"), [(0, True), (1e-6, False)])
def test_pure_privacy_says_how_exact_its_noise_is(delta: float, is_said: bool) -> None:
    spending = Spending(
        epsilon=1.0, delta=delta, adjacency="replace", rows=9, keys=Keys.seeded(0), budget=None
    )
    assert (NEARLY_EXACT in spending.assumptions) == is_said
