"""scikit-learn's own battery, for every estimator: no check is exempted.

The checks fit ten to three hundred rows, whose labels change from check to check, so the labels are
declared to be public: to find them privately takes more rows than that, and is tried elsewhere. Methods are
chosen that need no compiler, since there are many fits. A perceptron needs one, and its fits of one shape
run one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
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
from reticent.training import loop

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


@pytest.fixture(scope="module", autouse=True)
def one_program_for_each_shape() -> Iterator[None]:
    """The estimators above differ in nothing else: their plan and the shapes say what is compiled."""
    programs: dict[Any, Callable[..., Any]] = {}
    compiled = loop._compiled

    def once(step: Any, feed: Any, layout: Any, state: Any) -> Callable[..., Any]:
        arrays, structure = jax.tree.flatten((feed._held, state))
        shapes = tuple((array.shape, str(array.dtype)) for array in map(jax.numpy.asarray, arrays))
        key = feed._plan, structure, shapes
        if key not in programs:
            programs[key] = compiled(step, feed, layout, state)
        return programs[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_compiled", once)
        yield


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator: Any, check: Any):
    check(estimator)
