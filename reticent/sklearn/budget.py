"""A budget in memory that several fits share: what `cross_val_score` or a pipeline spends is added up."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from reticent.accounting.budget import ROWS_BY_THEMSELVES
from reticent.accounting.guarantee import Guarantee, Unit
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.rounding import at_most
from reticent.accounting.tight_epsilon import cost_within, guarantee
from reticent.core import checks
from reticent.core.errors import BudgetExceeded, InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event


class SharedBudget:
    """A limit for all fits that use it. Clones of an estimator share it; other processes do not.

    Guarantee:
        Everything charged to it is, as a planned composition, within (epsilon, delta). For releases that
        are chosen by looking at results, or fitted in several processes, use a `Ledger`. A record is in
        several fits, and each has to differ in that record alone: folds by position or by the labels of
        others move more. Where there are several releases, `guarantee` names this as an assumption. Folds by
        coins fulfil it: `cv=PredefinedSplit(np.random.default_rng().integers(5, size=len(y)))`.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> budget = SharedBudget(epsilon=2.0, delta=1e-6)
        >>> budget.charge(Gaussian(noise_multiplier=5.0), adjacency=budget.adjacency, purpose="a mean")
        >>> budget.guarantee().epsilon < 2
        True
    """

    def __init__(self, *, epsilon: float, delta: float, adjacency: str = "add-or-remove") -> None:
        checks.positive(epsilon=epsilon)
        checks.inside_unit(delta=delta)
        checks.one_of([item.value for item in Adjacency], adjacency=adjacency)
        self.epsilon, self.delta, self.adjacency = epsilon, delta, Adjacency(adjacency)
        self._spent: list[Event] = []
        self._assumed: dict[str, None] = {}  # in the order in which they came, each once
        self._guard = threading.Lock()
        self._is_copy = False

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Unit = "record") -> None:
        """Records a release before it is made.

        Raises:
            BudgetExceeded: it does not fit; nothing was recorded.
            InvalidArgument: it is accounted for between other neighbours, or this is another process.
        """
        if self._is_copy:
            raise InvalidArgument(
                "This budget belongs to another process, and cannot be charged from here.",
                remedy="Fit with n_jobs=1, or share a ledger: ledger = rt.Ledger.create('fits.ledger'); "
                "ledger.limit('data', epsilon=..., delta=...); budget=ledger.for_dataset('data').",
            )
        if adjacency is not self.adjacency or unit != "record":
            raise InvalidArgument(
                f"This budget is for {self.adjacency.value} of a record, and '{purpose}' is accounted for "
                f"under {adjacency.value} of a {unit}.",
                remedy="Give the estimator and the budget the same adjacency.",
            )
        with self._guard:
            after = Composed(events=(*self._spent, event))
            cost = cost_within(after, self.epsilon, self.delta, Neighbours(self.adjacency))
            if not cost <= self.epsilon:  # NaN too
                raise BudgetExceeded(
                    f"'{purpose}' would take this budget to epsilon {at_most(cost)} of {self.epsilon:g}; "
                    f"{len(self._spent)} releases are charged. Nothing was recorded.",
                    remedy="Fit fewer times, with a smaller epsilon, or set a higher limit beforehand.",
                )
            self._spent.append(event)

    def assume(self, assumptions: Iterable[str]) -> None:
        """Records what the proof of a charge assumes; called by estimators."""
        with self._guard:
            self._assumed.update(dict.fromkeys(assumptions))

    def guarantee(self) -> Guarantee:
        """The guarantee of everything charged so far, with all its assumptions."""
        with self._guard:
            spent, assumed = tuple(self._spent), tuple(self._assumed)
        if len(spent) > 1:
            assumed = (*assumed, ROWS_BY_THEMSELVES)
        return guarantee(Composed(events=spent), self.delta, self.adjacency, assumptions=assumed)

    def __sklearn_clone__(self) -> SharedBudget:
        return self

    def __copy__(self) -> SharedBudget:
        return self

    def __deepcopy__(self, memo: Any) -> SharedBudget:
        return self

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key != "_guard"}
        return kept | {"_is_copy": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _guard=threading.Lock())

    def __repr__(self) -> str:
        return f"SharedBudget(epsilon={self.epsilon:g}, delta={self.delta:g}, adjacency='{self.adjacency}')"
