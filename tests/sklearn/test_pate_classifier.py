"""PATE behind scikit-learn's door: what it promises, what it pays, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import BudgetExceeded, InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.sklearn import PateClassifier, SharedBudget

CHANCE = np.random.default_rng(0)
CENTRES = np.array([[1.0, 0.0, 0.5], [-1.0, 0.5, 0.0], [0.0, -1.0, -0.5]])
Y = CHANCE.integers(3, size=3000)
X = CENTRES[Y] + 0.3 * CHANCE.normal(size=(3000, 3))
PUBLIC = CENTRES[CHANCE.integers(3, size=400)] + 0.3 * CHANCE.normal(size=(400, 3))
NAMES = np.array(["ape", "bee", "cow"])[Y]
FIXED: dict[str, Any] = {"epsilon": 3.0, "norm": 2.0, "classes": ["ape", "bee", "cow"], "random_state": 0}


def test_it_learns_from_public_rows():
    model = PateClassifier(**FIXED, public=PUBLIC, teachers=100).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.95
    assert model.guarantee_.epsilon <= 3.0
    assert "the public rows are public" in model.guarantee_.assumptions
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(3000))
    assert "answered" in model.notes_[0]


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=4, random_state=0)])
def test_any_classifier_teaches(estimator: Any):
    model = PateClassifier(**FIXED, public=PUBLIC, estimator=estimator, teachers=60).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.8
    assert isinstance(model.student_, DecisionTreeClassifier)


def test_rows_can_be_made_up():
    model = PateClassifier(**FIXED, teachers=100).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.8
    assert "made-up" in model.notes_[0]


@pytest.mark.parametrize("adjacency", ["replace", "add-or-remove"])
@pytest.mark.parametrize("norm", [2.0, None])
def test_all_of_it_costs_no_more_than_was_promised(adjacency: str, norm: float | None):
    known = {**FIXED, "norm": norm, "adjacency": adjacency, "epsilon": 2.0}
    model = PateClassifier(**known, public=PUBLIC).fit(X, NAMES)
    cost = tight(model.event_, model.guarantee_.delta, Adjacency(adjacency)).upper
    assert cost <= model.guarantee_.epsilon * (1 + 1e-6)
    assert 1.8 < model.guarantee_.epsilon <= 2.0 * (1 + 1e-6)


class Watching:
    """A budget that notes what was charged, and when."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def charge(self, event: Event, **_: Any) -> None:
        self.events.append(event)

    def __sklearn_clone__(self) -> Watching:
        return self


def test_nothing_is_asked_before_it_is_paid(monkeypatch: pytest.MonkeyPatch):
    from reticent.sklearn import pate

    budget, seen = Watching(), []
    real = pate.Teller

    def watched(*words: Any) -> Any:
        seen.append(len(budget.events))
        return real(*words)

    monkeypatch.setattr(pate, "Teller", watched)
    PateClassifier(**FIXED, public=PUBLIC, budget=budget).fit(X, NAMES)
    assert seen == [1]
    shared = SharedBudget(epsilon=3.2, delta=1e-5)
    PateClassifier(**FIXED, public=PUBLIC, budget=shared).fit(X, NAMES)
    with pytest.raises(BudgetExceeded):
        PateClassifier(**FIXED, public=PUBLIC, budget=shared).fit(X, NAMES)


def test_bad_input_is_said():
    with pytest.raises(InvalidArgument, match="2 columns, and X has 3"):
        PateClassifier(**FIXED, public=PUBLIC[:, :2]).fit(X, NAMES)
    with pytest.raises(InvalidArgument, match="delta"):
        PateClassifier(**FIXED, public=PUBLIC, delta=0).fit(X, NAMES)
    with pytest.raises(InvalidArgument, match="5000 teachers"):
        PateClassifier(**FIXED, public=PUBLIC, teachers=5000).fit(X, NAMES)
    with pytest.raises(InvalidArgument, match="100 teachers cannot share 99 records"):
        PateClassifier(**FIXED, public=PUBLIC, teachers=100, examples=99).fit(X, NAMES)


@pytest.mark.parametrize("rare", [0, 1, 2])
@pytest.mark.parametrize("teachers", [2, 3, None])
def test_no_label_ends_a_fit_that_is_paid(rare: int, teachers: int | None):
    """With one row of a rare class every fit used to fail, and with two every other one."""
    names = np.where(np.arange(200) < rare, "bee", "ape")
    for seed in range(3):
        model = PateClassifier(**{**FIXED, "random_state": seed}, public=PUBLIC[:50], teachers=teachers)
        assert set(model.fit(X[:200], names).predict(X[:5])) <= set(FIXED["classes"])


def test_teachers_and_room_follow_from_the_declared_number(monkeypatch: pytest.MonkeyPatch):
    from reticent.sklearn import pate

    made, real = [], pate.partition

    def watched(*words: Any, **more: Any) -> Any:
        made.append(real(*words, **more))
        return made[-1]

    monkeypatch.setattr(pate, "partition", watched)
    models = [
        PateClassifier(**FIXED, public=PUBLIC, examples=1000).fit(X[:rows], NAMES[:rows])
        for rows in (979, 980, 1000, 1020)
    ]
    assert {shards.indices.shape for shards in made} == {(50, made[0].capacity)}
    assert len({model.guarantee_.delta for model in models}) == 1
    for model in models:
        assert "the number of records, 1000, is public" in model.guarantee_.assumptions
        assert model.event_ == models[0].event_


def test_the_number_of_rows_is_said_to_be_public_where_none_is_declared():
    model = PateClassifier(**FIXED, public=PUBLIC).fit(X[:979], NAMES[:979])
    assert "the number of records, 979, is public" in model.guarantee_.assumptions
