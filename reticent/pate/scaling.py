"""Scales columns by the public pool, so that distances are meaningful and teachers learn fast.

A mean over private records would have to be paid for; the pool is public.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.errors import DataError

_FAR = 4.0  # deviations; what lies farther is brought back


class PoolScale(NamedTuple):
    """Numbers become deviations from the pool's mean, words (0 or 1) stay; then rows have about length 1.

    centre, scale: (features,). is_number: (features,). length: of a usual row.
    """

    centre: np.ndarray
    scale: np.ndarray
    is_number: np.ndarray
    length: float

    @classmethod
    def of(cls, pool: ArrayLike) -> PoolScale:
        """From a public pool alone, (rows, features)."""
        pool = np.asarray(pool, np.float32)
        if pool.ndim != 2 or not len(pool):
            raise DataError(
                f"A pool has a row per record and a column per feature; this one has shape {pool.shape}.",
                remedy="Pass the public rows as a matrix.",
            )
        is_number = np.asarray(~np.isin(pool, (0.0, 1.0)).all(axis=0))
        scale = np.where(is_number, np.maximum(pool.std(axis=0), 1e-6), 1)
        unscaled = cls(np.where(is_number, pool.mean(axis=0), 0), scale, is_number, 1.0)
        length = float(np.sqrt(np.square(unscaled(pool)).sum(axis=1).mean()))
        return unscaled._replace(length=max(length, 1e-6))

    def __call__(self, x: ArrayLike) -> np.ndarray:
        """Rows, each by itself. What is not a number becomes 0, and far away is not farther than `_FAR`."""
        with np.errstate(over="ignore"):
            rows = (np.asarray(x).astype(np.float32) - self.centre) / self.scale
        rows = np.where(self.is_number, np.clip(rows, -_FAR, _FAR), rows)
        rows = np.nan_to_num(rows / self.length, nan=0.0, posinf=0.0, neginf=0.0)
        return rows.astype(np.float32)
