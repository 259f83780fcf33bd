"""What all private estimators share: opening a fit with a budget, closing it with a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from reticent.accounting.guarantee import Guarantee
from reticent.convex.descent import most_rows
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.sklearn.notices import warn_of_public_labels
from reticent.sklearn.private_bounds import Finder
from reticent.sklearn.spending import Spending, check_budget, keys_for

PUBLIC_LABELS = "the set of labels is public: it was taken from y"


def declared_examples(examples: int | None, x: Any) -> int:
    """The declared number of records; without one the number of rows, which then counts as public.

    Raises:
        InvalidArgument: there are so many rows that the declaration cannot be meant; nothing was paid.
    """
    if examples is None:
        return x.shape[0]
    checks.count(examples=examples)
    if x.shape[0] > most_rows(examples):
        raise InvalidArgument(
            f"examples={examples}, and X has {x.shape[0]:,} rows.",
            remedy="Declare the public number of records; some rows more or fewer do not matter.",
        )
    return examples


class PrivateEstimator(BaseEstimator):
    """An estimator whose fit costs privacy.

    After a fit: `guarantee_`, the sentence that may be printed; `event_`, what was released; `notes_`.
    Parameters that are named here are set by the constructors of the subclasses.

    Guarantee:
        Neighbours may have a different number of rows, and the same number of records is declared for both:
        `examples`, or the number of rows in X where there is none. `guarantee_` names it as public. Sums are
        divided by it, and everything that is decided before noise is drawn follows from it.
    """

    epsilon: float
    delta: float | None
    examples: int | None
    adjacency: str
    preparation: float
    random_state: Any
    budget: Any
    event_: Any
    guarantee_: Guarantee
    notes_: tuple[str, ...]
    excess_risk_bound_: float | None
    n_features_in_: int
    _fewest_rows = 1  # in a fit; a search, whose coins may leave none, sets 0

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
            examples=declared_examples(self.examples, x),
            keys=keys,
            budget=self.budget,
            data=(x, *targets),
            owner=type(self).__name__,
        )

    def _close(self, spending: Spending, proved: Guarantee | None, notes: tuple[str, ...]) -> None:
        self.event_ = spending.event
        self.guarantee_ = spending.guarantee(proved)
        self.notes_ = notes

    def _check_arrays(self, *arrays: Any, **more: Any) -> Any:
        """The arrays as float64 matrices, dense or in compressed rows; with a y, both."""
        fewest = self._fewest_rows if more.get("reset", True) else 1
        return validate_data(
            self, *arrays, accept_sparse="csr", dtype=np.float64, ensure_min_samples=fewest, **more
        )

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

    def _open_with_labels(
        self,
        X: Any,  # noqa: N803
        y: ArrayLike,
        weights: np.ndarray | None = None,
    ) -> tuple[Any, np.ndarray, Spending]:
        """Rows, labels as numbers of `classes_`, and what is left to spend. Sets `classes_` and `norm_`."""
        x, labels = self._check_targets(X, y)
        spending = self._open(x, labels, *(() if weights is None else (weights,)))
        known = self._prepare(x, labels, spending)
        self.classes_, self.norm_ = known["classes"], known["norm"]
        x, labels = self._restrict(x, labels, known)
        return x, np.searchsorted(self.classes_, labels), spending

    def _check_targets(self, X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:  # noqa: N803
        x, labels = self._check_arrays(X, y)
        if len(labels):
            check_classification_targets(labels)
        return x, labels

    def _prepare(self, x: Any, targets: np.ndarray, spending: Spending) -> dict[str, Any]:
        wanted = int(self._finds_classes) + int(self.norm is None)
        finder = Finder(spending, self.preparation, wanted) if wanted else None
        classes = self._find_classes(finder, targets, spending)
        return {"classes": classes, "norm": self._find_norm(finder, x, self.norm)}

    @property
    def _finds_classes(self) -> bool:
        return isinstance(self.classes, str) and self.classes == "private"

    @property
    def _takes_classes(self) -> bool:
        """Whether the set of labels in y counts as public."""
        return self.classes is None or (isinstance(self.classes, str) and self.classes == "public")

    def _find_classes(self, finder: Finder | None, labels: np.ndarray, spending: Spending) -> np.ndarray:
        if not self._finds_classes:
            return self._check_declared(labels, spending)
        assert finder is not None
        return finder.classes(labels)

    @staticmethod
    def _restrict(x: Any, targets: np.ndarray, known: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """Turns a row whose label was not found into one of the first class without features.

        Each row by itself: so neighbours still differ in one row.
        """
        is_known = np.isin(targets, known["classes"])
        if is_known.all():
            return x, targets
        kept = is_known.astype(np.float64)[:, None]
        rows = sparse.csr_matrix(x.multiply(kept)) if sparse.issparse(x) else x * kept
        return rows, np.where(is_known, targets, known["classes"][0])

    def _check_declared(self, labels: np.ndarray, spending: Spending) -> np.ndarray:
        classes = self._declared_classes(labels, spending)
        if len(unknown := np.setdiff1d(labels, classes)):
            raise InvalidArgument(
                f"The label {unknown.tolist()[0]!r} is not one of the {len(classes)} declared classes.",
                remedy="Declare it as well, or remove such rows.",
            )
        return classes

    def _declared_classes(self, labels: np.ndarray, spending: Spending) -> np.ndarray:
        """The classes, sorted; the labels are looked at only if the set of them is said to be public."""
        if isinstance(self.classes, str):
            checks.one_of(("public", "private"), classes=self.classes)
        if self._takes_classes:
            spending.assumptions.append(PUBLIC_LABELS)
            classes = np.unique(labels)
            if self.classes is None:
                warn_of_public_labels(type(self).__name__)
        else:
            classes = np.unique(np.asarray(self.classes))
        if len(classes) < 2:
            raise InvalidArgument(
                f"{type(self).__name__} needs at least two classes, and there is only one class.",
                remedy="Declare at least two classes, or fit on rows of at least two.",
            )
        return classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # With few rows, or an epsilon below 1, noise decides more than the data do.
        tags.classifier_tags.poor_score = True
        return tags
