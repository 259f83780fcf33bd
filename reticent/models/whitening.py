"""Whitening: features rotated and scaled so that, for prior images, all directions vary alike.

Gradient descent takes long where features vary much in a few directions and little in the many that tell
classes apart, and every step of a private run is paid for. A prior that never saw a record
(`reticent.models.prior_images`) says beforehand which directions are which.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from reticent.core import checks
from reticent.core.errors import InvalidArgument

_AT_ONCE = 4096  # rows


class Whitening(NamedTuple):
    """A map of feature vectors that was fixed before any record was seen.

    centre: (features,), taken away first. directions: (features, kept), each divided by how much the prior
    varies along it.

    Example:
        >>> white = Whitening(centre=np.ones(2), directions=np.eye(2) / 2)
        >>> white(np.array([[3.0, 1.0]])).tolist()
        [[1.0, 0.0]]
    """

    centre: Float[np.ndarray, " features"]
    directions: Float[np.ndarray, "features kept"]

    def __call__(self, rows: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows kept"]:
        """Rows of features as rows of length 1; each depends on its own row alone.

        Guarantee:
            Costs no privacy, and a row of the result is a record as the row it came from was.
        """
        result = np.empty((len(rows), self.directions.shape[1]), np.float32)
        for start in range(0, len(rows), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            result[here] = unit_rows((rows[here] - self.centre) @ self.directions)
        return result


def whitening(
    prior: Float[np.ndarray, "images features"], *, kept: int = 1000, ridge: float = 1e-3
) -> Whitening:
    """From the features of prior images, the map that makes them vary alike in `kept` directions.

    Args:
        prior: (images, features). Never rows of the private data: that would have to be paid for.
        ridge: added to every variance, so that directions with almost no variance are not amplified.

    Example:
        >>> prior = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
        >>> white = whitening(prior, kept=3)
        >>> white(prior[:7]).shape
        (7, 3)
    """
    checks.count(kept=kept)
    checks.positive(ridge=ridge)
    if prior.ndim != 2 or min(prior.shape) < kept:
        raise InvalidArgument(
            f"{kept} directions cannot be found in prior features of shape {prior.shape}.",
            remedy="Draw more prior images, or keep fewer directions.",
        )
    centre = prior.mean(axis=0)
    away = prior - centre
    variances, directions = _spectrum(away, kept)
    scale = 1 / np.sqrt(np.maximum(variances, 0) + ridge)
    return Whitening(centre, np.ascontiguousarray(directions * scale, np.float32))


def _spectrum(away: np.ndarray, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest variances and their directions, (features, kept); by the smaller of the two products."""
    largest, count = slice(-1, -kept - 1, -1), np.float32(len(away))
    if len(away) >= away.shape[1]:
        variances, directions = np.linalg.eigh(away.T @ away / count)
        return variances[largest], directions[:, largest]
    variances, of_rows = np.linalg.eigh(away @ away.T / count)
    directions = away.T @ of_rows[:, largest]
    return variances[largest], directions / np.maximum(np.linalg.norm(directions, axis=0), 1e-12)


def unit_rows(rows: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows features"]:
    """Each row divided by its length."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
