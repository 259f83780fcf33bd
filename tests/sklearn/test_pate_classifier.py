"""PATE behind scikit-learn's door: what it promises, what it pays, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recording import Refusing
from sklearn.tree import DecisionTreeClassifier

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import BudgetExceeded, InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.sklearn import PateClassifier, SharedBudget, private, private_bounds
from reticent.sklearn.pate import code_labels

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
    model = PateClassifier(**known, public=PUBLIC, teachers=10).fit(X, NAMES)
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
    few = {**FIXED, "public": PUBLIC, "teachers": 10}
    PateClassifier(**few, budget=budget).fit(X, NAMES)
    assert seen == [1]
    shared = SharedBudget(epsilon=3.2, delta=1e-5)
    PateClassifier(**few, budget=shared).fit(X, NAMES)
    with pytest.raises(BudgetExceeded):
        PateClassifier(**few, budget=shared).fit(X, NAMES)


def test_bad_input_is_said():
    with pytest.raises(InvalidArgument, match="2 columns, and X has 3"):
        PateClassifier(**FIXED, public=PUBLIC[:, :2]).fit(X, NAMES)
    with pytest.raises(InvalidArgument, match="delta"):
        PateClassifier(**FIXED, public=PUBLIC, delta=0).fit(X, NAMES)
    with pytest.raises(InvalidArgument, match="5000 teachers"):
        PateClassifier(**FIXED, public=PUBLIC, teachers=5000).fit(X, NAMES)
    with pytest.raises(InvalidArgument, match="100 teachers cannot share 99 records"):
        PateClassifier(**FIXED, public=PUBLIC, teachers=100, examples=99).fit(X[:99], NAMES[:99])


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
        for rows in (979, 1020)
    ]
    assert {shards.indices.shape for shards in made} == {(50, made[0].capacity)}
    assert len({model.guarantee_.delta for model in models}) == 1
    for model in models:
        assert "the number of records, 1000, is public" in model.guarantee_.assumptions
        assert model.event_ == models[0].event_


def test_the_number_of_rows_is_said_to_be_public_where_none_is_declared():
    model = PateClassifier(**FIXED, public=PUBLIC, teachers=5).fit(X[:979], NAMES[:979])
    assert "the number of records, 979, is public" in model.guarantee_.assumptions


# Labels are not looked at before they are paid for


class Watched(str):
    """A label that counts how often anybody looks at one."""

    looks = 0

    def _look(self) -> str:
        Watched.looks += 1
        return str.__str__(self)

    def __eq__(self, other: object) -> bool:
        return self._look() == other

    def __ne__(self, other: object) -> bool:
        return self._look() != other

    def __lt__(self, other: str) -> bool:
        return self._look() < other

    def __gt__(self, other: str) -> bool:
        return self._look() > other

    def __hash__(self) -> int:
        return hash(self._look())

    def __str__(self) -> str:
        return self._look()

    def __repr__(self) -> str:
        return repr(self._look())


class LooksBefore:
    """A budget that notes how many looks there had been when it was first charged, and may refuse."""

    def __init__(self, *, refuses: bool) -> None:
        self.looks: list[int] = []
        self.refuses = refuses

    def charge(self, event: Event, **_: Any) -> None:
        self.looks.append(Watched.looks)
        if self.refuses:
            raise PermissionError

    def __sklearn_clone__(self) -> LooksBefore:
        return self


UNSEEDED = {**FIXED, "random_state": None}  # a seed is mixed with the labels: it is for tests only
UNDECLARED = [{}, {"norm": None}, {"classes": "private"}, {"classes": "private", "norm": None}]


def looks_before_paying(**changes: Any) -> int:
    Watched.looks = 0
    labels = np.empty(300, object)
    labels[:] = [Watched(name) for name in NAMES[:300]]
    budget = LooksBefore(refuses=True)
    model = PateClassifier(**{**UNSEEDED, **changes}, public=PUBLIC[:50], budget=budget)
    with pytest.raises(PermissionError):
        model.fit(X[:300], labels)
    return Watched.looks


@pytest.mark.parametrize("changes", UNDECLARED, ids=str)
def test_no_label_is_looked_at_before_anything_is_paid(changes: dict[str, Any]):
    assert looks_before_paying(**changes) == 0


def test_a_look_at_the_labels_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    """As other classifiers do: a label that was not declared is an error before anything is paid."""
    monkeypatch.setattr(PateClassifier, "_check_declared", private.PrivateClassifierFit._check_declared)
    assert looks_before_paying() > 0


def test_declared_classes_are_looked_up_after_the_last_payment():
    Watched.looks = 0
    labels = np.empty(300, object)
    labels[:] = [Watched(name) for name in NAMES[:300]]
    budget = LooksBefore(refuses=False)
    PateClassifier(**{**UNSEEDED, "norm": None}, public=PUBLIC[:50], budget=budget).fit(X[:300], labels)
    assert budget.looks == [0, 0]  # the norm, and the votes
    assert Watched.looks > 0


def rare(label: Any) -> list[Any]:
    return [*NAMES[:299].tolist(), label]


STRANGE = ["bee", "wolf", "", 3, 2.5, float("nan"), float("inf"), None, True, ["bee"], b"bee", 10**400]


@pytest.mark.parametrize("changes", UNDECLARED, ids=str)
def test_where_the_budget_refuses_no_label_changes_what_is_said(changes: dict[str, Any]):
    said = set()
    for label in STRANGE:
        model = PateClassifier(**{**UNSEEDED, **changes}, public=PUBLIC[:50], budget=Refusing())
        with pytest.raises(PermissionError) as refused:
            model.fit(X[:300], rare(label))
        said.add(str(refused.value))
    assert len(said) == 1


def test_no_label_of_any_kind_ends_a_fit_that_is_paid():
    models = [
        PateClassifier(**FIXED, public=PUBLIC[:50], teachers=2).fit(X[:300], rare(label)) for label in STRANGE
    ]
    assert {tuple(model.classes_) for model in models} == {("ape", "bee", "cow")}
    assert len({(repr(model.event_), str(model.guarantee_)) for model in models}) == 1


@pytest.mark.parametrize("label", STRANGE, ids=str)
def test_a_label_that_one_row_has_does_not_decide_how_classes_are_found(label: Any):
    found = private_bounds._count_labels(np.array([*rare(label)[:-1], None], object))
    labels = np.empty(300, object)
    labels[:] = rare(label)
    names, counts = private_bounds._count_labels(labels)
    others = dict(zip(found[0], found[1], strict=True))
    changed = [abs(count - others.get(name, 0)) for name, count in zip(names, counts, strict=True)]
    assert sum(changed) <= 1
    assert list(private_bounds._sort_names(names[counts > 10])) == ["ape", "bee", "cow"]


def test_classes_that_are_found_are_paid_for_and_those_of_y_are_an_assumption():
    known = {**FIXED, "public": PUBLIC, "teachers": 10}
    found = PateClassifier(**{**known, "classes": "private", "epsilon": 8.0}).fit(X, NAMES)
    assert isinstance(found.event_, Composed)
    assert private.PUBLIC_LABELS not in found.guarantee_.assumptions
    public = PateClassifier(**{**known, "classes": "public"}).fit(X, NAMES)
    assert private.PUBLIC_LABELS in public.guarantee_.assumptions
    for model in (found, public):
        assert list(model.classes_) == ["ape", "bee", "cow"]


def test_a_row_with_another_label_teaches_nobody(monkeypatch: pytest.MonkeyPatch):
    from reticent.sklearn import pate

    taught, real = [], pate.teach_estimators

    def watched(estimator: Any, shards: Any, x: Any, y: np.ndarray, **more: Any) -> Any:
        taught.append(y)
        return real(estimator, shards, x, y, **more)

    monkeypatch.setattr(pate, "teach_estimators", watched)
    PateClassifier(**FIXED, public=PUBLIC[:50], teachers=2).fit(X[:300], rare("wolf"))
    assert taught[0][-1] == -1
    assert (taught[0][:-1] == Y[:299]).all()


@pytest.mark.parametrize("classes", [["ape", "bee"], [0, 3, 7], [0.5, 2.0]])
def test_codes_are_places_among_the_classes(classes: list[Any]):
    other = "wolf" if isinstance(classes[0], str) else 5
    labels = [*classes, other, classes[-1]]
    wanted = [*range(len(classes)), -1, len(classes) - 1]
    for kind in (None, object):
        assert code_labels(np.array(labels, kind), np.array(classes)).tolist() == wanted


def test_classes_of_another_type_than_the_labels_are_refused():
    with pytest.raises(InvalidArgument, match="classes are words and the labels are numbers"):
        PateClassifier(**FIXED).fit(X, Y)
    said = set()
    for label in ("bee", "a longer word"):
        with pytest.raises(
            InvalidArgument, match="labels are words and the declared classes are num"
        ) as raised:
            PateClassifier(classes=[0, 1, 2], norm=1.0).fit(X[:300], np.array(rare(label)))
        said.add(str(raised.value))
    assert len(said) == 1
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PateClassifier(**FIXED).fit(X, NAMES[:-1])
    with pytest.raises(InvalidArgument, match="y to be passed"):
        PateClassifier(**FIXED).fit(X, None)  # pyright: ignore[reportArgumentType]
