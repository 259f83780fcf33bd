"""What all private estimators share: opening a fit with a budget, closing it with a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from reticent.accounting.guarantee import Guarantee
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.sklearn.private_bounds import Finder
from reticent.sklearn.spending import Spending, check_budget, keys_for

PUBLIC_LABELS = "the set of labels is public: it was taken from y"


class PrivateEstimator(BaseEstimator):
    """An estimator whose fit costs privacy.

    After a fit: `guarantee_`, the sentence that may be printed; `event_`, what was released; `notes_`.
    Parameters that are named here are set by the constructors of the subclasses.
    """

    epsilon: float
    delta: float | None
    adjacency: str
    preparation: float
    random_state: Any
    budget: Any
    event_: Any
    guarantee_: Guarantee
    notes_: tuple[str, ...]
    excess_risk_bound_: float | None
    n_features_in_: int

    def _open(self, x: Any, *targets: np.ndarray) -> Spending:
        """The budget of a fit on these data, and its keys."""
        check_budget(self.budget)
        said = {
            key: value for key, value in self.get_params().items() if key not in ("random_state", "budget")
        }
        keys = keys_for(self.random_state, [type(self).__name__, sorted(said.items(), key=str), x, *targets])
        return Spending(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            rows=x.shape[0],
            keys=keys,
            budget=self.budget,
        )

    def _close(self, spending: Spending, proved: Guarantee | None, notes: tuple[str, ...]) -> None:
        self.event_ = spending.event
        self.guarantee_ = spending.guarantee(proved)
        self.notes_ = notes

    def _check_arrays(self, *arrays: Any, **more: Any) -> Any:
        """The arrays as float64 matrices, dense or in compressed rows; with a y, both."""
        return validate_data(self, *arrays, accept_sparse="csr", dtype=np.float64, **more)

    @staticmethod
    def _restrict(x: Any, targets: np.ndarray, known: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """The rows and targets as a fit that knows this may use them."""
        return x, targets

    def _find_norm(self, finder: Finder | None, x: Any, norm: float | None) -> float:
        if norm is None:
            assert finder is not None
            return finder.norm(x)
        checks.positive(norm=norm)
        return float(norm)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PrivateClassifierFit(ClassifierMixin, PrivateEstimator):
    """The part of a classifier's fit that decides which classes there are."""

    norm: float | None
    classes: Any
    classes_: np.ndarray
    norm_: float

    def _open_with_labels(self, X: Any, y: Any) -> tuple[Any, np.ndarray, Spending]:  # noqa: N803
        """Rows, labels as numbers of `classes_`, and what is left to spend. Sets `classes_` and `norm_`."""
        x, labels = self._check_targets(X, y)
        spending = self._open(x, *np.unique(labels, return_inverse=True))
        known = self._prepare(x, labels, spending)
        self.classes_, self.norm_ = known["classes"], known["norm"]
        x, labels = self._restrict(x, labels, known)
        return x, np.searchsorted(self.classes_, labels), spending

    def _check_targets(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:  # noqa: N803
        x, labels = self._check_arrays(X, y)
        check_classification_targets(labels)
        return x, labels

    def _prepare(self, x: Any, targets: np.ndarray, spending: Spending) -> dict[str, Any]:
        wanted = int(self.classes is None) + int(self.norm is None)
        finder = Finder(spending, self.preparation, wanted) if wanted else None
        if self.classes is None:
            assert finder is not None
            classes = finder.classes(targets)
        else:
            classes = self._check_declared(np.unique(targets), spending)
        return {"classes": classes, "norm": self._find_norm(finder, x, self.norm)}

    @staticmethod
    def _restrict(x: Any, targets: np.ndarray, known: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """Turns a row whose label was not found into one of the first class without features.

        It has to stay a row, since the number of rows is public.
        """
        is_known = np.isin(targets, known["classes"])
        if is_known.all():
            return x, targets
        kept = is_known.astype(np.float64)[:, None]
        rows = sparse.csr_matrix(x.multiply(kept)) if sparse.issparse(x) else x * kept
        return rows, np.where(is_known, targets, known["classes"][0])

    def _check_declared(self, names: np.ndarray, spending: Spending) -> np.ndarray:
        if isinstance(self.classes, str):
            checks.one_of(("public",), classes=self.classes)
            spending.assumptions.append(PUBLIC_LABELS)
            classes = names
        else:
            classes = np.unique(np.asarray(self.classes))
        if len(classes) < 2:
            raise InvalidArgument(
                f"{type(self).__name__} needs at least two classes, and there is only one class.",
                remedy="Declare at least two classes, or fit on rows of at least two.",
            )
        if len(unknown := np.setdiff1d(names, classes)):
            raise InvalidArgument(
                f"The label {unknown[0]!r} is not one of the {len(classes)} declared classes.",
                remedy="Declare it as well, or remove such rows.",
            )
        return classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # With few rows, or an epsilon below 1, noise decides more than the data do.
        tags.classifier_tags.poor_score = True
        return tags
