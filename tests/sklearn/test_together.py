"""Beside the rest of scikit-learn: pipelines, clones, cross-validation, other processes, pickles, frames."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sklearn.base
from joblib import Parallel, delayed
from recording import nothing_but_noise, separable
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from reticent.core.errors import BudgetExceeded, InvalidArgument
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.sklearn import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateScaler,
    PrivateSearch,
    SharedBudget,
)
from reticent.sklearn.budget import ROWS_BY_THEMSELVES

_X, _Y = separable(2000)
_DELTA = 1e-6


def clone(model: Any) -> Any:
    return sklearn.base.clone(model)


def quick(**changes: Any) -> Any:
    given = {"method": "output", "classes": [0, 1], "norm": 1.5, "delta": _DELTA, **changes}
    return PrivateLogisticRegression(**given)


def test_a_pipeline_adds_up_what_its_parts_cost():
    budget = SharedBudget(epsilon=4.9, delta=_DELTA)
    scaler = PrivateScaler(epsilon=0.8, delta=_DELTA, budget=budget)
    model = make_pipeline(scaler, quick(epsilon=4.0, norm=np.sqrt(3), budget=budget)).fit(_X, _Y)
    assert model.score(_X, _Y) > 0.9
    assert 4.0 < budget.guarantee().epsilon <= 4.9
    with pytest.raises(BudgetExceeded):
        model.fit(_X, _Y)


def test_a_shared_budget_assumes_what_its_fits_assume_and_says_each_thing_once():
    budget = SharedBudget(epsilon=9.0, delta=_DELTA)
    assert budget.guarantee().assumptions == ()
    parts = [
        PrivateScaler(epsilon=0.2, delta=_DELTA, budget=budget, random_state=0).fit(_X),
        quick(epsilon=0.2, budget=budget).fit(_X, _Y),
        quick(epsilon=0.2, budget=budget).fit(_X[:1000], _Y[:1000]),
        PrivateMLPClassifier(epsilon=1.0, delta=_DELTA, norm=1.5, classes=[0, 1], steps=2, budget=budget).fit(
            _X, _Y
        ),
    ]
    told = budget.guarantee().assumptions
    assert set(told) == {line for part in parts for line in part.guarantee_.assumptions} | {
        ROWS_BY_THEMSELVES
    }
    assert len(set(told)) == len(told)
    assert {f"the number of records, {rows}, is public" for rows in (1000, 2000)} < set(told)
    assert any("seed" in line for line in told)


def training_sets(folds: Any, records: np.ndarray) -> list[set[int]]:
    return [set(records[fitted].tolist()) for fitted, _ in folds.split(records)]


def test_folds_by_coins_differ_in_the_record_that_is_gone_and_others_do_not():
    """This is what the assumption of a shared budget is about."""
    records = np.arange(30)
    coins = np.random.default_rng(0).integers(3, size=30)
    for gone in records:
        kept = records != gone
        by_coins = zip(
            training_sets(PredefinedSplit(coins), records),
            training_sets(PredefinedSplit(coins[kept]), records[kept]),
            strict=True,
        )
        assert all(here - there <= {gone} and there <= here for here, there in by_coins)
    by_position = zip(
        training_sets(KFold(3), records), training_sets(KFold(3), records[records != 0]), strict=True
    )
    assert max(len(here ^ there) for here, there in by_position) > 1


def test_a_single_release_assumes_nothing_about_other_fits():
    budget = SharedBudget(epsilon=9.0, delta=_DELTA)
    quick(epsilon=0.2, budget=budget).fit(_X, _Y)
    assert ROWS_BY_THEMSELVES not in budget.guarantee().assumptions


def test_a_fit_that_was_refused_leaves_nothing_to_assume():
    budget = SharedBudget(epsilon=0.1, delta=_DELTA)
    with pytest.raises(BudgetExceeded):
        quick(epsilon=5.0, budget=budget).fit(_X, _Y)
    assert budget.guarantee().assumptions == ()


def test_a_clone_shares_the_budget_and_nothing_that_was_learned():
    budget = SharedBudget(epsilon=1.0, delta=_DELTA)
    model = quick(epsilon=0.9, budget=budget).fit(_X, _Y)
    copy = clone(model)
    assert copy.budget is budget
    assert not hasattr(copy, "coef_")
    with pytest.raises(BudgetExceeded, match="Nothing was recorded"):
        copy.fit(_X, _Y)


raised: Any = "raise"


def test_cross_validation_is_charged_for_every_fit_and_stops_at_the_limit():
    budget = SharedBudget(epsilon=1.0, delta=_DELTA)
    model = quick(epsilon=0.2, budget=budget)
    scores = cross_val_score(model, _X, _Y, cv=3)
    assert scores.min() > 0.8
    assert 0.2 < budget.guarantee().epsilon < 0.6
    with pytest.raises(BudgetExceeded):
        cross_val_score(model, _X, _Y, cv=30, error_score=raised)
    assert budget.guarantee().epsilon <= 1.0


def test_a_grid_search_without_privacy_of_its_own_is_charged_for_every_fit():
    budget = SharedBudget(epsilon=3.0, delta=_DELTA)
    GridSearchCV(quick(epsilon=0.2, budget=budget), {"regularisation": [0.1, 1.0]}, cv=2).fit(_X, _Y)
    assert len(budget._spent) == 5


def test_a_ledger_is_shared_by_clones_and_by_processes(tmp_path: Path):
    with Ledger.create(tmp_path / "clinic.ledger") as ledger:
        ledger.limit("patients", epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_OR_REMOVE)
        model = quick(epsilon=0.4, budget=ledger.for_dataset("patients"))
        assert clone(model).budget is model.budget
        x, y = nothing_but_noise(200)
        fits: Any = Parallel(n_jobs=2)(delayed(clone(model).fit)(x, y) for _ in range(2))
        assert ledger.account("patients").charges == 2
        assert not np.allclose(fits[0].coef_, fits[1].coef_)
        model.set_params(epsilon=1.1)
        with pytest.raises(BudgetExceeded):
            model.fit(x, y)


def test_a_budget_in_memory_cannot_be_spent_in_another_process():
    there = pickle.loads(pickle.dumps(quick(budget=SharedBudget(epsilon=9.0, delta=_DELTA))))
    with pytest.raises(InvalidArgument, match="another process"):
        there.fit(_X, _Y)


def test_a_budget_between_other_neighbours_is_refused():
    budget = SharedBudget(epsilon=9.0, delta=_DELTA, adjacency="replace")
    with pytest.raises(InvalidArgument, match="same adjacency"):
        quick(budget=budget).fit(_X, _Y)
    quick(budget=budget, adjacency="replace").fit(_X, _Y)


@pytest.mark.parametrize(
    "model",
    [
        quick(random_state=0),
        PrivateLinearRegression(method="output"),
        PrivateMLPClassifier(classes=[0, 1], steps=3, hidden=(4,)),
        PrivateScaler(),
        PrivateSearch(quick(), {"regularisation": [0.1, 1.0]}, mean=1.5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fitted_estimator_is_written_and_read_without_its_keys(model: Any):
    model = clone(model).fit(_X, _Y)
    written = pickle.dumps(model)
    assert b"reticent.core.keys" not in written
    read = pickle.loads(written)
    method = "transform" if hasattr(model, "transform") else "predict"
    assert np.array_equal(getattr(read, method)(_X), getattr(model, method)(_X))
    assert read.guarantee_ == model.guarantee_
    assert read.event_ == model.event_


def test_a_data_frame_keeps_its_names():
    frame = pa.table({name: _X[:, place] for place, name in enumerate(("age", "hours", "gain"))})
    model = quick(random_state=0).fit(frame, _Y)
    assert list(model.feature_names_in_) == ["age", "hours", "gain"]
    assert np.array_equal(model.coef_, quick(random_state=0).fit(_X, _Y).coef_)
    assert np.array_equal(model.predict(frame), model.predict(frame))
    search = PrivateSearch(quick(), {"regularisation": [0.1]}, mean=1.5).fit(frame, _Y)
    assert list(search.feature_names_in_) == ["age", "hours", "gain"]
    search.predict(frame)
    scaler: Any = PrivateScaler().fit(frame)
    assert list(scaler.get_feature_names_out()) == ["age", "hours", "gain"]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows_are_rows(kind: Any):
    rows = np.where(np.abs(_X) > 0.3, _X, 0.0)
    model = quick(epsilon=5.0, norm=None).fit(kind(rows), _Y)
    assert model.score(kind(rows), _Y) > 0.9
    assert np.allclose(model.decision_function(kind(rows)), model.decision_function(rows))


def test_a_perceptron_takes_sparse_rows():
    rows = sparse.csr_array(np.where(np.abs(_X) > 0.3, _X, 0.0))
    network = PrivateMLPClassifier(classes=[0, 1], norm=1.5, steps=3, hidden=(4,)).fit(rows, _Y)
    assert np.allclose(network.decision_function(rows), network.decision_function(rows.toarray()))


def test_words_are_labels_and_every_method_learns():
    names = np.array(["no", "yes"])[_Y]
    for method in ("output", "objective", "auto"):
        model = quick(epsilon=3.0, method=method, classes=["yes", "no"]).fit(_X, names)
        assert model.score(_X, names) > 0.95, method
        assert model.predict_proba(_X).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("method", "intercept"),
    [
        ("descent", True),
        *((method, has) for method in ("input", "output", "objective") for has in (True, False)),
    ],
)
def test_regression_learns_by_every_method(method: str, intercept: bool):
    x, _ = separable(5000, classes=3)
    y = x @ [1.0, -2.0, 0.5] + (10 if intercept else 0)
    model = PrivateLinearRegression(
        epsilon=10.0, method=method, norm=1.5, bounds=(y.min(), y.max()), fit_intercept=intercept
    )
    assert model.fit(x, y).score(x, y) > 0.8
    predicted = model.predict(100 * x)
    assert predicted.min() >= y.min()
    assert predicted.max() <= y.max()
