"""Smooth functions over the bins of a column.

A curve is a combination of features: columns of a table with one row per bin. The products of two rows are a
kernel that falls with the distance of the bins, so that neighbouring bins share what they learn, and the
noise in a curve is as smooth as the curve. No row is longer than 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.additive.bins import ColumnBins

RANK = 16  # features of a number's curve, at most
_REACH = 0.2  # how far rows apart learn from each other, as a share of all rows
_BY_VALUE = 0.3  # how much of a distance is by value; the rest is by rank


class CurveFeatures(NamedTuple):
    """The features of a curve.

    Args:
        table: (bins, features); no row is longer than 1, and the columns are orthogonal over the rows of the
            data, by the noisy counts.
        strengths: the mean square of each feature over the rows of the data, largest first.
    """

    table: np.ndarray
    strengths: np.ndarray


def features_of(bins: ColumnBins, rank: int = RANK) -> CurveFeatures:
    """The features of a column's curve; a curve has mean 0 over the data."""
    kernel = _kernel(bins)
    centring = np.eye(len(kernel)) - bins.mass[None, :]  # (bins, bins): takes off the mean
    kernel = centring @ kernel @ centring.T
    largest = kernel.diagonal().max()
    if not largest > 1e-9:  # all rows are in one bin
        return CurveFeatures(np.zeros((len(kernel), 1)), np.zeros(1))
    values, vectors = np.linalg.eigh(kernel / largest)
    kept = min(rank, len(kernel)) if bins.is_number else len(kernel)
    table = vectors[:, ::-1][:, :kept] * np.sqrt(np.maximum(values[::-1][:kept], 0.0))
    strengths, turn = np.linalg.eigh(table.T @ (bins.mass[:, None] * table))
    return CurveFeatures(table @ turn[:, ::-1], np.maximum(strengths[::-1], 0.0))


def _kernel(bins: ColumnBins) -> np.ndarray:
    """How much two bins have in common: 1 on the diagonal."""
    kernel = np.eye(len(bins.mass))
    if bins.is_number:
        inside = bins.mass[:-1]
        ranks = np.cumsum(inside) - inside / 2
        by_rank = np.abs(ranks[:, None] - ranks)
        by_value = np.abs(bins.centres[:, None] - bins.centres)
        kernel[:-1, :-1] = np.exp(-((1 - _BY_VALUE) * by_rank + _BY_VALUE * by_value) / _REACH)
    return kernel
