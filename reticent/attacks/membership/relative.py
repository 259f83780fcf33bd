"""The relative attack (RMIA): the gain over reference models, compared with the gain of other records.

Reference:
    Zarifzadeh, Liu and Shokri (2024), Equations 4 and 11, arXiv:2312.03262v3.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from reticent.core import checks

_TIE_BREAK = 1e-9


def online(
    target: Float[np.ndarray, " records"],
    shadows: Float[np.ndarray, "models records"],
    is_member: Bool[np.ndarray, "models records"],
    *,
    gamma: float = 1.0,
) -> Float[np.ndarray, " records"]:
    """The share of records whose gain this record's gain exceeds by a factor `gamma`.

    Args:
        target: (records,) log probability of the true class.
        shadows, is_member: (models, records) of reference models; every record is in half of them.

    Example:
        >>> rng, is_member = np.random.default_rng(0), np.arange(8)[:, None] % 2 == np.arange(30) % 2
        >>> shadows = -1 - rng.random((8, 30)) - ~is_member
        >>> target = np.full(30, -3.0)
        >>> target[0] = -0.01
        >>> int(online(target, shadows, is_member).argmax())
        0
    """
    inside, outside = (_mean_probability(shadows, which) for which in (is_member, ~is_member))
    return _share_below(target - np.log((inside + outside) / 2), gamma)


def offline(
    target: Float[np.ndarray, " records"],
    shadows: Float[np.ndarray, "models records"],
    is_member: Bool[np.ndarray, "models records"],
    *,
    gamma: float = 1.0,
    slope: float = 0.3,
) -> Float[np.ndarray, " records"]:
    """The same from models that never saw the record; those that did are assumed to be a little surer.

    Args:
        slope: the probability inside is guessed as slope * outside + 1 - slope.

    Example:
        >>> rng, is_member = np.random.default_rng(0), np.arange(8)[:, None] % 2 == np.arange(30) % 2
        >>> shadows = -1 - rng.random((8, 30)) - ~is_member
        >>> target = np.full(30, -3.0)
        >>> target[0] = -0.01
        >>> int(offline(target, shadows, is_member).argmax())
        0
    """
    checks.probability(slope=slope)
    outside = _mean_probability(shadows, ~np.asarray(is_member, bool))
    return _share_below(target - np.log(((1 + slope) * outside + 1 - slope) / 2), gamma)


def _mean_probability(log_probability: np.ndarray, which: np.ndarray) -> np.ndarray:
    counts = np.maximum(which.sum(axis=0), 1)
    return np.maximum(np.where(which, np.exp(log_probability), 0).sum(axis=0) / counts, 1e-30)


def _share_below(gain: np.ndarray, gamma: float) -> np.ndarray:
    """The share of gains that each gain exceeds by the factor; ties at the top are broken by the gain."""
    checks.positive(gamma=gamma)
    below = np.searchsorted(np.sort(gain), gain - np.log(gamma), side="right") / len(gain)
    return below + _TIE_BREAK * np.tanh(gain)
