"""PATE as a scikit-learn estimator: any classifier teaches, and the same kind of classifier learns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from reticent.accounting.theorems import gaussian_dp
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator
from reticent.core.keys import Stream
from reticent.pate import Questions, Teller, Votes
from reticent.pate.allowance import about_samplers, allowance_of, multiplier_for, release_of
from reticent.pate.asking import choose_far_apart, choose_settings
from reticent.pate.learning import learn
from reticent.pate.partition import partition, shard_capacity
from reticent.pate.scaling import PoolScale
from reticent.pate.teachers import teach_estimators
from reticent.sklearn.private import PrivateClassifierFit
from reticent.sklearn.spending import Spending
from reticent.sklearn.weights import refuse_weights

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803

_MADE_UP = 500  # rows, where no public ones are given
_ROWS_EACH = 20
_MOST_TEACHERS = 250
_OTHER = -1  # the code of a label that is not a class


class PateClassifier(PrivateClassifierFit):
    """Many classifiers on disjoint parts of the rows vote on public rows; one learns from the noisy answers.

    Args:
        estimator: the classifier that teachers and student are clones of; logistic regression unless given.
        public: unlabelled public rows with the same columns: the student sees only these.
            Without them rows are made up, evenly in all directions up to `norm`: far worse than real ones.
        teachers: how many. Without a number, one for every twenty examples, at most 250.
        classes: all labels there may be, in the type that y has. A row with any other label teaches nobody.

    The other arguments are those of `PrivateLogisticRegression`.

    Guarantee:
        Publishing the fitted estimator costs `event_`; `guarantee_` is the sentence about it, and holds
        whatever the votes are. A row teaches one teacher, by a coin of its own, so replacing, adding or
        removing it moves at most one vote. Labels are read once the budget has paid for reading them, and
        none of them decides whether there is an error; where the set of them counts as public, it is read
        before, and `guarantee_` says so. No theorem bounds its risk: `excess_risk_bound_` is None.
    """

    student_: Any

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        estimator: Any = None,
        public: Any = None,
        teachers: int | None = None,
        examples: int | None = None,
        norm: float | None = None,
        classes: Any = None,
        adjacency: str = "add-or-remove",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.estimator = estimator
        self.public = public
        self.teachers = teachers
        self.examples = examples
        self.norm = norm
        self.classes = classes
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PateClassifier:
        """Pays, trains teachers, asks them, and fits the student."""
        refuse_weights(given, "PateClassifier")
        x, labels = self._check_targets(X, y)
        spending = self._open(x, labels)
        if spending.delta == 0:
            raise InvalidArgument(
                "Answers have Gaussian noise, which needs a delta above 0.",
                remedy="Leave delta out, or use reticent.pate.LaplaceMax for pure differential privacy.",
            )
        known = self._prepare(x, labels, spending)
        self.classes_, self.norm_ = known["classes"], known["norm"]
        public = self._pool(spending)
        scale = PoolScale.of(public)
        pool = scale(public)
        teachers = self._teachers(spending.examples)
        multiplier = multiplier_for(
            epsilon=spending.epsilon,
            delta=spending.delta,
            beside=None if spending.is_untouched else spending.event,
            adjacency=spending.adjacency,
        )
        spending.is_basic = spending.is_untouched
        spending.pay(release_of(multiplier, spending.adjacency), "PATE")
        epsilon = gaussian_dp.epsilon(1 / multiplier, spending.delta)
        chosen = choose_settings(teachers, len(self.classes_), len(pool), epsilon, spending.delta)
        noise = chosen.aggregator
        teller = Teller(noise, allowance_of(noise, multiplier), spending.keys)
        rows = scale(x.toarray() if sparse.issparse(x) else x)
        codes = code_labels(labels, self.classes_)
        shards = partition(
            len(codes),
            teachers,
            examples=spending.examples,
            seed=generator(spending.keys, stream=Stream.SAMPLING),
            content=(rows, codes),
        )
        taught = teach_estimators(self._learner(), shards, rows, codes, classes=len(self.classes_))
        votes = Votes.of_labels(taught.vote(pool), classes=len(self.classes_))
        answers = teller.answer(votes, Questions(rows=choose_far_apart(pool, chosen.queries, seed=0)))
        student = learn(
            pool,
            answers.questions.rows,
            answers.evidence,
            classes=len(self.classes_),
            teachers=teachers,
            sigma=chosen.sigma_vote,
        )
        self._learn(public, student.shares)
        self.excess_risk_bound_ = None
        notes = (
            f"{teachers} teachers answered {len(answers)} questions about {len(pool)} "
            f"{'made-up' if self.public is None else 'public'} rows",
        )
        if self.public is not None:
            spending.assumptions.append("the public rows are public")
        spending.assumptions.extend(about_samplers(chosen.queries * len(self.classes_)))
        self._close(spending, None, notes)
        return self

    def _learner(self) -> Any:
        return LogisticRegression(C=10.0, max_iter=200) if self.estimator is None else self.estimator

    def _pool(self, spending: Spending) -> np.ndarray:
        """Public rows; or made-up ones, from the keys of nothing else."""
        if self.public is None:
            source = generator(spending.keys, stream=Stream.INITIALISATION)
            drawn = source.standard_normal((_MADE_UP, self.n_features_in_))
            lengths = self.norm_ * source.random((_MADE_UP, 1))
            return drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-12) * lengths
        pool = np.asarray(check_array(self.public), np.float64)
        if pool.shape[1] != self.n_features_in_:
            raise InvalidArgument(
                f"The public rows have {pool.shape[1]} columns, and X has {self.n_features_in_}.",
                remedy="Give both the same columns, in the same order.",
            )
        return pool

    def _check_targets(self, X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
        """Checks the rows, and of the labels their number and type alone."""
        if self._takes_classes:
            return super()._check_targets(X, y)
        if y is None:
            raise InvalidArgument(
                "PateClassifier requires y to be passed, but the target y is None.",
                remedy="Pass one label per row.",
            )
        x, labels = self._check_arrays(X), _as_labels(y)
        check_consistent_length(x, labels)
        return x, labels

    def _check_declared(self, labels: np.ndarray, spending: Spending) -> np.ndarray:
        classes = self._declared_classes(labels, spending)
        if labels.dtype != object and _are_words(labels) != _are_words(classes):
            words, numbers = "the labels are words", "the declared classes are numbers"
            if _are_words(classes):
                words, numbers = "the declared classes are words", "the labels are numbers"
            raise InvalidArgument(
                f"Here {words} and {numbers}.", remedy="Declare the classes in the type that y has."
            )
        return classes

    @staticmethod
    def _restrict(x: Any, targets: np.ndarray, known: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """All rows: one whose label is not a class teaches nobody."""
        return x, targets

    def _teachers(self, examples: int) -> int:
        """How many, from public numbers alone."""
        count = self.teachers
        if count is None:
            count = min(max(examples // _ROWS_EACH, 2), _MOST_TEACHERS)
        shard_capacity(examples, count)  # refuses what cannot be divided
        return count

    def _learn(self, pool: np.ndarray, shares: np.ndarray) -> None:
        """The student: a clone that sees the pool, each row with its likeliest class and how sure that is."""
        labels, sure = shares.argmax(axis=1), shares.max(axis=1)
        if len(np.unique(labels)) == 1:
            self.student_ = DummyClassifier(strategy="most_frequent").fit(pool, labels)
            return
        student: Any = clone(self._learner())
        try:
            self.student_ = student.fit(pool, labels, sample_weight=sure)
        except TypeError:  # one that knows no weights
            self.student_ = student.fit(pool, labels)

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.classes_[self.student_.predict(self._rows(X))]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the student; if it has none, 1 for the class it predicts."""
        check_is_fitted(self)
        rows = self._rows(X)
        shares = np.zeros((len(rows), len(self.classes_)))
        if hasattr(self.student_, "predict_proba"):
            shares[:, self.student_.classes_] = self.student_.predict_proba(rows)
        else:
            shares[np.arange(len(rows)), self.student_.predict(rows)] = 1
        return shares

    def _rows(self, X: Any) -> np.ndarray:
        x = self._check_arrays(X, reset=False)
        return x.toarray() if sparse.issparse(x) else x


def code_labels(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The place of each label among the sorted classes, and -1 for any other: no label raises."""
    if labels.dtype == object:
        place_of = {name: place for place, name in enumerate(classes.tolist())}
        return np.array([place_of.get(_hashable(label), _OTHER) for label in labels], np.int64)
    places = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[places] == labels, places, _OTHER)


def _as_labels(y: Any) -> np.ndarray:  # (rows,)
    """Labels as they are: in a list, one word would turn all numbers beside it into words."""
    if hasattr(y, "dtype") or hasattr(y, "__array__"):
        return column_or_1d(np.asarray(y), warn=True)
    return np.fromiter(y, object, count=len(y))


def _hashable(label: Any) -> Any:
    try:
        hash(label)
    except TypeError:
        return None
    return label


def _are_words(labels: np.ndarray) -> bool:
    """Whether labels are words, by the type of the array without its width: the longest word is private."""
    return labels.dtype.kind in "US"
