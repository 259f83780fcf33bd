"""Divergences between discrete distributions, and the privacy loss as a random variable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument


class PrivacyLoss(NamedTuple):
    """The values of ln(P/Q) and the probability of each when outcomes are drawn from P.

    Example:
        >>> loss = PrivacyLoss(values=np.array([-1.0, 1.0]), probabilities=np.array([0.25, 0.75]))
        >>> float(loss.values @ loss.probabilities)
        0.5
    """

    values: np.ndarray
    probabilities: np.ndarray


def renyi(p: np.ndarray | list[float], q: np.ndarray | list[float], order: float) -> float:
    """The Renyi divergence D_order(P || Q) of two discrete distributions, for orders from 0 to infinity.

    Order 1 is the Kullback-Leibler divergence, infinity the largest log ratio. It is never negative:
    a value of ln(.52) that circulates for {.6, .4} and {.5, .5} at order 2 forgot the factor Q^(1 - order).

    >>> round(float(np.exp(renyi([0.6, 0.4], [0.5, 0.5], 2))), 12)
    1.04

    Reference:
        van Erven and Harremoes (2014), Definitions 2 and 3.
    """
    p, q = _distribution(p), _distribution(q)
    if p.shape != q.shape:
        raise InvalidArgument(
            f"P has {p.size} outcomes and Q has {q.size}.", remedy="List the same outcomes for both."
        )
    if not order >= 0:
        raise InvalidArgument(
            f"order must be at least 0, got {order}.", remedy="Pass 1 for Kullback-Leibler."
        )
    seen = p > 0
    if order >= 1 and np.any(q[seen] == 0):
        return float("inf")
    both = seen & (q > 0)
    ratios = np.log(p[both]) - np.log(q[both])
    if not both.any():
        return float("inf")
    if order == 1:
        return max(float(p[both] @ ratios), 0.0)
    if np.isinf(order):
        return max(float(ratios.max()), 0.0)
    logs = np.log(p[both]) + (order - 1) * ratios
    return max(float(np.logaddexp.reduce(logs) / (order - 1)), 0.0)


def hockey_stick(p: np.ndarray | list[float], q: np.ndarray | list[float], epsilon: float) -> float:
    """The smallest delta for which P is within (epsilon, delta) of Q: the sum of (P - e^epsilon Q)+.

    Example:
        >>> round(hockey_stick([0.6, 0.4], [0.5, 0.5], epsilon=0.0), 6)
        0.1
    """
    checks.finite(epsilon=epsilon)
    p, q = _distribution(p), _distribution(q)
    with np.errstate(over="ignore", invalid="ignore"):
        covered = np.where(q > 0, np.exp(epsilon) * q, 0.0)
    return float(np.maximum(p - covered, 0.0).sum())


def privacy_loss(p: np.ndarray | list[float], q: np.ndarray | list[float]) -> PrivacyLoss:
    """The privacy loss of P against Q: ln(P(o)/Q(o)) for o drawn from P; infinite where Q gives nothing.

    Example:
        >>> privacy_loss([0.5, 0.5], [1.0, 0.0]).values.round(3).tolist()
        [-0.693, inf]
    """
    p, q = _distribution(p), _distribution(q)
    seen = p > 0
    with np.errstate(divide="ignore"):
        return PrivacyLoss(np.log(p[seen]) - np.log(q[seen]), p[seen])


def _distribution(values: np.ndarray | list[float]) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.all(array >= 0) or not abs(array.sum() - 1) <= 1e-9:
        raise InvalidArgument(
            f"A distribution is a list of probabilities that sum to 1; these sum to {array.sum():g}.",
            remedy="Divide by their sum.",
        )
    return array
