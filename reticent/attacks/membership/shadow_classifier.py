"""The shadow-model attack: a classifier for each label learns what answers about members look like.

It is trained on shadow models, whose members are known. They need not be trained on the same records, nor
be the same kind of model: `noisy_records` and `marginal_records` make data for them when there are none.

Reference:
    Shokri, Stronati, Song and Shmatikov (2017), Sections V.B to V.E, arXiv:1610.05820v2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from scipy.special import expit

from reticent.attacks.scores import FEWEST, Outputs
from reticent.attacks.signals import signals_of
from reticent.core import checks
from reticent.core.errors import DataError

THRESHOLD = 0.0

_RIDGE = 1.0
_MOST_STEPS = 30


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Log odds of membership from the answer about a record, by its label."""

    centre: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)  # (labels + 1, features); the last for labels that are rare

    def scores(self, outputs: Outputs) -> Float[np.ndarray, " records"]:
        return self.log_odds(signals_of(outputs.logits, outputs.labels).answers, outputs.labels)

    def log_odds(
        self, answers: Float[np.ndarray, "records some"], labels: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, " records"]:
        """The log odds of answers (records, some), as in `Signals.answers`."""
        features = _quadratic_features((answers - self.centre) / self.scale)
        known = np.minimum(labels, len(self.weights) - 1)
        return np.einsum("rf,rf->r", features, self.weights[known])


def fit(
    answers: Float[np.ndarray, "models records some"],
    labels: Int[np.ndarray, " records"],
    is_member: Bool[np.ndarray, "models records"],
) -> Classifier:
    """Trains a classifier for each label.

    Args:
        answers: (models, records, some) of shadow models; see `Signals.answers`.
        labels, is_member: (records,) and (models, records).

    Example:
        >>> is_member = np.arange(6)[:, None] % 2 == np.arange(40) % 2
        >>> answers = np.where(is_member, 3.0, 0.0)[..., None]
        >>> found = fit(answers, np.zeros(40, int), is_member)
        >>> member, outsider = found.log_odds(np.array([[3.0], [0.0]]), np.array([0, 0]))
        >>> bool(member > 0 > outsider)
        True
    """
    models = len(answers)
    flat = np.asarray(answers, float).reshape(-1, answers.shape[-1])
    truth, of_label = is_member.ravel(), np.tile(labels, models)
    if truth.all() or not truth.any():
        raise DataError(
            "The shadow models have no members, or no outsiders.",
            remedy="Give outputs for records that were in their training sets and for records that were not.",
        )
    centre, scale = flat.mean(axis=0), np.maximum(flat.std(axis=0), 1e-6)
    features = _quadratic_features((flat - centre) / scale)
    everybody = _fit_logistic(features, truth, np.zeros(features.shape[1]))
    weights = np.tile(everybody, (int(labels.max()) + 2, 1))
    for label in np.unique(labels):
        rows = of_label == label
        inside = int(truth[rows].sum())
        if min(inside, rows.sum() - inside) >= FEWEST:
            weights[label] = _fit_logistic(features[rows], truth[rows], everybody)
    return Classifier(centre=centre, scale=scale, weights=weights)


def noisy_records(
    features: Num[np.ndarray, "records features"], share: float, *, seed: int
) -> Num[np.ndarray, "records features"]:
    """Replaces a share of the values by those of other records: the data of a weaker attacker.

    Example:
        >>> noisy_records(np.arange(6.0).reshape(3, 2), 0.0, seed=0).tolist()
        [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    """
    checks.probability(share=share)
    random = np.random.default_rng(seed)
    replaced = random.random(features.shape) < share
    return np.where(replaced, marginal_records(features, len(features), seed=seed + 1), features)


def marginal_records(
    features: Num[np.ndarray, "records features"], count: int, *, seed: int
) -> Num[np.ndarray, "made features"]:
    """Draws every value from its own column: records of an attacker who knows the marginals only.

    They have no labels; ask the target for them.

    Example:
        >>> drawn = marginal_records(np.array([[0, 10], [1, 11]]), 5, seed=0)
        >>> drawn.shape, set(drawn[:, 1].tolist()) <= {10, 11}
        ((5, 2), True)
    """
    checks.count(count=count)
    random = np.random.default_rng(seed)
    flat = features.reshape(len(features), -1)
    drawn = np.take_along_axis(flat, random.integers(0, len(flat), (count, flat.shape[1])), axis=0)
    return drawn.reshape(count, *features.shape[1:])


def _quadratic_features(x: np.ndarray) -> np.ndarray:
    """A constant, each number, its square: members are neither the least nor the most sure."""
    x = np.clip(x, -4, 4)
    return np.concatenate([np.ones((*x.shape[:-1], 1)), x, np.square(x)], axis=-1)


def _fit_logistic(features: np.ndarray, truth: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Logistic regression by Newton's method, its weights held near the prior."""
    # Both sides weigh the same, whatever their numbers, so that 0 is where both are as likely.
    weight = np.where(truth, 0.5 / max(truth.sum(), 1), 0.5 / max((~truth).sum(), 1)) * len(truth)
    weights = prior.copy()
    for _ in range(_MOST_STEPS):
        guess = expit(features @ weights)
        slope = features.T @ (weight * (guess - truth)) + _RIDGE * (weights - prior)
        curvature = (features * (weight * guess * (1 - guess))[:, None]).T @ features
        step = np.linalg.solve(curvature + _RIDGE * np.eye(len(weights)), slope)
        weights = weights - step
        if np.abs(step).max() < 1e-6:
            break
    return weights
