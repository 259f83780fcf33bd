"""The budget of one dataset, which training and everything else that pays first is handed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reticent.accounting.guarantee import Guarantee, Unit
from reticent.ledger import cost
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

if TYPE_CHECKING:
    from reticent.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A charge that is on disk: the entry that holds it."""

    dataset: str
    sequence: int
    time: str
    hash: str


class DatasetBudget:
    """The budget of one dataset: implements `accounting.budget.Budget`."""

    def __init__(self, ledger: Ledger, name: str, *, fingerprint: str | None, unit: Unit | None) -> None:
        self.ledger, self.name = ledger, name
        self._fingerprint = fingerprint
        self._unit: Unit | None = unit

    def __repr__(self) -> str:
        return f"DatasetBudget('{self.name}' in '{self.ledger.address}')"

    @property
    def account(self) -> str:
        """Which account of which ledger: the same in every process, wherever the ledger is moved to."""
        return f"{self.ledger.id} {self.name}"

    def __copy__(self) -> DatasetBudget:
        return self

    def __deepcopy__(self, memo: Any) -> DatasetBudget:
        return self  # a copy of what holds it spends from the same account

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, the same account of the same ledger; a password is not part of it."""
        return _open_budget, (str(self.ledger.address), self.name, self._fingerprint, self._unit)

    def charge(
        self,
        event: Event,
        *,
        adjacency: Adjacency,
        purpose: str,
        unit: Unit | None = None,
        assumptions: Iterable[str] = (),
    ) -> Receipt:
        """Records the whole cost of a release, before any noise of it is drawn.

        Read and written in one transaction, so that charges of other processes come before or after it.
        When this returns, the charge is on disk.

        Args:
            adjacency: between which neighbours the release is private; has to be that of the limit.
            purpose: one line, for whoever reads the ledger.
            unit: whose privacy the release accounts for, where the budget was made without saying so.
            assumptions: of its proof, one line each. `guarantee` names them from then on.

        Raises:
            BudgetExceeded: it does not fit, and what would; nothing was recorded.
            Unproven: there is no theorem about its cost under this adjacency.
            InvalidArgument, DataError: other terms, or other data, than the dataset was entered with.
            Unavailable, IntegrityError: the ledger is locked, read-only, damaged, or its disk is full.
            OutcomeUnknown: a database's answer was lost; see `Ledger.has_charge`.
        """
        return self.ledger._charge(
            self.name,
            event,
            adjacency=adjacency,
            purpose=purpose,
            unit=unit or self._unit,
            fingerprint=self._fingerprint,
            assumptions=tuple(dict.fromkeys(assumptions)),
        )

    def guarantee(self) -> Guarantee:
        """What everything that was charged so far promises, taken together."""
        return cost.guarantee(self.ledger.account(self.name))

    def remaining(self) -> cost.Remaining:
        """What would still fit."""
        return cost.remaining(self.ledger.account(self.name))


def _open_budget(address: str, name: str, fingerprint: str | None, unit: Unit | None) -> DatasetBudget:
    from reticent.ledger.ledger import Ledger

    return Ledger.open(address).for_dataset(name, fingerprint=fingerprint, unit=unit)
