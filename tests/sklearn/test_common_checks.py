"""scikit-learn's own battery, for every estimator: no check is exempted.

The checks fit ten to three hundred rows, whose labels change from check to check, so the labels are
declared to be public: to find them privately takes more rows than that, and is tried elsewhere. Methods are
chosen that need no compiler, since there are many fits; the perceptron's programs are kept for the next fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
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

_KEPT = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="module", autouse=True)
def _kept_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs for the same shapes are compiled once."""
    before = {name: getattr(jax.config, name) for name in _KEPT}
    folder = tmp_path_factory.getbasetemp().parent / "programs"  # that of all test processes
    for name, value in _KEPT.items():
        jax.config.update(name, str(folder) if name == "jax_compilation_cache_dir" else value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


ESTIMATORS: list[Any] = [
    PrivateLogisticRegression(classes="public", method="objective"),
    PrivateLogisticRegression(classes="public", method="output", norm=1.0),
    PrivateLinearSVC(classes="public", method="objective"),
    PrivateLinearRegression(method="objective"),
    PrivateLinearRegression(method="input", bounds=(-3.0, 3.0), norm=1.0),
    PrivateMLPClassifier(classes="public", hidden=(4,), steps=3),
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
