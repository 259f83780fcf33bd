"""Additive models under differential privacy: one curve per column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from reticent.additive import AdditiveFit, AdditiveModel, AdditivePlan, Columns, CurveShape
from reticent.additive import fit as fit_curves
from reticent.additive.targets import AdditiveTarget, ClassTarget, NumberTarget
from reticent.core.errors import InvalidArgument
from reticent.sklearn.private import PrivateClassifierFit, PrivateEstimator
from reticent.sklearn.private_bounds import Finder
from reticent.sklearn.spending import Spending
from reticent.sklearn.weights import refuse_weights

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803

_WITHOUT = (-1.0, 1.0)  # the range of a column of which nothing can be seen


class _Additive(PrivateEstimator):
    """What the two additive models share: ranges of columns, and the fit."""

    ranges: Any
    passes: int | None
    ranges_: np.ndarray
    model_: AdditiveModel

    def _fit_curves(
        self, x: np.ndarray, y: np.ndarray, target: AdditiveTarget, spending: Spending, ranges: Any
    ) -> AdditiveFit:
        """Pays for a fit with what is left, and makes it."""
        self.ranges_ = np.array([_WITHOUT if pair is None else pair for pair in ranges], np.float64)
        unseen = [place for place, pair in enumerate(ranges) if pair is None]
        plan = AdditivePlan.for_budget(
            epsilon=spending.epsilon,
            delta=spending.delta,
            examples=spending.examples,
            adjacency=spending.adjacency,
            beside=None if spending.is_untouched else spending.event,
            passes=self.passes,
        )
        found = fit_curves(
            self._scale(x),
            y,
            target,
            columns=Columns.of_numbers(x.shape[1]),
            plan=plan,
            examples=spending.examples,
            delta=spending.delta,
            keys=spending.keys,
            adjacency=spending.adjacency,
            pay=lambda event: spending.pay(event, f"fit {type(self).__name__}"),
        )
        self.model_, self.passes_, self.excess_risk_bound_ = found.model, plan.passes, None
        lost = f"no ranges were found for columns {unseen}: they are clipped to -1 and 1"
        self._close(spending, found.guarantee, (plan.in_words, *([lost] if unseen else [])))
        return found

    def _scale(self, x: np.ndarray) -> np.ndarray:
        """Columns brought into [-1, 1]."""
        low, high = self.ranges_.T
        half = np.where(high > low, high / 2 - low / 2, 1.0)
        return np.clip((np.clip(x, low, high) - (low / 2 + high / 2)) / half, -1.0, 1.0)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.model_.scores(self._scale(self._check_arrays(X, reset=False)))

    def shapes(self) -> list[CurveShape]:
        """The curve of each column, with edges in the units of X, and how much noise is in it."""
        check_is_fitted(self)
        low, high = self.ranges_.T
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        return [
            shape._replace(edges=middle[shape.column] + half[shape.column] * shape.edges)
            for shape in self.model_.shapes()
        ]

    def _check_arrays(self, *arrays: Any, **more: Any) -> Any:
        """The arrays, dense: every column has a cell for 0."""
        checked = super()._check_arrays(*arrays, **more)
        x = checked[0] if isinstance(checked, tuple) else checked
        dense = x.toarray() if sparse.issparse(x) else x
        return (dense, *checked[1:]) if isinstance(checked, tuple) else dense

    def _find_ranges(self, finder: Finder | None, x: np.ndarray) -> Any:
        """Declared ranges, or those that are found; None for a column of which nothing can be seen."""
        if self.ranges is None:
            assert finder is not None
            return finder.columns(x)
        given = [_WITHOUT if pair is None else pair for pair in self.ranges]
        pairs = np.broadcast_to(np.asarray(given, np.float64), (x.shape[1], 2))
        if not (np.isfinite(pairs).all() and (pairs[:, 0] <= pairs[:, 1]).all()):
            raise InvalidArgument(
                "Ranges are pairs of a smallest and a largest value.",
                remedy="Pass ranges=(low, high), or one pair per column.",
            )
        return [(float(low), float(high)) for low, high in pairs]

    def _require_delta(self, spending: Spending) -> None:
        if spending.delta == 0:
            raise InvalidArgument(
                "Additive models add Gaussian noise, which has no pure guarantee.",
                remedy="Pass a delta above 0, or leave it out.",
            )


class PrivateAdditiveClassifier(PrivateClassifierFit, _Additive):
    """An additive model for classes under differential privacy: a logit is a sum of one curve per column.

    Args:
        epsilon, delta: what a fit may spend in all. Without a delta, a tenth of 1 / examples, rounded down to
            a power of ten.
        examples: the declared, public number of records. X may have some rows more, or fewer. Without it the
            number of rows in X counts as public, and `guarantee_` says so.
        ranges: a pair (low, high) for all columns, or one for each; values outside count as the nearest end.
            Without ranges they are found privately, from the same budget.
        classes: all labels there may be. "public" takes the set of them from y as public, and the guarantee
            says so; so does leaving them out, with a warning. "private" finds those that enough rows have.
        passes: how often all rows are added up; chosen by a rule unless given.
        adjacency: what a neighbouring dataset may do to one record: "add-or-remove", "replace" or "zero-out".
        preparation: the share of the budget that finds what is not declared.
        random_state: noise comes from the operating system unless there is a seed: for tests only.
        budget: charged before noise is drawn; several estimators may share it.

    Guarantee:
        Publishing the fitted estimator, with all its curves, costs `event_`; `guarantee_` is the sentence
        about it.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
        >>> y = (np.abs(X[:, 0]) > 0.5).astype(int)
        >>> model = PrivateAdditiveClassifier(epsilon=1.0, ranges=(-1, 1), classes=[0, 1], random_state=0)
        >>> model.fit(X, y).score(X, y) > 0.9, model.guarantee_.epsilon <= 1
        (True, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        examples: int | None = None,
        ranges: Any = None,
        classes: Any = None,
        passes: int | None = None,
        adjacency: str = "add-or-remove",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.ranges = ranges
        self.classes = classes
        self.passes = passes
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateAdditiveClassifier:
        """Fits, and pays for it first.

        Raises:
            BudgetExceeded: the budget does not cover it.
            InvalidArgument: an argument out of range, one class, or classes that cannot be found.
        """
        refuse_weights(given, "PrivateAdditiveClassifier")
        x, labels = self._check_targets(X, y)
        spending = self._open(x, labels)
        self._require_delta(spending)
        known = self._prepare(x, labels, spending)
        self.classes_ = known["classes"]
        is_known = np.isin(labels, self.classes_)  # another row has no class, and adds nothing
        codes = np.searchsorted(self.classes_, np.where(is_known, labels, self.classes_[0]))
        target = ClassTarget(len(self.classes_))
        self._fit_curves(x, np.where(is_known, codes, -1), target, spending, known["ranges"])
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits: one per row for two classes, positive for the second; otherwise one per class."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, (rows, classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        return softmax(scores, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _prepare(self, x: Any, targets: np.ndarray, spending: Spending) -> dict[str, Any]:
        wanted = int(self._finds_classes) + int(self.ranges is None)
        finder = Finder(spending, self.preparation, wanted) if wanted else None
        classes = self._find_classes(finder, targets, spending)
        return {"classes": classes, "ranges": self._find_ranges(finder, x)}


class PrivateAdditiveRegressor(RegressorMixin, _Additive):
    """An additive model for numbers under differential privacy: predictions are sums of one curve per column.

    Args:
        bounds: the smallest and the largest target; targets and predictions are clipped to them.
            Without bounds they are found privately, from the same budget: of few records, with up to two
            fifths of it.

    The other arguments are those of `PrivateAdditiveClassifier`.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
        >>> y = X[:, 0] ** 2
        >>> model = PrivateAdditiveRegressor(epsilon=1.0, ranges=(-1, 1), bounds=(0, 1), random_state=0)
        >>> model.fit(X, y).score(X, y) > 0.9
        True
        >>> [len(shape.edges) == len(shape.values) for shape in model.shapes()]  # the last value: if missing
        [True, True]
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        examples: int | None = None,
        ranges: Any = None,
        bounds: tuple[float, float] | None = None,
        passes: int | None = None,
        adjacency: str = "add-or-remove",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.ranges = ranges
        self.bounds = bounds
        self.passes = passes
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateAdditiveRegressor:
        """Fits, and pays for it first."""
        refuse_weights(given, "PrivateAdditiveRegressor")
        x, targets = self._check_targets(X, y)
        spending = self._open(x, targets)
        self._require_delta(spending)
        known = self._prepare(x, targets, spending)
        self.bounds_ = known["bounds"]
        self._fit_curves(x, targets, NumberTarget(self.bounds_), spending, known["ranges"])
        return self

    def predict(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        target = NumberTarget(self.bounds_)
        return np.clip(scores[:, 0] * target.half + target.middle, *self.bounds_)

    def _check_targets(self, X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
        x, targets = self._check_arrays(X, y, y_numeric=True)
        return x, targets.astype(np.float64)

    def _prepare(self, x: Any, targets: np.ndarray, spending: Spending) -> dict[str, Any]:
        wanted = int(self.ranges is None) + 2 * int(self.bounds is None)
        finder = Finder(spending, self.preparation, wanted) if wanted else None
        bounds = self.bounds
        if bounds is None:
            assert finder is not None
            bounds = finder.bounds(targets)
        return {"bounds": tuple(map(float, bounds)), "ranges": self._find_ranges(finder, x)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
