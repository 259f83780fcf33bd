"""The threshold attack: a record with a small loss is called a member.

Reference:
    Yeom, Giacomelli, Fredrikson and Jha (2018), Adversary 2, arXiv:1709.01604v5.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from reticent.attacks.metrics import roc
from reticent.attacks.scores import Outputs, Scores
from reticent.attacks.signals import signals_of
from reticent.core import checks


def scores(outputs: Outputs) -> Float[np.ndarray, " records"]:
    """Minus the cross-entropy of each record.

    Example:
        >>> outputs = Outputs.from_probabilities([[0.5, 0.5]] * 10, [0] * 10)
        >>> scores(outputs)[0].round(3).item()  # minus ln 2
        -0.693
    """
    return signals_of(outputs.logits, outputs.labels).log_probability


def from_training_loss(mean_loss: float) -> float:
    """The threshold of an attacker who knows the mean training loss, which is often published.

    Example:
        >>> from_training_loss(0.25)
        -0.25
    """
    checks.not_negative(mean_loss=mean_loss)
    return -mean_loss


def from_shadows(
    signal: Float[np.ndarray, "models records"], is_member: Bool[np.ndarray, "models records"]
) -> float:
    """The best threshold on shadow models, from their signal and membership (models, records).

    Example:
        >>> is_member = np.arange(4)[:, None] % 2 == np.arange(20) % 2
        >>> from_shadows(np.where(is_member, 1.0, -1.0), is_member)
        0.0
    """
    return best_threshold(Scores.of_games(signal, is_member))


def best_threshold(known: Scores) -> float:
    """The threshold with the largest advantage on these scores.

    Measured on the same scores, it flatters the attack: it was chosen in hindsight.

    Example:
        >>> best_threshold(Scores(members=np.arange(10) + 5.0, outsiders=np.arange(10.0)))
        9.5
    """
    false_positives, true_positives = roc(known)
    best = int(np.argmax(true_positives - false_positives))
    steps = np.unique(known.values)[::-1]
    if best == 0:
        return float(steps[0])  # no score is above it
    if best == len(steps):
        return float(np.nextafter(steps[-1], -np.inf))
    return float((steps[best - 1] + steps[best]) / 2)
