"""Modified entropy with a threshold for each label, learned from shadow models.

Reference:
    Song and Mittal (2021), Section 3.2, arXiv:2003.10595v2.
"""

from __future__ import annotations

import numpy as np

from reticent.attacks.membership.threshold import best_threshold
from reticent.attacks.scores import FEWEST, Outputs, Scores
from reticent.attacks.signals import signals_of


def scores(outputs: Outputs) -> np.ndarray:
    """Minus the logarithm of each answer's modified entropy, so that near-certain answers stay apart."""
    return spread(signals_of(outputs.logits, outputs.labels).certainty)


def spread(certainty: np.ndarray) -> np.ndarray:
    """Minus the logarithm of the modified entropy: the same order, with room near certainty."""
    return -np.log(np.maximum(-certainty, 1e-30))


def label_thresholds(signal: np.ndarray, is_member: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The best threshold on shadow models for each label; (records,), to be subtracted from a signal.

    A label with too few records gets the threshold of all.
    """
    overall = best_threshold(Scores.of_games(signal, is_member))
    thresholds = np.full(len(labels), overall)
    for label in np.unique(labels):
        rows = labels == label
        inside = int(is_member[:, rows].sum())
        if min(inside, is_member[:, rows].size - inside) >= FEWEST:
            thresholds[rows] = best_threshold(Scores.of_games(signal[:, rows], is_member[:, rows]))
    return thresholds
