"""Signals: numbers computed from the outputs for one record, which tend to be larger for members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class Signals(NamedTuple):
    """Signals of records, or with a first axis of models: each array is (..., records)."""

    log_probability: np.ndarray  # of the true class: minus the loss
    confidence: np.ndarray  # the same as log odds, which are nearly normal over models
    certainty: np.ndarray  # minus the modified entropy
    is_right: np.ndarray
    answers: np.ndarray  # (..., records, some): what a classifier is taught with
    robustness: np.ndarray | None = None  # how many disturbed copies kept their label, from 0 to 1

    def take(self, models: np.ndarray | int) -> Signals:
        """Takes the signals of some models."""
        robustness = None if self.robustness is None else self.robustness[models]
        return Signals(*(signal[models] for signal in self[:5]), robustness=robustness)


def signals_of(logits: np.ndarray, labels: np.ndarray, robustness: np.ndarray | None = None) -> Signals:
    """Computes all signals from logits (..., records, classes) for labels (records,)."""
    if logits.ndim == 3:  # one model after the other, in little memory
        each = [signals_of(model, labels) for model in logits]
        stacked = [np.stack(values) for values in zip(*(signals[:5] for signals in each), strict=True)]
        return Signals(*stacked, robustness=robustness)
    logits = np.asarray(logits, float)
    rows = np.arange(len(labels))
    log_p = logits - logsumexp(logits, axis=1, keepdims=True)
    of_others = log_p.copy()
    of_others[rows, labels] = -np.inf
    log_rest = logsumexp(of_others, axis=1)  # log(1 - p), exact where p is nearly 1
    true = log_p[rows, labels]
    certainty = modified_certainty(log_p, labels, log_rest)
    is_right = (np.argmax(logits, axis=1) == labels).astype(float)
    answers = _answers(log_p, true, log_rest, certainty, is_right)
    return Signals(true, true - log_rest, certainty, is_right, answers, robustness)


def modified_certainty(log_p: np.ndarray, labels: np.ndarray, log_rest: np.ndarray) -> np.ndarray:
    """Minus the modified entropy: (1 - p_y) log p_y + sum over other classes of p log(1 - p).

    Largest, 0, for an answer that is sure and right; entropy alone is as small for one sure and wrong.

    Reference:
        Song and Mittal (2021), Equation 8, arXiv:2003.10595v2.
    """
    rows = np.arange(len(labels))
    p = np.exp(log_p)
    of_others = p * np.log1p(-np.minimum(p, 1 - 1e-16))
    of_others[rows, labels] = 0
    return np.exp(log_rest) * log_p[rows, labels] + of_others.sum(axis=1)


def _answers(
    log_p: np.ndarray, true: np.ndarray, log_rest: np.ndarray, certainty: np.ndarray, is_right: np.ndarray
) -> np.ndarray:
    """A short description of an answer: the largest probabilities in order, and the true class's."""
    kept = min(3, log_p.shape[1])
    largest = -np.sort(-log_p, axis=1)[:, :kept]
    columns = [*largest.T, true, true - log_rest, np.log1p(-np.minimum(certainty, 0)), is_right]
    return np.stack(columns, axis=-1).astype(np.float32)
