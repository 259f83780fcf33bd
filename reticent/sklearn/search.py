"""Private tuning: try a random number of settings, release one model, pay once for all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent.core.errors import InvalidArgument
from reticent.sklearn.private import PrivateEstimator, declared_examples
from reticent.sklearn.spending import Spending, check_budget, keys_for, seed_of
from reticent.sklearn.trials import Search, settings_of
from reticent.sklearn.weights import refuse_weights

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803


def _has(method: str) -> Callable[[Any], bool]:
    return lambda search: hasattr(search.estimator, method)


class PrivateSearch(MetaEstimatorMixin, BaseEstimator):
    """Tries a random number of settings from a grid, and releases the model that did best on held-out rows.

    Each run fits a setting drawn at random to most of the rows, and scores it by a noisy count (or a noisy
    sum of bounded errors) on the others. Only the best model, its setting and its score are released; how
    many runs there were is not published, and how long they took should not be either.

    Args:
        estimator: a private estimator. Its adjacency is used; its epsilon, delta, seed and budget are not.
        grid: a list of values for each parameter that is tuned. All settings have to cost the same.
        epsilon, delta: what everything together may cost.
        examples: the declared, public number of records; that of the estimator unless given. Without either
            the number of rows in X counts as public, and `guarantee_` says so.
        mean: how many runs there are on average.
        shape: of the distribution of that number: 1 is geometric, where a single run has probability
            1 / mean; 0 is logarithmic, where it is likelier, and each run has a little less noise.
        holdout: the probability of a row to score, by a secret coin of its own.

    After a fit: `best_estimator_`, `best_params_`, `best_score_`, `guarantee_`, `event_`.

    Guarantee:
        Publishing all of these costs `event_`. A record is either among the rows that are fitted or among
        those that score, by a coin that moves no other record, so a run costs what its fit costs: the score
        has noise enough to cost no more. The proof is that of `reticent.sklearn.trials.Search`.

    Reference:
        Papernot and Steinke (2022), arXiv:2110.03620v2, with the bound of `theorems.tuning`.
    """

    def __init__(
        self,
        estimator: Any,
        grid: Mapping[str, Any],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        examples: int | None = None,
        mean: float = 10.0,
        shape: float = 1.0,
        holdout: float = 0.2,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.mean = mean
        self.shape = shape
        self.holdout = holdout
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateSearch:
        """Searches, and pays for all of it first.

        Raises:
            BudgetExceeded: the budget does not cover it.
            CannotMeet: not even the cheapest runs fit into epsilon.
            InvalidArgument: a parameter that cannot be tuned, or settings that do not cost the same.
        """
        refuse_weights(given, "PrivateSearch")
        if not isinstance(self.estimator, PrivateEstimator) or not hasattr(self.estimator, "predict"):
            raise InvalidArgument(
                f"A search tunes a private estimator; {type(self.estimator).__name__} is not one.",
                remedy="Pass one such as PrivateLogisticRegression().",
            )
        check_budget(self.budget)
        model: Any = clone(self.estimator)
        settings = settings_of(self.grid, model)
        x, targets = model._check_targets(X, y)
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        seed = seed_of(self.random_state)
        keys = keys_for(seed, ["search", repr(self.grid), self.epsilon, self.mean, x, targets])
        spending = Spending(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=model.adjacency,
            examples=declared_examples(model.examples if self.examples is None else self.examples, x),
            keys=keys,
            budget=self.budget,
            data=(x, targets),
            owner=type(self).__name__,
        )
        known = model._prepare(x, targets, spending)
        x, targets = model._restrict(x, targets, known)
        search = Search(
            model.set_params(**known),
            settings,
            spending,
            mean=self.mean,
            shape=self.shape,
            holdout=self.holdout,
            seed=seed,
        )
        best = search.best(x, targets)
        spending.is_basic = False
        self.event_, self.guarantee_ = spending.event, spending.guarantee()
        self.best_params_, self.best_score_ = best.params, best.score
        self.best_estimator_: Any = best.model.set_params(
            budget=self.budget, random_state=self.random_state, examples=model.examples
        )
        # What is known of the released model is what all runs cost together.
        self.best_estimator_.event_, self.best_estimator_.guarantee_ = self.event_, self.guarantee_
        self.best_estimator_.excess_risk_bound_ = self.excess_risk_bound_ = None
        if hasattr(best.model, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def _delegate(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        sparse_too = "csr" if get_tags(self.estimator).input_tags.sparse else False
        x = validate_data(self, X, accept_sparse=sparse_too, dtype=np.float64, reset=False)
        return getattr(self.best_estimator_, method)(x)

    def predict(self, X: Any) -> np.ndarray:
        return self._delegate("predict", X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        return self._delegate("predict_proba", X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        return self._delegate("decision_function", X)

    def score(self, X: Any, y: ArrayLike) -> float:
        """The score of the best estimator, on rows whose holder may see the result."""
        score = accuracy_score if is_classifier(self) else r2_score
        return float(score(y, self.predict(X)))

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags
