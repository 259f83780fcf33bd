"""What a fit says it cost is what it cost: all is paid, nothing is read for free, no noise comes twice."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from recording import Recorder, Refusing, nothing_but_noise, separable
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.sklearn import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateScaler,
    PrivateSearch,
    linear_fit,
    private,
    private_bounds,
    spending,
)

_X, _Y = separable(3000, classes=3)

MODELS: dict[str, Any] = {
    "logistic": PrivateLogisticRegression(method="output", classes="private"),
    "logistic, objective": PrivateLogisticRegression(method="objective", classes=[0, 1, 2]),
    "logistic, declared": PrivateLogisticRegression(method="output", classes=[0, 1, 2], norm=1.5),
    "logistic, descent": PrivateLogisticRegression(method="descent", classes=[0, 1, 2], norm=1.5),
    "svc": PrivateLinearSVC(method="output", classes="private"),
    "regression": PrivateLinearRegression(method="output"),
    "perceptron": PrivateMLPClassifier(classes=[0, 1, 2], steps=3, batch_size=3000),
    "scaler": PrivateScaler(),
    "search": PrivateSearch(
        PrivateLogisticRegression(method="output", classes="public"),
        {"regularisation": [0.01, 0.1]},
        mean=2.0,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_total_is_the_accountants_and_within_what_was_asked_for(name: str):
    model = MODELS[name].set_params(random_state=3, epsilon=0.8, delta=1e-5)
    model.fit(_X, _Y)
    said = model.guarantee_
    assert said.epsilon == pytest.approx(tight(model.event_, 1e-5, Adjacency.ADD_OR_REMOVE).upper, rel=2e-2)
    assert 0.75 * 0.8 < said.epsilon <= 0.8 * (1 + 1e-9)
    assert said.delta == 1e-5
    assert said.adjacency is Adjacency.ADD_OR_REMOVE
    assert "the seed of this run is secret (a seeded run is for tests only)" in said.assumptions
    assert "the number of records, 3000, is public" in said.assumptions
    assert events.read(json.dumps(events.to_json(model.event_))) == model.event_


@pytest.mark.parametrize("adjacency", ["replace", "add-or-remove"])
@pytest.mark.parametrize("name", ["logistic, declared", "svc", "regression"])
def test_the_number_of_rows_is_declared_and_said(name: str, adjacency: str, monkeypatch: pytest.MonkeyPatch):
    declared, real = set(), linear_fit.fit

    def watched(*data: Any, **terms: Any) -> Any:
        declared.add(terms["examples"])
        return real(*data, **terms)

    monkeypatch.setattr(linear_fit, "fit", watched)
    model: Any = clone(MODELS[name])
    model.set_params(adjacency=adjacency, epsilon=2.0, random_state=0).fit(_X, _Y)
    assert declared == {3000}
    assert "the number of records, 3000, is public" in model.guarantee_.assumptions


def is_all_charged(model: Any) -> bool:
    """Whether the budget was charged with what the fitted estimator says it released."""
    recorder = Recorder()
    model.set_params(budget=recorder, random_state=0).fit(_X, _Y)
    return bool(recorder.events) and recorder.event == model.event_


@pytest.mark.parametrize("name", [name for name in MODELS if name != "perceptron"])
def test_the_budget_is_charged_with_all_of_it(name: str):
    assert is_all_charged(MODELS[name])


def test_a_preparation_that_is_not_charged_is_noticed(monkeypatch: pytest.MonkeyPatch):
    honest = spending.Spending.pay

    def forgetful(self: spending.Spending, event: events.Event, purpose: str) -> None:
        if purpose.startswith("find"):
            self._events.append(event)
        else:
            honest(self, event, purpose)

    monkeypatch.setattr(spending.Spending, "pay", forgetful)
    assert not is_all_charged(MODELS["logistic"])


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_fitted_where_nothing_may_be_spent(name: str):
    model: Any = clone(MODELS[name])
    model.set_params(budget=Refusing(), random_state=None)
    with pytest.raises(PermissionError):
        model.fit(_X, _Y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model, "guarantee_")


def test_what_is_declared_is_not_paid_for():
    model = PrivateLogisticRegression(method="output", classes=[0, 1, 2], norm=1.5).fit(_X, _Y)
    assert isinstance(model.event_, events.Gaussian)
    bounded = PrivateLinearRegression(method="output", norm=1.5, bounds=(0.0, 2.0)).fit(_X, _Y)
    assert isinstance(bounded.event_, events.Gaussian)
    scaler = PrivateScaler(bounds=(-1.0, 2.0)).fit(_X)
    assert scaler.guarantee_.epsilon == 0


def test_labels_taken_from_y_are_an_assumption_that_is_said():
    said = PrivateLogisticRegression(method="output", classes="public", norm=1.0).fit(_X, _Y).guarantee_
    assert private.PUBLIC_LABELS in said.assumptions
    declared = PrivateLogisticRegression(method="output", classes=[0, 1, 2], norm=1.0).fit(_X, _Y).guarantee_
    assert private.PUBLIC_LABELS not in declared.assumptions


def test_no_delta_at_all_is_pure_privacy():
    model = PrivateLogisticRegression(delta=0.0, method="objective", classes=[0, 1, 2]).fit(_X, _Y)
    assert model.guarantee_.delta == 0
    assert model.guarantee_.epsilon <= 1.0
    kinds = {type(part) for part in model.event_.events}
    assert kinds == {events.ExponentialMechanism, events.PureDp}
    with pytest.raises(InvalidArgument, match="delta 0"):
        PrivateLogisticRegression(delta=0.0, method="objective", classes="private").fit(_X, _Y)


# Read from the data


def found_norms(outlier: float, tries: int = 60) -> list[float]:
    """The norms found, for rows of length about 1 of which one has this length."""
    x, y = separable(500)
    x[0] = outlier * x[0] / np.linalg.norm(x[0])
    norms = []
    for seed in range(tries):
        model = PrivateLogisticRegression(classes=[0, 1], random_state=seed)
        norms.append(model._prepare(x, y, model._open(x, y))["norm"])
    return norms


def tells_the_outlier() -> bool:
    """Whether norms differ by more than epsilon allows; honest ones by chance below 1e-6 (5 deviations)."""
    with_it, without = (np.mean(np.array(found_norms(outlier)) > 100) for outlier in (1000.0, 1.0))
    return bool(with_it - without > 5 * np.sqrt(0.25 / 60))


def test_the_norm_does_not_follow_one_row():
    assert not tells_the_outlier()


def test_a_norm_that_is_read_from_the_data_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        private_bounds.Finder, "norm", lambda self, x: float(private_bounds.row_norms(x).max())
    )
    assert tells_the_outlier()


# Noise


def has_noise_of_its_own() -> bool:
    """Whether fits with one seed to different data have different noise."""
    fits = []
    for seed in (1, 2):
        x, y = nothing_but_noise(200, seed=seed)
        model = PrivateLogisticRegression(method="output", classes=[0, 1], norm=1.0, random_state=0)
        fits.append(model.fit(x, y).coef_)
    return not np.allclose(*fits)


def test_a_seed_is_never_the_same_noise_on_other_data():
    assert has_noise_of_its_own()
    x, y = nothing_but_noise(200)
    model = PrivateLogisticRegression(method="output", classes=[0, 1], norm=1.0, random_state=0)
    assert np.array_equal(model.fit(x, y).coef_, model.fit(x, y).coef_)


def test_a_seed_that_is_used_as_it_is_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(private, "keys_for", lambda seed, parts: Keys.seeded(seed))
    assert not has_noise_of_its_own()


def classes_share_noise() -> bool:
    x, y = nothing_but_noise(300, classes=3)
    model = PrivateLinearSVC(method="output", classes=[0, 1, 2], norm=1.0, random_state=0).fit(x, y)
    return any(np.allclose(model.coef_[a], model.coef_[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


def test_each_class_of_a_support_vector_machine_has_noise_of_its_own():
    assert not classes_share_noise()


def test_classes_that_share_a_key_are_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linear_fit, "keys_for", lambda seed, parts: Keys.seeded(seed))
    assert classes_share_noise()


def test_without_a_seed_no_two_fits_are_alike():
    x, y = nothing_but_noise(200)
    model = PrivateLogisticRegression(method="output", classes=[0, 1], norm=1.0)
    assert not np.allclose(model.fit(x, y).coef_, model.fit(x, y).coef_)
    assert model.guarantee_.assumptions == ("the number of records, 200, is public", spending.CAME_BEFORE)


# Bad input


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"delta": 0.5}, "promises nothing"),
        ({"norm": 0.0}, "norm must be"),
        ({"classes": [0]}, "only one class"),
        ({"classes": [0, 1]}, "not one of the 2 declared"),
        ({"classes": "mine"}, "classes='mine' is not known"),
        ({"adjacency": "none"}, "adjacency='none' is not known"),
        ({"method": "magic"}, "method='magic' is not known"),
        ({"preparation": 0.0, "norm": None}, "is not a share"),
        ({"budget": 3}, "can be charged"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(change: dict[str, Any], says: str):
    model = PrivateLogisticRegression(method="output", classes=[0, 1, 2], norm=1.0).set_params(**change)
    with pytest.raises(InvalidArgument, match=says):
        model.fit(_X, _Y)
