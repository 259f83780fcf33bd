"""Fits that nothing adds up are noticed; labels that nobody declared are said to be public; advice works."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording import Recorder, separable
from scipy import sparse
from sklearn.model_selection import GridSearchCV, cross_val_score

from reticent.core.errors import CannotMeet, InvalidArgument
from reticent.ledger.ledger import Ledger
from reticent.sklearn import (
    PrivateLogisticRegression,
    PublicLabelsWarning,
    RepeatedFitWarning,
    SharedBudget,
    notices,
    private,
)
from reticent.sklearn.budget import ROWS_BY_THEMSELVES

_X, _Y = separable(400)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was fitted before."""
    monkeypatch.setattr(notices, "_fits", type(notices._fits)())
    monkeypatch.setattr(notices, "_told", set())


def quick(**changes: Any) -> Any:
    return PrivateLogisticRegression(**{"method": "output", "classes": [0, 1], "norm": 1.5, **changes})


def warned(fit: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit()
    return [warning for warning in seen if issubclass(warning.category, RepeatedFitWarning)]


def test_a_grid_search_without_a_budget_names_private_search():
    grid = {"regularisation": [0.1, 1.0, 10.0]}
    seen = warned(lambda: GridSearchCV(quick(), grid, cv=2).fit(_X, _Y))
    assert len(seen) == 2  # each fold once
    assert "use PrivateSearch" in str(seen[0].message)
    assert seen[0].filename == __file__
    budget = SharedBudget(epsilon=50.0, delta=1e-4)
    assert not warned(lambda: GridSearchCV(quick(epsilon=0.1, budget=budget), grid, cv=2).fit(_X, _Y))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_second_fit_to_the_same_data_warns_and_other_data_do_not(kind: Any):
    rows = kind(_X)
    assert not warned(lambda: quick().fit(rows, _Y))
    assert not warned(lambda: quick().fit(rows[:399], _Y[:399]))
    assert not warned(lambda: quick().fit(rows, 1 - _Y))
    assert len(warned(lambda: quick(epsilon=0.5).fit(rows.copy(), _Y))) == 1


def test_labels_that_nobody_declared_are_public_and_said_so_once():
    with pytest.warns(PublicLabelsWarning, match="classes='private'"):
        model = quick(classes=None).fit(_X[:60], _Y[:60])
    assert private.PUBLIC_LABELS in model.guarantee_.assumptions
    quick(classes=None).fit(_X[:61], _Y[:61])  # a second warning would be an error


def test_what_no_noise_can_hide_is_refused_before_anything_is_paid():
    for method in ("auto", "output", "objective", "descent"):
        budget = Recorder()
        with pytest.raises(CannotMeet, match="at most"):
            quick(epsilon=50.0, norm=None, method=method, budget=budget).fit(_X, _Y)
        assert not budget.events


def test_the_advice_for_two_processes_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import reticent as rt

    there = pickle.loads(pickle.dumps(SharedBudget(epsilon=1.0, delta=1e-5)))
    with pytest.raises(InvalidArgument) as refused:
        quick(budget=there).fit(_X, _Y)
    code = refused.value.remedy.partition("share a ledger: ")[2].removesuffix(".")
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {"rt": rt}
    exec(code.replace("epsilon=..., delta=...", "epsilon=1.0, delta=1e-5"), known)
    scores = cross_val_score(quick(epsilon=0.2, budget=known["budget"]), _X, _Y, cv=2, n_jobs=2)
    assert np.isfinite(scores).all()
    said = known["budget"].guarantee()
    assert ROWS_BY_THEMSELVES in said.assumptions
    assert "the number of records, 200, is public" in said.assumptions
    assert Ledger.open(tmp_path / "fits.ledger").account("data").charges == 2


def test_a_ledger_with_one_charge_assumes_nothing_about_folds(tmp_path: Path):
    with Ledger.create(tmp_path / "one.ledger") as ledger:
        ledger.limit("data", epsilon=2.0, delta=1e-5)
        budget = ledger.for_dataset("data")
        quick(epsilon=0.2, budget=budget).fit(_X, _Y)
        assert ROWS_BY_THEMSELVES not in budget.guarantee().assumptions
        quick(epsilon=0.2, budget=budget).fit(_X, _Y)
        assert ROWS_BY_THEMSELVES in budget.guarantee().assumptions


def test_a_ledger_that_outlives_its_modules_ends_without_a_word(tmp_path: Path):
    code = (
        "import os\nfrom reticent.ledger import Ledger\n"
        "os.kept = Ledger.create('kept.ledger')\nos.kept.limit('data', epsilon=1, delta=1e-5)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
