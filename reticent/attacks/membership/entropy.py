"""Modified entropy with a threshold for each label, learned from shadow models.

Reference:
    Song and Mittal (2021), Section 3.2, arXiv:2003.10595v2.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from reticent.attacks.membership.threshold import best_threshold
from reticent.attacks.scores import FEWEST, Outputs, Scores
from reticent.attacks.signals import signals_of


def scores(outputs: Outputs) -> Float[np.ndarray, " records"]:
    """Minus the logarithm of each answer's modified entropy, so that near-certain answers stay apart.

    Example:
        >>> outputs = Outputs.from_logits(np.outer(np.arange(10), [1.0, 0.0]), np.zeros(10, int))
        >>> bool((np.diff(scores(outputs)) > 0).all())  # the surer, the likelier a member
        True
    """
    return spread(signals_of(outputs.logits, outputs.labels).certainty)


def spread(certainty: Float[np.ndarray, " ..."]) -> Float[np.ndarray, " ..."]:
    """Minus the logarithm of the modified entropy: the same order, with room near certainty.

    Example:
        >>> spread(np.array([-1e-6, -0.7])).round(1).tolist()
        [13.8, 0.4]
    """
    return -np.log(np.maximum(-certainty, 1e-30))


def label_thresholds(
    signal: Float[np.ndarray, "models records"],
    is_member: Bool[np.ndarray, "models records"],
    labels: Int[np.ndarray, " records"],
) -> Float[np.ndarray, " records"]:
    """The best threshold on shadow models for each label; (records,), to be subtracted from a signal.

    A label with too few records gets the threshold of all.

    Example:
        >>> signal = np.tile(np.arange(40.0), (2, 1))
        >>> is_member = np.tile(np.arange(40) >= 20, (2, 1))
        >>> set(label_thresholds(signal, is_member, np.zeros(40, int)).tolist())
        {19.5}
    """
    overall = best_threshold(Scores.of_games(signal, is_member))
    thresholds = np.full(len(labels), overall)
    for label in np.unique(labels):
        rows = labels == label
        inside = int(is_member[:, rows].sum())
        if min(inside, is_member[:, rows].size - inside) >= FEWEST:
            thresholds[rows] = best_threshold(Scores.of_games(signal[:, rows], is_member[:, rows]))
    return thresholds
