"""Columns brought into [-1, 1] by bounds that are declared or found privately."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent.core.errors import InvalidArgument
from reticent.sklearn.private import PrivateEstimator
from reticent.sklearn.private_bounds import Finder

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803

_WITHOUT = (-1.0, 1.0)  # the bounds of a column of which nothing can be seen


class PrivateScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Maps each column's bounds onto -1 and 1, and clips what lies beyond.

    A row then has a length of at most sqrt(d): declare that as the `norm` of the next estimator.

    Args:
        bounds: a pair (low, high) for all columns, or one for each. Without bounds they are found privately,
            and the whole of epsilon goes into that. A column in which too few rows stand out of the noise
            is clipped to -1 and 1 without scaling; `notes_` says which.
        epsilon, delta, examples, adjacency, random_state, budget: as for `PrivateLogisticRegression`.

    Edge cases:
        a constant column, low == high   mapped to 0
        a value outside the bounds       clipped to -1 or 1
        NaN, infinity, no rows           ValueError, as everywhere in scikit-learn

    Guarantee:
        Publishing the bounds, `bounds_`, costs `event_`. What is transformed is as private as it was before.

    Example:
        >>> PrivateScaler(bounds=(0, 10)).fit_transform([[0.0], [5.0], [20.0]]).tolist()
        [[-1.0], [0.0], [1.0]]
    """

    def __init__(
        self,
        epsilon: float = 0.1,
        *,
        delta: float | None = None,
        examples: int | None = None,
        bounds: Any = None,
        adjacency: str = "add-or-remove",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.bounds = bounds
        self.adjacency = adjacency
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: Any = None) -> PrivateScaler:
        """Finds the bounds of the columns, and pays for them first; declared ones cost nothing."""
        x: Any = validate_data(self, X, dtype=np.float64)
        spending = self._open(x)
        if spending.delta == 0 and self.bounds is None:
            raise InvalidArgument(
                "The bounds of columns are found by Gaussian noise, which has no pure guarantee.",
                remedy="Declare bounds=..., or pass a delta above 0.",
            )
        found = (
            self._check_declared(x.shape[1])
            if self.bounds is not None
            else Finder(spending, 1.0, 1).columns(x)
        )
        self.bounds_ = np.array([_WITHOUT if pair is None else pair for pair in found], np.float64)
        unseen = [place for place, pair in enumerate(found) if pair is None]
        notes = (
            (f"no bounds were found for columns {unseen}: they are clipped to -1 and 1",) if unseen else ()
        )
        self._close(spending, None, notes)
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x: Any = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        low, high = self.bounds_.T.astype(x.dtype)
        # A column with one value is mapped to 0.
        width = np.where(high > low, (high - low) / 2, 1)
        return np.clip((np.clip(x, low, high) - (low + high) / 2) / width, -1, 1).astype(x.dtype, copy=False)

    def _check_declared(self, columns: int) -> list[tuple[float, float] | None]:
        pairs = np.broadcast_to(np.asarray(self.bounds, np.float64), (columns, 2))
        if not (np.isfinite(pairs).all() and (pairs[:, 0] <= pairs[:, 1]).all()):
            raise InvalidArgument(
                "Bounds are pairs of a smallest and a largest value.",
                remedy="Pass (low, high), or one pair per column.",
            )
        return [(float(low), float(high)) for low, high in pairs]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
