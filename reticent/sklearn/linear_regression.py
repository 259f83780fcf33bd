"""Least squares by private convex minimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from reticent.convex import losses
from reticent.core.errors import InvalidArgument
from reticent.sklearn.linear_fit import LinearFit
from reticent.sklearn.private_bounds import Finder
from reticent.sklearn.spending import Spending
from reticent.sklearn.weights import record_weights

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803


class PrivateLinearRegression(RegressorMixin, LinearFit):
    """Least squares under differential privacy, on targets within bounds.

    Args:
        method: "input", "output", "objective" or "descent"; "auto" picks one.
        bounds: the smallest and the largest target; targets and predictions are clipped to them.
            Without bounds they are found privately, from the same budget: of few records, with up to two
            fifths of it.

    The other arguments are those of `PrivateLogisticRegression`.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> model = PrivateLinearRegression(epsilon=1.0, norm=1.5, bounds=(-1, 1), random_state=0)
        >>> model.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.8
        True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        examples: int | None = None,
        method: str = "auto",
        norm: float | None = None,
        bounds: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        max_weight: float | None = None,
        regularisation: float | None = None,
        radius: float | None = None,
        adjacency: str = "add-or-remove",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.method = method
        self.norm = norm
        self.bounds = bounds
        self.fit_intercept = fit_intercept
        self.max_weight = max_weight
        self.regularisation = regularisation
        self.radius = radius
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateLinearRegression:
        """Fits, and pays for it first; `sample_weight` as for `PrivateLogisticRegression`.

        Raises:
            InvalidArgument: weights with method="input", whose proof counts every record once.
        """
        weights = self._record_weights(y, given)
        x, targets = self._check_targets(X, y)
        spending = self._open(x, targets, *(() if weights is None else (weights,)))
        known = self._prepare(x, targets, spending)
        self.norm_, (low, high) = known["norm"], known["bounds"]
        self.bounds_ = low, high
        middle, half = (low + high) / 2, (high - low) / 2
        scaled = np.clip((targets - middle) / half, -1.0, 1.0)
        if not self.fit_intercept:  # then zero has to stay where it is
            middle, half = 0.0, max(abs(low), abs(high))
            scaled = np.clip(targets, low, high) / half
        (found,) = self._minimise(losses.squared(1.0), x, [scaled], self.norm_, spending, weights)
        self.coef_ = half * found.coefficients[:, 0]
        self.intercept_ = float(half * found.intercept[0] + middle)
        bound = found.excess_risk_bound
        self.excess_risk_bound_ = None if bound is None or weights is not None else half**2 * bound
        self.method_ = found.method
        self._close(spending, found.guarantee, found.notes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.clip(self._scores(X), *self.bounds_)

    def _record_weights(self, y: ArrayLike, given: dict[str, Any]) -> np.ndarray | None:
        terms = {"max_weight": self.max_weight, "class_weight": None, "labels": None}
        weights = record_weights(given, targets=y, **terms)
        if weights is not None and self.method == "input":
            raise InvalidArgument(
                "method='input' takes no sample_weight: its proof counts every record once.",
                remedy="Pass method='objective', 'output', 'descent' or 'auto'.",
            )
        return weights

    def _check_targets(self, X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
        x, targets = self._check_arrays(X, y, y_numeric=True)
        return x, targets.astype(np.float64)

    def _prepare(self, x: Any, targets: np.ndarray, spending: Spending) -> dict[str, Any]:
        wanted = int(self.norm is None) + 2 * int(self.bounds is None)
        finder = Finder(spending, self.preparation, wanted) if wanted else None
        return {
            "norm": self._find_norm(finder, x, self.norm),
            "bounds": self._find_bounds(finder, targets),
        }

    def _find_bounds(self, finder: Finder | None, targets: np.ndarray) -> tuple[float, float]:
        if self.bounds is None:
            assert finder is not None
            return finder.bounds(targets)
        low, high = (float(end) for end in self.bounds)
        if not -np.inf < low < high < np.inf:
            raise InvalidArgument(
                f"bounds={self.bounds} are not an interval.",
                remedy="Pass the smallest and the largest target.",
            )
        return low, high

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # With few rows, or an epsilon below 1, noise decides more than the data do.
        tags.regressor_tags.poor_score = True
        return tags
