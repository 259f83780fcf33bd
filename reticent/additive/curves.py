"""Smooth functions over the bins of a column.

A curve is a combination of features: columns of a table with one row per bin. The products of two rows are a
kernel that falls with the distance of the bins, so that neighbouring bins share what they learn, and the
noise in a curve is as smooth as the curve. One feature of a number is a straight line. Bins are wide where
few rows are, and the line goes on there.

A curve has mean 0 over the data, so its features have. What is released is shifted: where nearly all rows
have the same word, the others are far from the mean, and half as far from the middle of the two. The sum of
the residuals is released beside it, and takes the shift off again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.additive.bins import ColumnBins, FineBins

RANK = (16, 24)  # features of a number's curve, at most, with much noise and with none
_REACH = 0.2  # how far rows apart learn from each other, as a share of all rows
BY_VALUE = (
    0.3,
    0.9,
)  # how much of a distance is by value, with much noise and with none; the rest is by rank
STRAIGHT = (0.3, 0.5)  # the share of a straight line in the squares of a number's features
_STEPS_TO_MIDDLE = 300


class CurveFeatures(NamedTuple):
    """The features of a curve.

    Args:
        of_cell: the place of each cell, a row of the table.
        table: (places, features), with mean 0 over the rows of the data, by the noisy counts. The features
            are orthogonal there.
        shift: (features,), which moves the rows of the table into the smallest ball around 0.
        strengths: the mean square of each feature over the rows of the data, largest first.
    """

    of_cell: np.ndarray
    table: np.ndarray
    shift: np.ndarray
    strengths: np.ndarray

    @property
    def released(self) -> np.ndarray:
        """The features whose products with residuals are released, (places, features): no row is above 1.

        Those of the table follow, once the sum of the residuals times the shift is taken off.
        """
        return self.table + self.shift


def features_of(
    bins: ColumnBins, rank: int = RANK[0], by_value: float = BY_VALUE[0], straight: float = STRAIGHT[0]
) -> CurveFeatures:
    """The features of a column's curve; a curve has mean 0 over the data.

    Args:
        straight: the share of a straight line, from part to part, in the squares of a number's features: the
            others are steps, from bin to bin.
    """
    kernel = _kernel(bins, by_value)
    centring = np.eye(len(kernel)) - bins.mass[None, :]  # (bins, bins): takes off the mean
    kernel = centring @ kernel @ centring.T
    largest = kernel.diagonal().max()
    if not largest > 1e-9:  # all rows are in one bin
        return CurveFeatures(bins.of_cell, np.zeros((len(kernel), 1)), np.zeros(1), np.zeros(1))
    values, vectors = np.linalg.eigh(kernel / largest)
    has_line = bins.parts is not None and straight > 0 and rank > 1
    kept = min(rank - has_line, len(kernel)) if bins.is_number else len(kernel)
    table = vectors[:, ::-1][:, :kept] * np.sqrt(np.maximum(values[::-1][:kept], 0.0))
    of_cell, mass = bins.of_cell, bins.mass
    if bins.parts is not None and has_line:
        of_cell, mass = bins.parts.of_cell, bins.parts.mass
        curved = table[bins.parts.bins] * np.sqrt(1 - straight)
        table = np.column_stack([curved, _line(bins.parts) * np.sqrt(straight)])
    middle = _middle(table)
    table, shift = (part / np.linalg.norm(table - middle, axis=1).max() for part in (table, -middle))
    strengths, turn = np.linalg.eigh(table.T @ (mass[:, None] * table))
    turn = turn[:, ::-1]
    return CurveFeatures(of_cell, table @ turn, shift @ turn, np.maximum(strengths[::-1], 0.0))


def _line(parts: FineBins) -> np.ndarray:
    """A straight line from one end of the range to the other, 2 higher, (parts,); its mean over rows is 0."""
    inside = parts.mass[:-1]
    mean = float(inside @ parts.centres) / max(float(inside.sum()), 1e-12)
    return np.append(2 * (parts.centres - mean), 0.0)


def _middle(points: np.ndarray) -> np.ndarray:
    """A point near the middle of the smallest ball around all points, (features,).

    Reference:
        Badoiu and Clarkson (2003), *Smaller core-sets for balls*: a step towards the farthest point, each
        time a shorter one.
    """
    middle = points.mean(axis=0)
    for step in range(1, _STEPS_TO_MIDDLE):
        farthest = points[np.argmax(np.square(points - middle).sum(axis=1))]
        middle = middle + (farthest - middle) / (step + 1)
    return middle


def _kernel(bins: ColumnBins, by_value: float) -> np.ndarray:
    """How much two bins have in common: 1 on the diagonal."""
    kernel = np.eye(len(bins.mass))
    if bins.is_number:
        inside = bins.mass[:-1]
        ranks = np.cumsum(inside) - inside / 2
        in_rank = np.abs(ranks[:, None] - ranks)
        in_value = np.abs(bins.centres[:, None] - bins.centres)
        kernel[:-1, :-1] = np.exp(-((1 - by_value) * in_rank + by_value * in_value) / _REACH)
    return kernel
