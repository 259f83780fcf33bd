"""Counts along a range without most of their noise: post-processing, free of charge.

A range is halved, and the halves are halved again. How rows divide among two halves is believed as far as it
stands out of the noise; else they divide as the widths of the halves do. So a range of few rows is divided
coarsely, and one of many rows as finely as it was counted.

Reference:
    Donoho and Johnstone (1995), *Adapting to unknown smoothness via wavelet shrinkage*: the differences of
    halves are the coefficients of Haar's wavelets. Each is shrunk by the rule of James and Stein.
"""

from __future__ import annotations

import numpy as np


def smooth(counts: np.ndarray, variances: np.ndarray, widths: np.ndarray, total: float) -> np.ndarray:
    """Counts that are not negative and add up to the total.

    Args:
        counts: with noise, in the order of the range.
        variances: of the noise in each.
        widths: of each part of the range.

    Example:
        >>> smooth(np.array([9.0, 1.0]), np.full(2, 100.0), np.ones(2), total=8.0).tolist()
        [4.0, 4.0]
        >>> smooth(np.array([900.0, 100.0]), np.full(2, 100.0), np.ones(2), total=1000.0).tolist()
        [899.875, 100.125]
    """
    if len(counts) == 1:
        return np.array([max(total, 0.0)])
    half = len(counts) // 2
    first, second = slice(0, half), slice(half, None)
    share = widths[first].sum() / widths.sum()
    away = (1 - share) * counts[first].sum() - share * counts[second].sum()
    noise = (1 - share) ** 2 * variances[first].sum() + share**2 * variances[second].sum()
    kept = max(0.0, 1 - noise / away**2) if away else 0.0
    left = min(max(share * total + kept * away, 0.0), max(total, 0.0))
    return np.concatenate(
        [
            smooth(counts[part], variances[part], widths[part], here)
            for part, here in ((first, left), (second, total - left))
        ]
    )


def combine(
    counts: np.ndarray, variances: np.ndarray, others: np.ndarray, variances_of_others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The best mean of two counts of the same rows, and the variance of its noise.

    >>> combine(np.array([10.0]), np.array([1.0]), np.array([20.0]), np.array([4.0]))
    (array([12.]), array([0.8]))
    """
    # Not by the inverse of a variance: one that is 0 is a count without noise.
    both = np.maximum(variances + variances_of_others, 1e-300)
    share = np.where(variances + variances_of_others > 0, variances_of_others / both, 0.5)
    return share * counts + (1 - share) * others, variances * share
