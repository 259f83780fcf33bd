"""Each row of a search is fitted or scores by a coin of its own: one row more or less moves no other.

All outcomes of the coins are enumerated. A run on such a division is replaced by one whose law can be written
down: a fit that answers one bit with odds e^(epsilon * ones), and a score with Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from recording import separable
from scipy import stats

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.core.keys import Keys
from reticent.data.held_out import Split
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian, Laplace, PureDp
from reticent.sklearn import (
    PateClassifier,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateSearch,
    trials,
)
from reticent.sklearn.spending import Spending

_X, _Y = separable(4000)
_SHARE, _EPSILON = 0.3, 1.0
_KNOWN = {"norm": 1.5, "classes": [0, 1]}

Division = tuple[tuple[int, ...], tuple[int, ...]]  # the records that are fitted, and those that score
Law = dict[Division, float]
_SEEN: dict[tuple[int, ...], Law] = {}


# The law of a division


def divisions(records: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> Law:
    """How likely each division of these records is, by what `Search.best` makes of every outcome of coins."""
    if records in _SEEN:
        return _SEEN[records]
    seen: list[Division] = []

    def watched(
        self: Any, price: Any, place: int, trial: int, x: Any, y: Any, fitted: Any, score: Any
    ) -> trials.BestRun:
        seen.append((tuple(x[fitted, 0].astype(int)), tuple(x[score, 0].astype(int))))
        return trials.BestRun(self._model, {}, 0.0)

    law: Law = {}
    for outcome in product((False, True), repeat=len(records)):
        with monkeypatch.context() as patch:
            patch.setattr(Split, "is_held_out", lambda self, first, count, mask=outcome: np.array(mask, bool))
            patch.setattr(trials.Search, "_run", watched)
            patch.setattr(trials, "draw_trials", lambda key, event: 1)
            price = trials.Price(1.0, 1e-7, (), Gaussian(noise_multiplier=9.0))
            patch.setattr(trials.Search, "_price", lambda self, features, p=price: p)
            searching(examples=5).best(np.array(records, float)[:, None], np.zeros(len(records)))
        chance = math.prod(_SHARE if coin else 1 - _SHARE for coin in outcome)
        law[seen[-1]] = law.get(seen[-1], 0.0) + chance
    return _SEEN.setdefault(records, law)


def searching(examples: int, model: Any = None, **changes: Any) -> trials.Search:
    spending = Spending(
        epsilon=0.5,
        delta=1e-5,
        adjacency="add-or-remove",
        examples=examples,
        keys=Keys.seeded(0),
        budget=None,
    )
    model = model or PrivateLogisticRegression(method="output", **_KNOWN)
    given = {"mean": 1.5, "shape": 0.0, "holdout": _SHARE, "seed": 0, **changes}
    return trials.Search(model, [{}], spending, **given)


def by_position(records: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> Law:
    """A bug to plant: a random order, of which the first few score. It needs neighbours of equal size."""
    held = max(round(_SHARE * len(records)), 1)
    orders = list(permutations(records))
    law: Law = {}
    for order in orders:
        found = tuple(sorted(order[held:])), tuple(sorted(order[:held]))
        law[found] = law.get(found, 0.0) + 1 / len(orders)
    return law


def log_ratio(law: Law, other: Law, divisors: tuple[int, int] = (1, 1)) -> float:
    """The largest log ratio of the densities of a run between two laws, over bits and a grid of scores.

    Records are odd or even. The fit answers 1 with odds e^(epsilon * odd ones); a record that scores gains 1
    if its parity is the answer, and Laplace noise for a term of 1/2 is added to the sum of gains less 1/2.
    """
    scale = 0.5 / _EPSILON
    scores = np.linspace(-6, 6, 241)

    def density(law: Law, divisor: int) -> np.ndarray:
        total = np.zeros((2, len(scores)))
        for (fitted, scoring), chance in law.items():
            odds = math.exp(_EPSILON * sum(record % 2 for record in fitted))
            for bit, likely in enumerate((1 / (1 + odds), odds / (1 + odds))):
                gains = sum((record % 2 == bit) - 0.5 for record in scoring)
                total[bit] += chance * likely * np.exp(-np.abs(scores * divisor - gains) / scale) * divisor
        return total

    return float(np.abs(np.log(density(law, divisors[0]) / density(other, divisors[1]))).max())


def worst(law_of: Callable[..., Law], monkeypatch: pytest.MonkeyPatch) -> float:
    found = []
    for records in ((1, 2, 3, 4), (2, 4, 1)):
        whole = law_of(records, monkeypatch)
        found += [
            log_ratio(whole, law_of(tuple(r for r in records if r != gone), monkeypatch)) for gone in records
        ]
    return max(found)


def test_the_others_are_divided_as_if_the_record_had_never_been_there(monkeypatch: pytest.MonkeyPatch):
    """Leaving a record out of the divisions of four gives those of three, with their probabilities."""
    four = divisions((1, 2, 3, 4), monkeypatch)
    assert sum(four.values()) == pytest.approx(1)
    for gone in (1, 2, 3, 4):
        without: Law = {}
        for (fitted, scoring), chance in four.items():
            kept = tuple(r for r in fitted if r != gone), tuple(r for r in scoring if r != gone)
            without[kept] = without.get(kept, 0.0) + chance
        three = divisions(tuple(r for r in (1, 2, 3, 4) if r != gone), monkeypatch)
        assert without == {division: pytest.approx(chance) for division, chance in three.items()}


def test_no_density_of_a_run_moves_by_more_than_epsilon(monkeypatch: pytest.MonkeyPatch):
    found = worst(divisions, monkeypatch)
    assert 0.5 * _EPSILON < found <= _EPSILON * (1 + 1e-12)


def test_a_division_by_position_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    assert worst(by_position, monkeypatch) > 1.2 * _EPSILON


def test_a_score_that_is_divided_by_the_rows_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    four, three = (divisions(records, monkeypatch) for records in ((1, 2, 3, 4), (1, 2, 3)))
    assert log_ratio(four, three, divisors=(4, 3)) > 1.5 * _EPSILON


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_noise_of_a_score_is_that_of_the_enumeration(adjacency: Adjacency):
    """For a pure fit: Laplace noise for one term of 1/2, or for two where a record is replaced."""
    noise = trials.score_noise(PureDp(epsilon=_EPSILON, adjacency=adjacency), Neighbours(adjacency))
    if isinstance(noise, Laplace):
        assert noise.noise_multiplier == pytest.approx(adjacency.reach / _EPSILON)
    else:
        assert noise.noise_multiplier < np.sqrt(2) * adjacency.reach / _EPSILON


# What is declared


def test_fits_and_scores_go_by_what_coins_leave_on_average(monkeypatch: pytest.MonkeyPatch):
    declared, noises = [], []

    def watched(source: Any, gains: np.ndarray, noise: Any) -> float:
        noises.append(noise)
        return 25.0

    honest = PrivateLogisticRegression.fit

    def fit(self: Any, x: Any, y: Any) -> Any:
        declared.append(self.examples)
        return honest(self, x, y)

    monkeypatch.setattr(trials, "_with_noise", watched)
    monkeypatch.setattr(PrivateLogisticRegression, "fit", fit)
    scores = set()
    for rows in (1000, 999, 1100):
        search = searching(examples=1000, holdout=0.2)
        scores.add(search.best(_X[:rows], _Y[:rows]).score)
    assert scores == {25 / 200 + 0.5}
    assert set(declared) == {800}
    assert len(set(noises)) == 1


def test_a_search_works_between_all_neighbours():
    model = PrivateLogisticRegression(method="output", adjacency="zero-out", **_KNOWN)
    found = PrivateSearch(model, {"regularisation": [0.02, 0.1]}, mean=3.0, epsilon=2.0, random_state=1)
    assert found.fit(_X, _Y).score(_X, _Y) > 0.9
    assert found.guarantee_.adjacency is Adjacency.ZERO_OUT


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(method="output", **_KNOWN),
        PrivateLogisticRegression(method="objective", **_KNOWN),
        PrivateLinearRegression(method="input", norm=1.5, bounds=(0.0, 1.0)),
        pytest.param(
            PrivateMLPClassifier(steps=2, hidden=(2,), **_KNOWN),
            marks=pytest.mark.thorough,
        ),
        PateClassifier(**_KNOWN),
    ],
    ids=lambda model: type(model).__name__,
)
def test_coins_that_leave_nobody_on_a_side_cause_no_error(
    model: Any, held_out: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Split, "is_held_out", lambda self, first, count: np.full(count, held_out))
    found: Any = searching(examples=60, model=model).best(_X[:60], _Y[:60]).model
    assert found.predict(_X[:5]).shape == (5,)
    assert "_fewest_rows" not in vars(found)


@pytest.mark.parametrize("batch_size", [None, 40])
def test_a_perceptron_has_room_for_what_coins_leave(batch_size: int | None):
    spending = Spending(
        epsilon=1.0,
        delta=1e-5,
        adjacency="add-or-remove",
        examples=400,
        keys=Keys.seeded(0),
        budget=None,
    )
    sampler = PrivateMLPClassifier(steps=2, batch_size=batch_size)._plan(spending, None).sampler
    most = sampler.examples + sampler.allowed_difference
    for share in (0.01, 0.2, 0.9, 0.99):
        assert stats.binom.sf(most, round(400 / (1 - share)), 1 - share) < 1e-24
