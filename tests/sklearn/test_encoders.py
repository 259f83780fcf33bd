"""Words and mixed tables become numbers: what is found is paid for, and a word of one row is not shown."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from recording import Recorder
from sklearn.pipeline import make_pipeline

from reticent.core.errors import CannotMeet, DataError, InvalidArgument
from reticent.data import Category, Domain, Label, Number
from reticent.mechanisms.events import ApproximateDp, Gaussian
from reticent.sklearn import PrivateEncoder, PrivateLogisticRegression, PrivateTableEncoder, SharedBudget
from reticent.sklearn.encoders import PUBLIC_TYPES
from reticent.sklearn.spending import CAME_BEFORE

_ROWS = 4000


@cache
def frame() -> pd.DataFrame:
    """Numbers, words, days, names that only one row has, and gaps."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, _ROWS)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, _ROWS),
            "job": pd.Categorical(rng.choice(["nurse", "clerk"], _ROWS)),
            "since": days,
            "name": [f"p{row}" for row in range(_ROWS)],
            "weight": np.where(rng.random(_ROWS) < 0.3, np.nan, rng.normal(70, 10, _ROWS)),
        }
    )


@cache
def found() -> tuple[PrivateTableEncoder, Recorder]:
    budget = Recorder()
    return PrivateTableEncoder(epsilon=2.0, random_state=0, budget=budget).fit(frame()), budget


def test_a_mixed_table_is_encoded_as_by_the_command_line():
    encoder, budget = found()
    names = [name for name in encoder.get_feature_names_out() if "since (" not in name]
    assert names == ["age", "job = clerk", "job = nurse", "since", "weight", "weight = (missing)"]
    features = encoder.transform(frame())
    assert features.dtype == np.float64
    parts = len(getattr(encoder.domain_.columns["since"], "parts", ()))
    assert 0.8 * encoder.norm_ < np.linalg.norm(features, axis=1).max() <= encoder.norm_ == (4 + parts) ** 0.5
    gaps = frame()["weight"].isna().to_numpy()
    assert np.array_equal(features[:, -1], gaps.astype(float))
    assert (features[:, 3] > -1).all()  # days are between their bounds
    assert budget.event == encoder.event_
    assert {PUBLIC_TYPES, CAME_BEFORE} < set(encoder.guarantee_.assumptions)
    assert 1.5 < encoder.guarantee_.epsilon <= 2.0
    assert "p7" not in repr(encoder.domain_)


def test_the_same_rows_are_the_same_numbers_whatever_holds_them():
    encoder, _ = found()
    table = {name: frame()[name].to_numpy() for name in frame().columns}
    assert np.array_equal(encoder.transform(table), encoder.transform(frame()))
    assert np.array_equal(encoder.transform(frame()[::-1]), encoder.transform(frame())[::-1])
    again = pickle.loads(pickle.dumps(encoder))
    assert np.array_equal(again.transform(frame()[:9]), encoder.transform(frame()[:9]))
    with pytest.raises(InvalidArgument, match="'job' is missing"):
        encoder.transform(frame().drop(columns="job"))


def test_what_is_declared_costs_nothing_and_follows_no_row():
    columns = {"age": Number(bounds=(0, 100)), "sick": Label(values=("no", "yes"))}
    domain = Domain(columns=columns, target="sick")
    encoder = PrivateTableEncoder(columns=domain).fit(frame())
    assert encoder.guarantee_.epsilon == 0
    assert encoder.transform({"age": [25, 150]}).tolist() == [[-0.5], [1.0]]
    with pytest.raises(DataError, match="has no column 'agee'"):
        PrivateTableEncoder(columns={"agee": Number(bounds=(0, 1))}).fit(frame())


def test_columns_that_a_mapping_does_not_name_are_found():
    given = {"job": Category(values=("clerk",)), "age": Number(bounds=(0, 100))}
    encoder = PrivateTableEncoder(epsilon=4.0, random_state=0, columns=given).fit(frame())
    assert encoder.domain_.columns["job"] == given["job"]
    assert encoder.domain_.columns["age"] == given["age"]
    weight = encoder.domain_.columns["weight"]
    assert isinstance(weight, Number)
    assert weight.bounds is not None
    assert weight.bounds[0] < 60 < 80 < weight.bounds[1]


def test_too_few_rows_are_refused_before_anything_is_paid():
    budget = Recorder()
    with pytest.raises(CannotMeet, match="columns="):
        PrivateTableEncoder(budget=budget).fit(frame()[:50])
    assert not budget.events


def test_words_are_found_for_a_price_and_a_word_of_one_row_is_not_shown():
    words = np.array([["red"]] * 900 + [["green"]] * 900 + [["only me"]], object)
    encoder = PrivateEncoder(epsilon=1.0, random_state=0).fit(words)
    assert getattr(encoder.domain_.columns["x0"], "values", None) == ("green", "red")
    kinds = {type(part) for part in _flat(encoder.event_)}
    assert kinds == {Gaussian, ApproximateDp}
    assert encoder.transform([["only me"]]).max() < 0.6  # as what is typical


def _flat(event: Any) -> list[Any]:
    parts = getattr(event, "events", None) or ([event.event] if hasattr(event, "times") else None)
    return [leaf for part in parts for leaf in _flat(part)] if parts else [event]


def test_declared_words_are_zeros_and_ones():
    encoder = PrivateEncoder(categories={"job": ["clerk", "nurse"]}).fit(frame()[["job"]])
    assert encoder.transform(pd.DataFrame({"job": ["nurse", "pilot", None]})).tolist() == [
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]
    assert encoder.guarantee_.epsilon == 0
    with pytest.raises(InvalidArgument, match="2 lists, and X has 1 columns"):
        PrivateEncoder(categories=[["a"], ["b"]]).fit([["a"]])


def test_a_pipeline_pays_for_its_encoder():
    budget = SharedBudget(epsilon=3.0, delta=1e-5)
    y = (frame()["age"] > 50).to_numpy()
    model = make_pipeline(
        PrivateTableEncoder(epsilon=1.5, delta=1e-6, budget=budget),
        PrivateLogisticRegression(
            epsilon=1.0, delta=1e-6, norm=5**0.5, classes=[False, True], budget=budget, method="output"
        ),
    ).fit(frame(), y)
    assert model.score(frame(), y) > 0.8
    assert 1.5 < budget.guarantee().epsilon <= 3.0
