"""scikit-learn's own battery, for every estimator: no check is exempted.

The checks fit ten to three hundred rows, whose labels change from check to check, so the labels are
declared to be public: to find them privately takes more rows than that, and is tried elsewhere. Methods are
chosen that need no compiler, since there are many fits. A perceptron needs one, and its fits of one shape
share a program.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from reticent.sklearn import (
    PateClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateScaler,
    PrivateSearch,
)

ESTIMATORS: list[Any] = [
    PrivateLogisticRegression(classes="public", method="objective"),
    PrivateLogisticRegression(classes="public", method="output", norm=1.0),
    PrivateLinearSVC(classes="public", method="objective"),
    PrivateLinearRegression(method="objective"),
    PrivateLinearRegression(method="input", bounds=(-3.0, 3.0), norm=1.0),
    PrivateMLPClassifier(classes="public", hidden=(2,), steps=2),
    PateClassifier(classes="public"),
    PrivateScaler(),
    PrivateScaler(bounds=(-3.0, 3.0)),
    PrivateSearch(
        PrivateLogisticRegression(classes="public", method="output"),
        {"regularisation": [0.01, 1.0]},
        mean=1.5,
    ),
    PrivateSearch(PrivateLinearRegression(method="output"), {"regularisation": [0.01, 1.0]}, mean=1.5),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator: Any, check: Any):
    check(estimator)
