"""The models that are compared: ours as a user trains it, and two without privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from reticent.core.errors import CannotMeet
from reticent.data.files import open_table
from reticent.runs.fit import fit
from reticent.runs.learners import ModelName
from reticent.runs.predict import Predictor
from reticent.runs.request import Request

_ABSENT = ["", "NA", "?", "nan"]


class Score(NamedTuple):
    """AUROC of classes or R2 of a number, what has to be said about it, and the model that ours chose."""

    value: float
    remark: str = ""
    model: str = ""


def is_number(train: Path, target: str) -> bool:
    """Whether the target is a number by the rule that `reticent train` follows."""
    from reticent.runs.declared import declare

    found = declare(open_table(train), None, target=target)
    assert found.domain is not None
    return found.domain.columns[target].kind == "number"


def frames(train: Path, test: Path, target: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both parts, numbers as numbers; words and unreadable cells as words."""
    ours, theirs = (pd.read_csv(path, na_values=_ABSENT) for path in (train, test))
    for frame in (ours, theirs):
        for name in frame.columns:
            if frame[name].dtype == bool:
                frame[name] = frame[name].astype(str)
    return ours, theirs


def scored(truth: Any, classes: list[str], odds: np.ndarray) -> float:
    """AUROC, of several classes the mean over one against the rest."""
    known = truth.astype(str).str.lower()
    places = {name.lower(): place for place, name in enumerate(classes)}
    codes = known.map(places)
    kept = codes.notna().to_numpy()
    codes, odds = codes[kept].astype(int).to_numpy(), odds[kept]
    if len(classes) == 2:
        return float(roc_auc_score(codes, odds[:, 1]))
    present = [place for place in range(len(classes)) if 0 < (codes == place).sum() < len(codes)]
    return float(np.mean([roc_auc_score(codes == place, odds[:, place]) for place in present]))


def ours(
    train: Path, test: Path, target: str, epsilon: float, folder: Path, model: ModelName = "auto"
) -> Score:
    """`reticent train` without configuration; what it refuses, as its message says to do it."""
    remark = ""
    try:
        done = fit(Request(source=str(train), target=target, epsilon=epsilon, model=model, test=0.02), folder)
    except CannotMeet:
        remark = "assume-public"
        request = Request(
            source=str(train), target=target, epsilon=epsilon, model=model, test=0.02, prepare="assume-public"
        )
        done = fit(request, folder)
    assert done.record.result is not None
    predictor, name = Predictor(done.folder), done.record.result.model.name
    rows = list(predictor.table(open_table(test, expected=predictor.columns)))
    truth = pd.read_csv(test, dtype=str, keep_default_na=False)[target]
    if not predictor.problem.is_classification:
        found = [row["prediction"] for row in rows]
        return Score(float(r2_score(truth.astype(float), found)), remark, name)
    classes = list(predictor.problem.classes)
    odds = np.array([[row[f"probability of {name}"] for name in classes] for row in rows])
    return Score(scored(truth, classes, odds), remark, name)


def without_privacy(train: Path, test: Path, target: str, *, is_boosted: bool) -> Score:
    """A linear model or boosted trees of scikit-learn."""
    fitted, asked = frames(train, test, target)
    numbers = make_column_selector(dtype_include=np.number)
    words = make_column_selector(dtype_exclude=np.number)
    if is_boosted:
        encode = make_column_transformer(
            (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), words),
            remainder="passthrough",
        )
        models = (
            HistGradientBoostingClassifier(random_state=0),
            HistGradientBoostingRegressor(random_state=0),
        )
    else:
        encode = make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            (OneHotEncoder(handle_unknown="ignore", min_frequency=10), words),
        )
        models = (LogisticRegression(max_iter=500), LinearRegression())
    x, x_asked = fitted.drop(columns=target), asked.drop(columns=target)
    if is_number(train, target):
        found = make_pipeline(encode, models[1]).fit(x, fitted[target].astype(float)).predict(x_asked)
        return Score(float(r2_score(asked[target].astype(float), found)))
    model = make_pipeline(encode, models[0]).fit(x, fitted[target].astype(str))
    return Score(scored(asked[target], list(model.classes_), model.predict_proba(x_asked)))
