"""scikit-learn's own battery, for every estimator: no check is exempted.

Estimators are checked as they come, with all defaults, and with other methods. A perceptron has few steps,
and its fits of one shape share a program. What is declared by a mapping has its own tests: the checks name no
columns. Two estimators are checked with every change, all of them by `make thorough`.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from reticent.sklearn import (
    PateClassifier,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateScaler,
    PrivateSearch,
)

CHECKED_ALWAYS: list[Any] = [
    PrivateLogisticRegression(),
    PrivateScaler(),
]
ESTIMATORS: list[Any] = [
    PrivateLogisticRegression(method="objective"),
    PrivateLinearSVC(),
    PrivateLinearRegression(),
    PrivateLinearRegression(method="objective"),
    PrivateAdditiveClassifier(),
    PrivateAdditiveRegressor(),
    PateClassifier(),
    PrivateLogisticRegression(classes="public", method="output", norm=1.0),
    PrivateLinearSVC(classes="public", method="objective"),
    PrivateLinearRegression(method="input", bounds=(-3.0, 3.0), norm=1.0),
    PrivateMLPClassifier(hidden=(2,), steps=2),
    PrivateScaler(bounds=(-3.0, 3.0)),
    PrivateSearch(
        PrivateLogisticRegression(method="output"),
        {"regularisation": [0.01, 1.0]},
        mean=1.5,
    ),
    PrivateSearch(PrivateLinearRegression(method="output"), {"regularisation": [0.01, 1.0]}, mean=1.5),
]


pytestmark = pytest.mark.filterwarnings("ignore:.*takes the set of labels in y as public")


@parametrize_with_checks(CHECKED_ALWAYS)
def test_scikit_learn(estimator: Any, check: Any):
    check(estimator)


@pytest.mark.thorough
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_on_every_method(estimator: Any, check: Any):
    check(estimator)
