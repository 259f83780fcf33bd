"""A multi-layer perceptron by private gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from reticent import models
from reticent.convex.descent import FullBatchWithRoom, most_rows
from reticent.core import checks
from reticent.core.keys import Stream
from reticent.data.sampling import Poisson
from reticent.mechanisms.events import Event
from reticent.models.model import Model
from reticent.sklearn.private import PrivateClassifierFit
from reticent.sklearn.private_bounds import row_norms
from reticent.sklearn.spending import Spending
from reticent.sklearn.weights import refuse_weights
from reticent.training.data_warnings import without_data_warnings
from reticent.training.execution import Execution
from reticent.training.loop import train
from reticent.training.plan import Plan

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803

_SMALL = 2000  # examples, up to which every step takes all of them
_UNLABELLED = -1  # the loss of such a row is 0


@dataclass(frozen=True, kw_only=True)
class PoissonWithRoom(Poisson):
    """Poisson batches, with room for as many rows as the coins of a search may leave."""

    @property
    def most(self) -> int:
        return most_rows(self.examples)


class PrivateMLPClassifier(PrivateClassifierFit):
    """Dense layers with tanh between them, trained by `reticent.train`.

    Args:
        hidden: the sizes of the hidden layers.
        steps, learning_rate, max_norm: of the descent; gradients are clipped to `max_norm`.
        batch_size: how many of the declared examples a step takes on average. Without one, all rows where
            at most 2000 are declared, and a thirteenth of them beyond.

    The other arguments are those of `PrivateLogisticRegression`. Rows are divided by `norm`.

    Guarantee:
        Publishing the fitted estimator costs `event_`; `guarantee_` is the sentence about it. No theorem
        bounds its risk: `excess_risk_bound_` is None.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        examples: int | None = None,
        norm: float | None = None,
        classes: Any = None,
        hidden: tuple[int, ...] = (32,),
        steps: int = 100,
        learning_rate: float = 1.0,
        max_norm: float = 1.0,
        batch_size: int | None = None,
        adjacency: str = "add-or-remove",
        preparation: float = 0.1,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.norm = norm
        self.classes = classes
        self.hidden = hidden
        self.steps = steps
        self.learning_rate = learning_rate
        self.max_norm = max_norm
        self.batch_size = batch_size
        self.adjacency = adjacency
        self.preparation = preparation
        self.random_state = random_state
        self.budget = budget

    @without_data_warnings()
    def fit(self, X: Any, y: ArrayLike, **given: Any) -> PrivateMLPClassifier:
        """Trains, and pays for it first."""
        refuse_weights(given, "PrivateMLPClassifier")
        x, codes, spending = self._open_with_labels(X, y)
        model = self._model()
        found = None if spending.is_untouched else spending.event  # what preparation released
        plan = self._plan(spending, found)
        schedule = optax.linear_schedule(self.learning_rate, 0.0, plan.steps)
        run = train(
            models.classification_loss(model),
            model.init(spending.keys.take(Stream.INITIALISATION)),
            self._data(x, codes),
            plan,
            optimizer=optax.sgd(schedule, momentum=0.9),
            budget=spending,
            keys=spending.keys,
            beside=found,
            progress_every=max(plan.steps, 1),
            execution=Execution(program=("perceptron", self._sizes, self.learning_rate)),
        )
        layers = [run.params[f"dense{number}"] for number in range(1, len(run.params) + 1)]
        self.coefs_ = [np.asarray(layer["w"], np.float64) for layer in layers]
        self.intercepts_ = [np.asarray(layer["b"], np.float64) for layer in layers]
        self.excess_risk_bound_ = None
        notes = (f"rows longer than {self.norm_:g} were shortened to it", f"{plan.steps} steps")
        self._close(spending, run.guarantee, notes)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits: for two classes the second's minus the first's, otherwise one per class."""
        check_is_fitted(self)
        x = self._check_arrays(X, reset=False)
        scores = self._inputs(x).astype(np.float64)
        for place, (weights, bias) in enumerate(zip(self.coefs_, self.intercepts_, strict=True)):
            scores = (np.tanh(scores) if place else scores) @ weights + bias
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def predict_proba(self, X: Any) -> np.ndarray:
        scores = self.decision_function(X)
        return softmax(
            np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores, axis=1
        )

    def _plan(self, spending: Spending, beside: Event | None) -> Plan:
        checks.positive(learning_rate=self.learning_rate)
        examples, batch = spending.examples, self.batch_size
        if batch is None and examples > _SMALL:
            batch = min(max(examples // 13, 64), 4096)
        spending.is_basic = spending.is_untouched
        return Plan.for_budget(
            epsilon=spending.epsilon,
            delta=spending.delta,
            sampling=FullBatchWithRoom(examples=examples)
            if batch is None
            else PoissonWithRoom(examples=examples, batch_size=batch),
            steps=self.steps,
            max_norm=self.max_norm,
            adjacency=spending.adjacency,
            beside=beside,
        )

    def _model(self) -> Model:
        return models.mlp(self._sizes, jnp.tanh)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return self.n_features_in_, *self.hidden, len(self.classes_)

    def _data(self, x: Any, codes: np.ndarray) -> dict[str, np.ndarray]:
        """Rows and labels in 32 bits; an empty table becomes one row whose gradient is zero."""
        inputs, labels = self._inputs(x), codes.astype(np.int32)
        if not len(labels):
            inputs, labels = np.zeros((1, x.shape[1]), np.float32), np.full(1, _UNLABELLED, np.int32)
        return {"x": inputs, "y": labels}

    def _inputs(self, x: Any) -> np.ndarray:
        """Rows of length at most 1."""
        lengths = np.maximum(row_norms(x), self.norm_)
        rows = x.toarray() if sparse.issparse(x) else x
        return (rows / lengths[:, None]).astype(np.float32)
