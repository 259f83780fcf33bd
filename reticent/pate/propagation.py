"""A graph of near neighbours in the public pool, along which labels spread.

Records that look alike mostly are alike. What teachers, or noisy answers, say of some public records is
therefore carried over to the others, and averaged: a wrong label among right neighbours is overruled. All of
it is computed from public records and from what was released, and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from reticent.core import checks
from reticent.core.errors import DataError

_AT_ONCE = 1024  # rows whose distances to all others are held in memory


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The near neighbours of each record in the public pool.

    Args:
        weights: (rows, rows) sparse and symmetric, scaled by the roots of the degrees, so that
            no eigenvalue exceeds 1.
    """

    rows: int
    neighbours: int
    weights: sparse.csr_array = field(repr=False)

    def smooth(self, values: np.ndarray, *, own: float = 0.05, steps: int = 40) -> np.ndarray:
        """Each record's values, averaged with those of its neighbours, theirs, and so on.

        Solves F = own * values + (1 - own) * weights @ F by so many rounds.

        Args:
            values: (rows, columns).
            own: how much a record's own values count against its neighbours': from 0 to 1.

        Reference:
            Zhou, Bousquet, Lal, Weston and Schoelkopf (2004), Learning with local and global consistency.
        """
        if len(values) != self.rows:
            raise DataError(
                f"The graph has {self.rows} records, and there are values of {len(values)}.",
                remedy="Pass one row of values for every record of the public pool.",
            )
        checks.inside_unit(own=own)
        checks.count(steps=steps)
        source = own * values
        found = values
        for _ in range(steps):
            found = source + (1 - own) * (self.weights @ found)
        return found


def neighbour_graph(features: Any, *, neighbours: int = 5) -> Graph:
    """Links every row of features with its nearest, by the angle between them or their distance.

    A link weighs more the nearer the two are, in units of how near their own neighbours are, so that dense
    and sparse regions are treated alike. Takes rows * rows * features operations, in pieces: memory grows
    with the rows only.
    """
    features = np.ascontiguousarray(np.asarray(features, np.float32).reshape(len(features), -1))
    checks.count(neighbours=neighbours)
    rows = len(features)
    if rows < 2:
        raise DataError("A public pool of one record has no neighbours.", remedy="Pass more public records.")
    neighbours = min(neighbours, rows - 1)
    nearest, squares = _nearest(features, neighbours)
    scale = np.maximum(squares[:, -1], 1e-12)  # how far the last neighbour of each is
    spread = np.sqrt(scale[:, None] * scale[nearest])
    weights = np.exp(-squares / spread).astype(np.float32)
    starts = np.arange(0, nearest.size + 1, neighbours)
    linked = sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=(rows, rows))
    linked = linked.maximum(linked.T)
    degrees = np.maximum(np.asarray(linked.sum(axis=1)).ravel(), 1e-12)
    scaled = sparse.diags_array(1 / np.sqrt(degrees)).astype(np.float32)
    return Graph(rows=rows, neighbours=neighbours, weights=sparse.csr_array(scaled @ linked @ scaled))


def _nearest(features: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearest others of each row, nearest first, and their squared distances: both (rows, neighbours)."""
    lengths = np.einsum("ij,ij->i", features, features)
    nearest = np.empty((len(features), neighbours), np.int64)
    squares = np.empty((len(features), neighbours), np.float32)
    for start in range(0, len(features), _AT_ONCE):
        here = np.arange(start, min(start + _AT_ONCE, len(features)))
        distances = lengths - 2 * features[here] @ features.T + lengths[here, None]
        distances[here - start, here] = np.inf
        found = np.argpartition(distances, neighbours - 1, axis=1)[:, :neighbours]
        apart = np.take_along_axis(distances, found, axis=1)
        order = np.argsort(apart, axis=1)
        nearest[here] = np.take_along_axis(found, order, axis=1)
        squares[here] = np.maximum(np.take_along_axis(apart, order, axis=1), 0)
    return nearest, squares
