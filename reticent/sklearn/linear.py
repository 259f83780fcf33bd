"""Linear models by private convex minimisation: logistic, with a rounded hinge, and least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from reticent.convex import Fit, fit, losses
from reticent.convex.losses import Loss
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms.events import Event, Repeated
from reticent.sklearn.private import PrivateClassifierFit, PrivateEstimator
from reticent.sklearn.private_bounds import Finder
from reticent.sklearn.spending import PrepaidBudget, Spending, keys_for, quote_cost

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803


_OF_DELTA = 0.9  # for a fit that is not alone: the rest is room for accounting all together


class _Linear(PrivateEstimator):
    """What the three linear models share: the call of `reticent.convex.fit`."""

    method: str
    fit_intercept: bool
    regularisation: float | None
    radius: float | None
    coef_: np.ndarray
    intercept_: Any
    method_: str

    def _minimise(
        self, loss: Loss, x: Any, targets: list[np.ndarray], norm: float, spending: Spending
    ) -> list[Fit]:
        """One fit for each of the targets, paid all at once, each with noise of its own."""
        x = sparse.csr_matrix(x) if sparse.issparse(x) else x
        times = len(targets)
        epsilon, delta = (part / times for part in spending.left)

        def one(x: Any, y: np.ndarray, epsilon: float, budget: Any, keys: Keys) -> Fit:
            return fit(
                loss,
                x,
                y,
                method=self.method,
                epsilon=epsilon,
                delta=delta if spending.delta > 0 else None,
                norm=norm,
                examples=spending.rows,
                adjacency=spending.adjacency,
                intercept=self.fit_intercept,
                regularisation=self.regularisation,
                radius=self.radius,
                keys=keys,
                budget=budget,
                purpose=self._purpose,
            )

        if times == 1 and spending.is_untouched:
            return [one(x, targets[0], epsilon, spending, spending.keys)]
        delta *= _OF_DELTA
        nothing, no_targets = sparse.csr_matrix(x.shape), np.zeros(x.shape[0])

        def price(epsilon: float) -> Event:
            return quote_cost(lambda asking: one(nothing, no_targets, epsilon, asking, Keys.from_os()))

        epsilon = spending.stretch(lambda value: Repeated(event=price(value), times=times), epsilon)
        event = price(epsilon)
        spending.pay(event if times == 1 else Repeated(event=event, times=times), self._purpose)
        keys = [spending.keys]
        keys += [
            keys_for(self.random_state, [self._purpose, part, x, targets[part]]) for part in range(1, times)
        ]
        return [
            one(x, target, epsilon, PrepaidBudget(event), own)
            for target, own in zip(targets, keys, strict=True)
        ]

    @property
    def _purpose(self) -> str:
        return f"fit {type(self).__name__}"

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = self._check_arrays(X, reset=False)
        return np.asarray(x @ self.coef_.T) + self.intercept_


class _LinearClassifier(PrivateClassifierFit, _Linear):
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one per row for two classes, positive for the second; otherwise one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]


def _logistic(classes: int) -> Loss:
    return losses.logistic(steepest=0.5) if classes == 2 else losses.softmax(classes)


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression under differential privacy; for more than two classes by softmax, in one proof.

    For two classes the loss continues as a straight line where it would be steeper than 1/2, so that half
    the noise hides a record.

    Args:
        epsilon, delta: what a fit may spend in all. Without a delta, a tenth of 1 / rows, rounded down to a
            power of ten. A delta of 0 asks for pure differential privacy.
        method: "output", "objective", "exponential" or "descent"; "auto" picks one.
        norm: the declared length of the longest row; longer ones are shortened to it. Without one it is found
            privately, from the same budget.
        classes: all labels there may be. Without them, those that enough rows have are found privately.
            "public" takes the labels from y and treats the set of them as public; the guarantee says so.
        regularisation, radius: see `reticent.convex.fit`; chosen by a rule unless given.
        adjacency: what a neighbouring dataset may do to one record.
        preparation: the share of the budget that finds what is not declared.
        random_state: noise comes from the operating system unless there is a seed: for tests only.
        budget: charged before noise is drawn; several estimators may share it.

    Guarantee:
        Publishing the fitted estimator costs `event_`; `guarantee_` is the sentence about it.

    Edge cases:
        y holds one class        fitted if two or more are declared; otherwise InvalidArgument
        a constant column        fitted like any other
        NaN, infinity, no rows   ValueError, as everywhere in scikit-learn

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> y = (X[:, 0] > 0).astype(int)
        >>> model = PrivateLogisticRegression(epsilon=1.0, norm=1.5, classes=[0, 1], random_state=0)
        >>> model.fit(X, y).score(X, y) > 0.8, model.guarantee_.epsilon <= 1
        (True, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        method: str = "auto",
        norm: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        regularisation: float | None = None,
        radius: float | None = None,
        adjacency: str = "replace",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.norm = norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.regularisation = regularisation
        self.radius = radius
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """Fits, and pays for it first.

        Raises:
            BudgetExceeded: the budget does not cover it.
            InvalidArgument: an argument out of range, one class, or classes that cannot be found.
        """
        x, codes, spending = self._open_with_labels(X, y)
        (found,) = self._minimise(_logistic(len(self.classes_)), x, [codes], self.norm_, spending)
        self.coef_, self.intercept_ = found.coefficients.T, found.intercept
        self.excess_risk_bound_, self.method_ = found.excess_risk_bound, found.method
        self._close(spending, found.guarantee, found.notes)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The chance of each class, (rows, classes), that the loss gives the scores."""
        scores = self._scores(X)
        return _logistic(len(self.classes_)).probabilities(scores)


class PrivateLinearSVC(_LinearClassifier):
    """A linear support vector machine with a rounded hinge, under differential privacy.

    For more than two classes, one machine each against the rest: epsilon and delta are divided among them,
    and each has noise of its own. `width` is how far the hinge's corner is rounded; the other arguments are
    those of `PrivateLogisticRegression`.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> y = (X[:, 0] > 0).astype(int)
        >>> model = PrivateLinearSVC(epsilon=1.0, norm=1.5, classes=[0, 1], random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.8
        True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        method: str = "auto",
        norm: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        width: float = 0.5,
        regularisation: float | None = None,
        radius: float | None = None,
        adjacency: str = "replace",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.norm = norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.width = width
        self.regularisation = regularisation
        self.radius = radius
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: Any) -> PrivateLinearSVC:
        """Fits, and pays for it first."""
        x, codes, spending = self._open_with_labels(X, y)
        count = len(self.classes_)
        targets = [codes] if count == 2 else [(codes == code).astype(int) for code in range(count)]
        parts = self._minimise(losses.huber_hinge(self.width), x, targets, self.norm_, spending)
        self.coef_ = np.concatenate([part.coefficients.T for part in parts])
        self.intercept_ = np.concatenate([part.intercept for part in parts])
        bounds = [part.excess_risk_bound for part in parts if part.excess_risk_bound is not None]
        self.excess_risk_bound_ = max(bounds) if len(bounds) == len(parts) else None
        self.method_ = parts[0].method
        self._close(spending, parts[0].guarantee if count == 2 else None, parts[0].notes)
        return self


class PrivateLinearRegression(RegressorMixin, _Linear):
    """Least squares under differential privacy, on targets within bounds.

    Args:
        method: "input", "output", "objective" or "descent"; "auto" picks one.
        bounds: the smallest and the largest target; targets and predictions are clipped to them.
            Without bounds they are found privately, from the same budget.

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
        method: str = "auto",
        norm: float | None = None,
        bounds: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        regularisation: float | None = None,
        radius: float | None = None,
        adjacency: str = "replace",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.norm = norm
        self.bounds = bounds
        self.fit_intercept = fit_intercept
        self.regularisation = regularisation
        self.radius = radius
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: Any) -> PrivateLinearRegression:
        """Fits, and pays for it first."""
        x, targets = self._check_targets(X, y)
        spending = self._open(x, targets)
        known = self._prepare(x, targets, spending)
        self.norm_, (low, high) = known["norm"], known["bounds"]
        self.bounds_ = low, high
        middle, half = (low + high) / 2, (high - low) / 2
        scaled = np.clip((targets - middle) / half, -1.0, 1.0)
        if not self.fit_intercept:  # then zero has to stay where it is
            middle, half = 0.0, max(abs(low), abs(high))
            scaled = np.clip(targets, low, high) / half
        (found,) = self._minimise(losses.squared(1.0), x, [scaled], self.norm_, spending)
        self.coef_ = half * found.coefficients[:, 0]
        self.intercept_ = float(half * found.intercept[0] + middle)
        bound = found.excess_risk_bound
        self.excess_risk_bound_ = None if bound is None else half**2 * bound
        self.method_ = found.method
        self._close(spending, found.guarantee, found.notes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.clip(self._scores(X), *self.bounds_)

    def _check_targets(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
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
