"""What linear models share: one call of private convex minimisation, paid for as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from reticent.convex import Fit, fit
from reticent.convex.losses import Loss
from reticent.convex.weighted import weigh
from reticent.core.keys import Keys
from reticent.mechanisms.events import Event, Repeated
from reticent.sklearn.private import PrivateEstimator
from reticent.sklearn.spending import PrepaidBudget, Spending, keys_for, quote_cost

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803


_OF_DELTA = 0.9  # for a fit that is not alone: the rest is room for accounting all together


class LinearFit(PrivateEstimator):
    """What the three linear models share: the call of `reticent.convex.fit`."""

    method: str
    fit_intercept: bool
    regularisation: float | None
    radius: float | None
    coef_: np.ndarray
    intercept_: Any
    method_: str

    def _minimise(
        self,
        loss: Loss,
        x: Any,
        targets: list[np.ndarray],
        norm: float,
        spending: Spending,
        weights: np.ndarray | None = None,
    ) -> list[Fit]:
        """One fit for each of the targets, paid all at once, each with noise of its own.

        Args:
            weights: of the records, from 0 to 1; None where all count the same.
        """
        if weights is not None:
            loss = weigh(loss)
            targets = [np.column_stack([target, weights]) for target in targets]
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
                examples=spending.examples,
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
        nothing, no_targets = sparse.csr_matrix(x.shape), np.zeros(targets[0].shape)

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
