"""The same epsilon means the same everywhere: one default adjacency, and a declared number of records."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from recording import separable
from sklearn.base import clone

import reticent.sklearn as doors
from reticent import convex
from reticent.convex import noise
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.data import Number
from reticent.mechanisms.adjacency import Adjacency
from reticent.sklearn import (
    PateClassifier,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateEncoder,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateScaler,
    PrivateSearch,
    PrivateTableEncoder,
    SharedBudget,
)
from reticent.training.plan import Plan

_X, _Y = separable(320)
_EPSILON = {"epsilon": 2.0, "delta": 1e-5, "random_state": 0}
_KNOWN = {**_EPSILON, "norm": 1.5, "classes": [0, 1]}

MODELS: list[Any] = [
    PrivateLogisticRegression(method="output", **_KNOWN),
    PrivateLogisticRegression(method="objective", **{**_KNOWN, "norm": None}),
    PrivateLinearSVC(method="output", **_KNOWN),
    PrivateLinearRegression(method="input", **_EPSILON),
    PrivateMLPClassifier(steps=2, hidden=(2,), batch_size=40, **_KNOWN),
    PateClassifier(**_KNOWN),
    PrivateAdditiveClassifier(classes=[0, 1], **_EPSILON),
    PrivateAdditiveRegressor(bounds=(0.0, 1.0), **_EPSILON),
    PrivateScaler(**_EPSILON),
    PrivateEncoder(categories={"x0": ["high", "low"]}, **_EPSILON),
    PrivateTableEncoder(columns={"x0": Number(bounds=(-1, 1)), "x1": Number(), "x2": Number()}, **_EPSILON),
    PrivateSearch(
        PrivateLogisticRegression(method="output", norm=1.5, classes=[0, 1]),
        {"regularisation": [0.1, 1.0]},
        mean=1.5,
        **_EPSILON,
    ),
]
every_place = pytest.mark.parametrize(
    "place",
    [
        pytest.param(
            place,
            id=f"{place} {type(model).__name__}",
            marks=pytest.mark.thorough if isinstance(model, PrivateMLPClassifier) else (),  # it is compiled
        )
        for place, model in enumerate(MODELS)
    ],
)


def fitted(model: Any, rows: int = 300, **changes: Any) -> Any:
    copy: Any = clone(model)
    return copy.set_params(**changes).fit(_X[:rows], _Y[:rows])


@cache
def as_it_comes(place: int) -> Any:
    """An estimator fitted to 299 rows with what it has by default."""
    return fitted(MODELS[place], 299)


# One default


def test_every_public_estimator_is_walked():
    public = {name for name in dir(doors) if inspect.isclass(getattr(doors, name))}
    rest = {"SharedBudget", "PublicLabelsWarning", "RepeatedFitWarning"}
    assert public == {type(model).__name__ for model in MODELS} | rest


@pytest.mark.parametrize(
    "place", range(len(MODELS)), ids=[f"{place} {type(model).__name__}" for place, model in enumerate(MODELS)]
)
def test_an_epsilon_is_about_a_record_that_is_added_or_removed(place: int):
    said = as_it_comes(place).guarantee_
    assert "differential privacy for adding or removing one record" in str(said)
    assert "the number of records, 299, is public" in said.assumptions


def test_budgets_fits_and_plans_have_the_same_default():
    found = convex.fit(convex.losses.logistic(), _X, _Y, epsilon=1.0, norm=1.5)
    plan = Plan.for_budget(epsilon=1, delta=1e-5, examples=100, batch_size=10, steps=5, max_norm=1.0)
    said = {found.guarantee.adjacency, plan.adjacency, SharedBudget(epsilon=1.0, delta=1e-5).adjacency}
    assert said == {Adjacency.ADD_OR_REMOVE}


@every_place
def test_a_replaced_record_is_protected_by_name(place: int):
    name = "estimator__adjacency" if isinstance(MODELS[place], PrivateSearch) else "adjacency"
    by_name = fitted(MODELS[place], 299, **{name: "replace"})
    assert "differential privacy for replacing one record by another" in str(by_name.guarantee_)
    assert by_name.event_ != as_it_comes(place).event_


# The declared number


@every_place
def test_nothing_that_is_said_depends_on_how_many_rows_there_are(place: int):
    fits = [fitted(MODELS[place], rows, examples=300) for rows in (299, 320)]
    assert len({(repr(found.event_), str(found.guarantee_)) for found in fits}) == 1
    assert "the number of records, 300, is public" in fits[0].guarantee_.assumptions


@every_place
def test_a_number_that_is_not_one_is_refused(place: int):
    for wrong in (0, -5, 30.0):
        with pytest.raises(InvalidArgument, match="examples must be a whole number"):
            fitted(MODELS[place], examples=wrong)


@pytest.mark.parametrize("examples", [None, 320])
def test_a_search_uses_the_number_of_its_estimator_unless_it_has_its_own(examples: int | None):
    found = fitted(MODELS[-1], estimator__examples=310, examples=examples)
    assert f"the number of records, {examples or 310}, is public" in found.guarantee_.assumptions
    assert found.best_estimator_.examples == 310


# Exact log ratios


def log_ratio(monkeypatch: pytest.MonkeyPatch, fit: Callable[[np.ndarray, np.ndarray], Any]) -> float:
    """The largest log ratio of the densities of neighbours: 100 rows of one kind, and 99, without the other.

    Noise of density exp(-epsilon |z| / max_norm) around each minimiser: the ratio is largest beyond both.
    """
    seen: list[tuple[float, float]] = []

    def watched(source: Any, values: np.ndarray, *, max_norm: float, epsilon: float) -> np.ndarray:
        seen.append((float(values[0, 0]), max_norm / epsilon))
        return values

    x, y = np.ones((100, 1)), np.ones(100, int)
    y[0] = 0
    with monkeypatch.context() as patch:
        patch.setattr(noise, "add_vector_laplace", watched)
        fit(x, y)
        fit(x[1:], y[1:])
    (here, scale), (there, other_scale) = seen
    return abs(here - there) / min(scale, other_scale)


def by_estimator(**changes: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    model = PrivateLinearSVC(
        1.0,
        delta=0,
        method="output",
        regularisation=2.5,
        fit_intercept=False,
        norm=1.0,
        classes=[0, 1],
        **changes,
    )
    return model.fit


def by_function(**changes: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    loss = convex.losses.huber_hinge(0.5)
    known = {"method": "output", "regularisation": 2.5, "intercept": False, "norm": 1.0, "epsilon": 1.0}
    return lambda x, y: convex.fit(loss, x, y, keys=Keys.seeded(0), **known, **changes)


@pytest.mark.parametrize("by", [by_estimator, by_function])
def test_a_removed_record_moves_no_density_by_more_than_epsilon(
    by: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    """By default, and with a regulariser that is given: 1 is claimed, and nearly 1 is reached."""
    assert 0.95 < log_ratio(monkeypatch, by(examples=100)) <= 1.0


@pytest.mark.parametrize("by", [by_estimator, by_function])
def test_a_number_that_follows_the_rows_would_be_noticed(
    by: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    """Each neighbour with its own divisor: this is what the assumption about the number excludes."""
    assert log_ratio(monkeypatch, by()) > 1.9


@pytest.mark.parametrize("by", [by_estimator, by_function])
def test_replacing_takes_twice_the_noise(by: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    assert 0.45 < log_ratio(monkeypatch, by(examples=100, adjacency="replace")) <= 0.5


@pytest.mark.parametrize("method", ["output", "objective", "descent"])
def test_many_more_rows_than_declared_are_refused_before_anything_is_paid(method: str) -> None:
    budget = doors.SharedBudget(epsilon=2.0, delta=1e-3)
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = (x[:, 0] > 0).astype(int)
    model = doors.PrivateLogisticRegression(
        epsilon=1.0, delta=1e-4, examples=50, norm=3.0, classes=[0, 1], method=method, budget=budget
    )
    with pytest.raises(InvalidArgument, match=r"examples=50, and X has 400 rows"):
        model.fit(x, y)
    assert budget.guarantee().epsilon == 0
    model.fit(x[:60], y[:60])
    assert budget.guarantee().epsilon > 0.5
