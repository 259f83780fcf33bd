"""What can be guessed about a column without any model: the baseline of attribute inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reticent.attacks.scores import FEWEST
from reticent.core.errors import DataError

Imputer = Callable[[], Any]  # makes a fresh scikit-learn classifier
Impute = Callable[[np.ndarray, np.ndarray], np.ndarray]  # other columns, labels -> log-probabilities

_LEAST_PROBABILITY = 1e-9


def logistic() -> Any:
    """Logistic regression on scaled columns: fast, and hard to beat on tables with few records."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def boosted_trees() -> Any:
    """Boosted trees: slower, and better where columns act together."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, random_state=0)


def fit_imputer(
    imputer: Imputer, x: np.ndarray, y: np.ndarray, values: np.ndarray, names: Sequence[str]
) -> Impute:
    """Learns a column from the others and the label; returns its log-probabilities (records, values).

    Raises:
        DataError: too few records, or all with one value.
    """
    if len(values) < FEWEST or len(np.unique(values)) < 2:
        raise DataError(
            f"Imputation cannot be fitted on {len(values)} records with {len(np.unique(values))} of the "
            f"{len(names)} values.",
            remedy=f"Give at least {FEWEST} other records that do not all have the same value.",
        )
    classes = np.unique(y)
    classifier = imputer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stopped early is still a baseline
        classifier.fit(_with_labels(x, y, classes), values)

    def impute(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        probabilities = np.full((len(y), len(names)), _LEAST_PROBABILITY)
        probabilities[:, classifier.classes_] = classifier.predict_proba(_with_labels(x, y, classes))
        return np.log(np.maximum(probabilities, _LEAST_PROBABILITY))

    return impute


def _with_labels(x: np.ndarray, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.concatenate([x, y[:, None] == classes], axis=1, dtype=float)
