"""Fits to one batch of records after another: each is paid for, and their mean is the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight_epsilon import guarantee
from reticent.core.errors import InvalidArgument
from reticent.ledger.dataset_budget import DatasetBudget
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.sklearn.budget import ROWS_BY_THEMSELVES, SharedBudget

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803

DISJOINT = "no record is in two batches of partial_fit"


class _Till:
    """Charges the releases of one batch to the budget of all, and keeps them.

    Args:
        paid: what was charged for earlier batches; where batches are disjoint, the same again costs nothing.
    """

    takes_assumptions = True

    def __init__(self, budget: Any, paid: tuple[Event, ...], *, is_disjoint: bool) -> None:
        self._budget, self._more = budget, (DISJOINT,) if is_disjoint else ()
        self._unused = list(paid) if is_disjoint else []
        self.charged: list[Event] = []

    def charge(
        self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Any, assumptions: tuple[str, ...]
    ) -> None:
        told, terms = (*assumptions, *self._more), {"adjacency": adjacency, "purpose": purpose, "unit": unit}
        if event in self._unused:
            self._unused.remove(event)
        else:
            if isinstance(self._budget, DatasetBudget):
                self._budget.charge(event, **terms, assumptions=told)
            elif self._budget is not None:
                self._budget.charge(event, **terms)
            self.charged.append(event)
        if isinstance(self._budget, SharedBudget):
            self._budget.assume(line for line in told if line != ROWS_BY_THEMSELVES)

    def __sklearn_clone__(self) -> _Till:
        return self


class PartialFits:
    """`partial_fit` for a linear classifier: the mean of one private fit per batch.

    Guarantee:
        What is published is a function of all fits so far. Their releases compose, and `guarantee_` is about
        all of them, at a delta that is the sum of theirs. With `disjoint=True` a record is in one batch, so a
        neighbour changes one fit, and the others are the same or follow from it. Then releases that are alike
        are charged once for all batches: at any batch they cost no more than what was charged.
    """

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, disjoint: bool = False) -> Any:
        """Fits one more batch with an epsilon of its own, and pays for it first.

        The coefficients are the mean over all batches, each weighted by its declared number of records.

        Args:
            classes: all labels that any batch may have; needed in the first call unless the estimator has
                them.
            disjoint: declares that no record is in two batches, as `guarantee_` then says. Batches then
                cost the most that one of them costs, and not their sum. The same for all calls.

        Raises:
            BudgetExceeded: the budget does not cover it; the model stays as it was.
            InvalidArgument: other classes, or another `disjoint`, than in the first call.
        """
        batch = self._batch_model(X, classes, is_disjoint=disjoint)
        till = _Till(batch.budget, self._paid, is_disjoint=disjoint)
        batch.set_params(budget=till).fit(X, y)
        weight = float(batch.examples if batch.examples is not None else np.shape(y)[0])
        share = weight / (self._weight + weight)
        for name in ("coef_", "intercept_"):
            old = getattr(self, name) if self._weight else 0.0
            setattr(self, name, old + share * (getattr(batch, name) - old))
        for name in ("classes_", "norm_", "method_", "n_features_in_", "feature_names_in_"):
            if hasattr(batch, name):
                setattr(self, name, getattr(batch, name))
        self._partial = {
            "weight": self._weight + weight,
            "paid": (*self._paid, *till.charged),
            "is_disjoint": disjoint,
            "guarantees": (*self._guarantees, batch.guarantee_),
            "batches": len(self._guarantees) + 1,
        }
        self.excess_risk_bound_ = None
        self.event_ = self._paid[0] if len(self._paid) == 1 else Composed(events=self._paid)
        self.guarantee_ = self._guarantee_of_all()
        self.notes_ = (f"the mean of {len(self._guarantees)} batches", *batch.notes_)
        return self

    def _batch_model(self, X: Any, classes: ArrayLike, *, is_disjoint: bool) -> Any:
        state = getattr(self, "_partial", None)
        model: Any = clone(self)
        if is_disjoint and model.adjacency != Adjacency.ADD_OR_REMOVE.value:
            raise InvalidArgument(
                f"Under {model.adjacency} a record may leave one batch while another enters a second one.",
                remedy="Use adjacency='add-or-remove', or leave out disjoint.",
            )
        if state is None:
            return model if classes is None else model.set_params(classes=np.unique(np.asarray(classes)))
        self._check_arrays(X, reset=False)  # pyright: ignore[reportAttributeAccessIssue]
        known = self.classes_  # pyright: ignore[reportAttributeAccessIssue]
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
            raise InvalidArgument(
                f"The first batch declared {len(known)} classes, and this one declares others.",
                remedy="Pass the same classes each time, or leave them out.",
            )
        if state["is_disjoint"] != is_disjoint:
            raise InvalidArgument(
                f"The first batch declared disjoint={state['is_disjoint']}.",
                remedy="Pass the same to each call.",
            )
        return model.set_params(classes=known)

    @property
    def _weight(self) -> float:
        return getattr(self, "_partial", {}).get("weight", 0.0)

    @property
    def _paid(self) -> tuple[Event, ...]:
        return getattr(self, "_partial", {}).get("paid", ())

    @property
    def _guarantees(self) -> tuple[Guarantee, ...]:
        return getattr(self, "_partial", {}).get("guarantees", ())

    def _guarantee_of_all(self) -> Guarantee:
        parts, is_disjoint = self._guarantees, self._partial["is_disjoint"]
        said = dict.fromkeys(line for part in parts for line in part.assumptions)
        if len(parts) == 1:
            return parts[0]
        more = (ROWS_BY_THEMSELVES, *((DISJOINT,) if is_disjoint else ()))
        assumptions = (*said, *(line for line in more if line not in said))
        near = parts[0].adjacency
        if is_disjoint:
            return Guarantee(
                epsilon=max(part.epsilon for part in parts),
                delta=max(part.delta for part in parts),
                adjacency=near,
                accountant="the costliest of disjoint batches",
                assumptions=assumptions,
            )
        delta = math.fsum(part.delta for part in parts)
        if delta > 0:
            return guarantee(self.event_, delta, near, assumptions=assumptions)
        return Guarantee(
            epsilon=math.fsum(part.epsilon for part in parts),
            delta=0.0,
            adjacency=near,
            accountant="basic composition",
            assumptions=assumptions,
        )
