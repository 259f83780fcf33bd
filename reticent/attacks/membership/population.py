"""The population attack: the model is surer of members than of outsiders like them. No shadow models.

The attacker's own outsiders show how sure the model is of records that it never saw, label by label.
A record's score is how many deviations it lies above them, so a threshold at a quantile of the
normal distribution has about that false-positive rate on every label.

Reference:
    Ye, Maddi, Murakonda, Bindschaedler and Shokri (2022), Attack P, arXiv:2111.09679v4; with a model of the
    quantile as in Bertran et al. (2023), arXiv:2307.03694v1.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from reticent.attacks.scores import Outputs
from reticent.attacks.signals import signals_of

_PRIOR_RECORDS = 5.0  # a label's mean and variance lean on everybody's as if on so many records


def scores(outputs: Outputs, population: Outputs) -> Float[np.ndarray, " records"]:
    """How many deviations each record is above outsiders of the same label.

    Args:
        population: what the same model says of outsiders that are not among the records to be judged.

    Example:
        >>> logits, labels = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
        >>> others = Outputs.from_logits(logits, labels)
        >>> surer = Outputs.from_logits(logits + 9 * np.eye(2)[labels], labels)
        >>> bool(scores(surer, others).min() > 1)
        True
    """
    signal, theirs = (signals_of(each.logits, each.labels).confidence for each in (outputs, population))
    return deviations_above(signal, outputs.labels, theirs, population.labels)


def deviations_above(
    signal: Float[np.ndarray, " records"],
    labels: Int[np.ndarray, " records"],
    population: Float[np.ndarray, " others"],
    population_labels: Int[np.ndarray, " others"],
) -> Float[np.ndarray, " records"]:
    """Each signal's distance from the mean of its label in the population, in deviations.

    Example:
        >>> deviations_above(
        ...     np.array([3.0]), np.array([0]), np.array([0.0, 1.0, 2.0] * 10), np.zeros(30, int)
        ... ).round(1).tolist()
        [2.4]
    """
    classes = int(max(labels.max(), population_labels.max())) + 1
    counts = np.bincount(population_labels, minlength=classes)
    sums = np.bincount(population_labels, population, minlength=classes)
    mean = (sums + _PRIOR_RECORDS * population.mean()) / (counts + _PRIOR_RECORDS)
    squares = np.bincount(
        population_labels, np.square(population - mean[population_labels]), minlength=classes
    )
    variance = (squares + _PRIOR_RECORDS * population.var()) / (counts + _PRIOR_RECORDS)
    return (signal - mean[labels]) / np.sqrt(np.maximum(variance[labels], 1e-12))
