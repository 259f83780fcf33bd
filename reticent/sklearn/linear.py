"""Linear classifiers by private convex minimisation: logistic, and with a rounded hinge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from reticent.convex import losses
from reticent.convex.losses import Loss
from reticent.sklearn.linear_fit import LinearFit
from reticent.sklearn.partial_fits import PartialFits
from reticent.sklearn.private import PrivateClassifierFit
from reticent.sklearn.weights import record_weights

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803


class _LinearClassifier(PartialFits, PrivateClassifierFit, LinearFit):
    class_weight: Any
    max_weight: float | None

    def _begin(self, y: ArrayLike, given: dict[str, Any]) -> np.ndarray | None:
        """Forgets earlier batches, and returns the weights of the records if there are any."""
        self.__dict__.pop("_partial", None)
        labels = None if self.class_weight is None else column_or_1d(y)
        terms = {"max_weight": self.max_weight, "class_weight": self.class_weight}
        return record_weights(given, labels=labels, targets=y, **terms)

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
        epsilon, delta: what a fit may spend in all. Without a delta, a tenth of 1 / examples, rounded down to
            a power of ten. A delta of 0 asks for pure differential privacy.
        examples: the declared, public number of records. X may have some rows more, or fewer. Without it the
            number of rows in X counts as public, and `guarantee_` says so.
        method: "output", "objective", "exponential" or "descent"; "auto" picks one.
        norm: the declared length of the longest row; longer ones are shortened to it. Without one it is found
            privately, from the same budget.
        classes: all labels there may be. "public" takes the set of them from y as public, and the guarantee
            says so; so does leaving them out, with a warning. "private" finds those that enough rows have.
        class_weight: a declared weight for each label, {label: weight}; 1 for labels that it leaves out.
            "balanced" is refused: it would read the sizes of the classes.
        max_weight: the declared largest `sample_weight`; larger ones count as that. The noise hides a record
            with the largest weight, so records with small ones are learnt from less.
        regularisation, radius: see `reticent.convex.fit`; chosen by a rule unless given.
        adjacency: what a neighbouring dataset may do to one record: "add-or-remove", "replace" or "zero-out".
            Replacing a record removes one and adds another: the same epsilon takes about twice the noise.
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
        examples: int | None = None,
        method: str = "auto",
        norm: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
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
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.regularisation = regularisation
        self.radius = radius
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateLogisticRegression:
        """Fits, and pays for it first.

        Args:
            sample_weight: of each record, as a keyword; `max_weight` has to be declared.

        Raises:
            BudgetExceeded: the budget does not cover it.
            InvalidArgument: an argument out of range, one class, or classes that cannot be found.
        """
        weights = self._begin(y, given)
        x, codes, spending = self._open_with_labels(X, y, weights)
        (found,) = self._minimise(_logistic(len(self.classes_)), x, [codes], self.norm_, spending, weights)
        self.coef_, self.intercept_ = found.coefficients.T, found.intercept
        self.excess_risk_bound_ = None if weights is not None else found.excess_risk_bound
        self.method_ = found.method
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
        examples: int | None = None,
        method: str = "auto",
        norm: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        width: float = 0.5,
        class_weight: Any = None,
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
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.width = width
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.regularisation = regularisation
        self.radius = radius
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateLinearSVC:
        """Fits, and pays for it first; `sample_weight` as for `PrivateLogisticRegression`."""
        weights = self._begin(y, given)
        x, codes, spending = self._open_with_labels(X, y, weights)
        count = len(self.classes_)
        targets = [codes] if count == 2 else [(codes == code).astype(int) for code in range(count)]
        parts = self._minimise(losses.huber_hinge(self.width), x, targets, self.norm_, spending, weights)
        self.coef_ = np.concatenate([part.coefficients.T for part in parts])
        self.intercept_ = np.concatenate([part.intercept for part in parts])
        bounds = [part.excess_risk_bound for part in parts if part.excess_risk_bound is not None]
        is_bounded = weights is None and len(bounds) == len(parts)
        self.excess_risk_bound_ = max(bounds) if is_bounded else None
        self.method_ = parts[0].method
        self._close(spending, parts[0].guarantee if count == 2 else None, parts[0].notes)
        return self
