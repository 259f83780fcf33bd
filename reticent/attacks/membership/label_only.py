"""The label-only attack: a member keeps its label when it is disturbed, because it is far from a boundary.

It works on models that return nothing but a label, so hiding confidences does not stop it.

Reference:
    Choquette-Choo, Tramer, Carlini and Papernot (2021), Section 3.2, arXiv:2007.14321v3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from reticent.core import checks
from reticent.core.errors import DataError, ReticentError

Disturb = Callable[[np.random.Generator, np.ndarray], np.ndarray]

_TIE_BREAK = 1e-3


def scores(
    predict: Callable[[np.ndarray], np.ndarray],
    features: Num[np.ndarray, "records ..."],
    labels: Int[np.ndarray, " records"],
    *,
    disturb: Disturb,
    copies: int = 16,
    seed: int = 0,
) -> Float[np.ndarray, " records"]:
    """The share of disturbed copies that get the right label, for each record.

    Args:
        predict: from rows of features to one label, or one row of outputs, per row.
        disturb: of a generator and all records, one disturbed copy of each: `flip_bits`, `add_noise`, or
            an augmentation of your own.

    Raises:
        DataError: the model raised, or gave something other than one label per record.

    Example:
        >>> x, y = np.eye(4), np.arange(4)
        >>> scores(lambda rows: rows.argmax(axis=1), x, y, disturb=add_noise(0.01)).round(2).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    checks.count(copies=copies)
    random = np.random.default_rng(seed)
    right = np.zeros(len(labels))
    for _ in range(copies):
        right += _labels_of(predict, disturb(random, features)) == labels
    return break_ties(right / copies, _labels_of(predict, features) == labels)


def break_ties(
    robustness: Float[np.ndarray, " records"], is_right: Bool[np.ndarray, " records"]
) -> Float[np.ndarray, " records"]:
    """Breaks ties between equal shares of copies by the record's own label.

    Example:
        >>> robustness, is_right = np.array([0.5, 0.5, 1.0]), np.array([True, False, True])
        >>> break_ties(robustness, is_right).argsort().tolist()
        [1, 0, 2]
    """
    return robustness + _TIE_BREAK * is_right


def log_odds(robustness: Float[np.ndarray, " ..."], copies: int = 16) -> Float[np.ndarray, " ..."]:
    """The share as log odds, kept finite: a signal for the likelihood ratio when there are shadow models.

    Example:
        >>> log_odds(np.array([0.0, 0.5, 1.0])).round(2).tolist()
        [-3.5, 0.0, 3.5]
    """
    count = robustness * copies
    return np.log((count + 0.5) / (copies - count + 0.5))


def flip_bits(rate: float) -> Disturb:
    """Flips every zero or one with this probability.

    Example:
        >>> flip_bits(0.1)(np.random.default_rng(0), np.zeros((100, 10))).mean().round(1).item()
        0.1
    """
    checks.inside_unit(rate=rate)
    return lambda random, features: np.where(random.random(features.shape) < rate, 1 - features, features)


def add_noise(deviation: float) -> Disturb:
    """Adds Gaussian noise to every feature.

    Example:
        >>> add_noise(0.1)(np.random.default_rng(0), np.zeros((2, 3))).shape
        (2, 3)
    """
    checks.positive(deviation=deviation)
    return lambda random, features: features + random.normal(0, deviation, features.shape)


def _labels_of(predict: Callable[[np.ndarray], np.ndarray], features: np.ndarray) -> np.ndarray:
    try:
        answers = np.asarray(predict(features))
    except ReticentError:
        raise
    except Exception as error:  # a stranger's model may raise anything
        raise DataError(
            f"The model failed on {len(features)} records: {type(error).__name__}: {error}.",
            remedy="Give a function from rows of features to labels that takes these records.",
        ) from error
    answers = np.argmax(answers, axis=1) if answers.ndim == 2 else answers
    if answers.shape != (len(features),):
        raise DataError(
            f"The model gave an answer of shape {answers.shape} for {len(features)} records.",
            remedy="Return one label, or one row of outputs, per record.",
        )
    return answers
