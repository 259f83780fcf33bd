"""The additive estimators: scikit-learn's own battery, and what a fit says that it cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recording import Recorder, Refusing
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.sklearn import PrivateAdditiveClassifier, PrivateAdditiveRegressor, PrivateSearch

_X = np.random.default_rng(0).uniform(-2, 2, (4000, 2))
_CURVED = np.abs(_X[:, 0])

MODELS: dict[str, Any] = {
    "classes": PrivateAdditiveClassifier(classes="private", passes=8),
    "classes, declared": PrivateAdditiveClassifier(ranges=(-2, 2), classes=[0, 1], passes=8),
    "number": PrivateAdditiveRegressor(passes=8),
    "number, declared": PrivateAdditiveRegressor(ranges=[(-2, 2), (-2, 2)], bounds=(0, 2), passes=8),
}


def _like(name: str, **changes: Any) -> Any:
    model: Any = clone(MODELS[name])
    return model.set_params(**changes)


def _targets(name: str) -> np.ndarray:
    return (_CURVED > 1).astype(int) if name.startswith("classes") else _CURVED


@pytest.mark.thorough
@parametrize_with_checks(
    [PrivateAdditiveClassifier(classes="public", passes=2), PrivateAdditiveRegressor(passes=2)]
)
def test_scikit_learn(estimator: Any, check: Any):
    check(estimator)


@pytest.mark.parametrize("name", MODELS)
def test_the_total_is_the_accountants_and_all_of_it_is_charged(name: str):
    recorder = Recorder()
    model = _like(name, epsilon=0.8, delta=1e-5, random_state=0, budget=recorder)
    said = model.fit(_X, _targets(name)).guarantee_
    assert said.epsilon == pytest.approx(tight(model.event_, 1e-5, Adjacency.ADD_OR_REMOVE).upper, rel=1e-2)
    assert 0.75 * 0.8 < said.epsilon <= 0.8
    assert "the number of records, 4000, is public" in said.assumptions
    assert recorder.event == model.event_


def test_replacing_a_record_takes_twice_the_noise():
    fits = {
        adjacency: _like("number, declared", adjacency=adjacency).fit(_X, _CURVED)
        for adjacency in ("add-or-remove", "replace")
    }
    removed, replaced = (fit.event_.events[0].noise_multiplier for fit in fits.values())
    assert replaced == pytest.approx(2 * removed, rel=2e-3)
    assert fits["replace"].guarantee_.adjacency is Adjacency.REPLACE
    assert fits["replace"].guarantee_.epsilon <= 1


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_fitted_where_nothing_may_be_spent(name: str):
    model = _like(name, budget=Refusing())
    with pytest.raises(PermissionError):
        model.fit(_X, _targets(name))
    with pytest.raises(NotFittedError):
        check_is_fitted(model, "guarantee_")


def test_curves_are_learned_without_declaring_anything():
    number = PrivateAdditiveRegressor(epsilon=2.0, random_state=0).fit(_X, _CURVED)
    assert number.score(_X, _CURVED) > 0.8
    labels = np.array(["far", "near"])[(_CURVED < 1).astype(int)]
    classes = PrivateAdditiveClassifier(epsilon=2.0, classes="private", random_state=0).fit(_X, labels)
    assert classes.score(_X, labels) > 0.9
    assert np.allclose(classes.predict_proba(_X).sum(axis=1), 1)


def test_shapes_are_in_the_units_of_the_columns():
    model = PrivateAdditiveRegressor(epsilon=4.0, ranges=(-2, 2), bounds=(0, 2), random_state=0)
    first, second = model.fit(_X, _CURVED).shapes()
    assert (first.edges[0], first.edges[-1]) == (-2, 2)
    assert len(first.edges) == len(first.values) == len(first.deviations)
    middle = np.searchsorted(first.edges, 0.0) - 1
    assert first.values[0] > 0 > first.values[middle]
    assert np.ptp(second.values[:-1]) < 0.1 * np.ptp(first.values[:-1])
    assert np.ptp(second.values[:-1]) < 10 * second.deviations.max()


def test_a_search_can_choose_the_passes():
    model = PrivateAdditiveRegressor(ranges=(-2, 2), bounds=(0, 2))
    search = PrivateSearch(model, {"passes": [2, 10]}, mean=1.5, epsilon=4.0, random_state=0)
    assert search.fit(_X, _CURVED).guarantee_.epsilon <= 4.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"delta": 0.0}, "no pure guarantee"),
        ({"ranges": (1.0, -1.0)}, "smallest and a largest"),
        ({"bounds": (1.0, float("nan"))}, "not an interval"),
        ({"passes": 0}, "passes must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(change: dict[str, Any], says: str):
    model = _like("number, declared", **change)
    with pytest.raises(InvalidArgument, match=says):
        model.fit(_X, _CURVED)
