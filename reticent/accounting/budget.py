"""What training needs of a ledger: a place to pay before noise is drawn."""

from __future__ import annotations

from typing import Protocol

from reticent.accounting.guarantee import Unit
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

ROWS_BY_THEMSELVES = "whether a row is passed to a fit depends on no other row"


class Budget(Protocol):
    """A limit that releases are charged against.

    If it has a string `account`, the name of no other account, a run that is resumed in another process knows
    by it that it has paid. Without one, it is charged again there.
    """

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Unit) -> object:
        """Records the whole cost of an event before anything of it is released.

        What it returns, if anything, is for the caller's own records.

        Args:
            unit: whose privacy the event accounts for.

        Raises:
            BudgetExceeded: it does not fit; nothing was recorded.
        """
        ...
