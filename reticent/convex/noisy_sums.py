"""The noisy sum of clipped gradients over all rows, in 64 bits and without a compiler.

Sums are computed in floats, moved to a grid, and noise is whole numbers of its steps. What rounding may move
a sum by is bounded by public numbers and added to the distance that the noise hides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from reticent.convex import noise
from reticent.convex.minimise import units_per_row
from reticent.convex.problem import ConvexProblem, roundings, sum_over_rows

_BLOCK = 1 << 14  # rows that are added up together
_CLIPPED = 24  # units in the last place: a length, a quotient, two products, and rows that stand elsewhere


class NoisySums:
    """Sums of a loss's gradients over the rows of a problem, each record's clipped, with normal noise.

    Args:
        most: rows that there may be at most; public.
        bound: of a record's gradient, a matrix (features, outputs), in its Frobenius norm.
        noise_multiplier: the deviation of the noise over what one record adds.
        reach: how many records' worth neighbours differ by.

    Guarantee:
        Each call costs a Gaussian release with this noise multiplier, up to 2^-64 a number, whatever weights
        earlier ones led to. A record adds its row times its slopes, shortened to `bound`, and shortening is a
        projection, which stretches nothing. So in exact arithmetic a record moves the sum by `bound` at most.
        A computed sum is off by `rounding` at most, on either side, by the same count as for
        `minimise.gradient_norm`: it is added to the bound twice. It depends on the weights, which are public
        by then, and on the most rows there may be, never on those there are.
    """

    def __init__(
        self,
        source: np.random.Generator,
        problem: ConvexProblem,
        *,
        most: int,
        bound: float,
        noise_multiplier: float,
        reach: int,
    ) -> None:
        self._source, self._problem, self._most = source, problem, most
        self._bound, self._multiplier, self._reach = bound, noise_multiplier, reach
        self._lengths = _lengths(problem.rows)

    def at(self, weights: np.ndarray) -> np.ndarray:
        """The noisy sum at these weights, (features, outputs)."""
        contribution = self._bound + 2 * self.rounding(weights)
        return noise.add_gaussian(
            self._source,
            self.exact(weights),
            max_norm=self._reach * contribution,
            deviation=self._multiplier * contribution,
        )

    def exact(self, weights: np.ndarray) -> np.ndarray:
        """The sum without noise: private."""
        problem = self._problem

        def of_block(here: slice) -> np.ndarray:
            rows = problem.rows[here]
            slopes = problem.loss.gradient(np.asarray(rows @ weights), problem.labels[here])
            sizes = self._lengths[here] * np.sqrt(np.einsum("ij,ij->i", slopes, slopes))
            slopes *= (self._bound / np.maximum(sizes, self._bound))[:, None]
            return np.asarray(rows.T @ slopes)

        if not problem.row_count:
            return np.zeros(weights.shape)
        return sum_over_rows(problem.row_count, of_block, _BLOCK)

    def rounding(self, weights: np.ndarray) -> float:
        """How far a computed sum may be from the exact one."""
        problem = self._problem
        units = units_per_row(
            problem.loss,
            float(np.linalg.norm(weights)),
            entries=problem.features,
            roundings=roundings(self._most, _BLOCK) + _CLIPPED + problem.loss.outputs,
        )
        return 1.01 * 2.0**-53 * self._most * units


def _lengths(rows: Any) -> np.ndarray:  # (rows,)
    """The length of each row, rounded up."""
    if sparse.issparse(rows):
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(squares) * (1 + (rows.shape[1] + 16) * 2.0**-52) + math.ulp(0.0)
