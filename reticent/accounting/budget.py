"""What training needs of a ledger: a place to pay before noise is drawn."""

from __future__ import annotations

from typing import Protocol

from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


class Budget(Protocol):
    """A limit that releases are charged against."""

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str) -> object:
        """Records the whole cost of an event before anything of it is released.

        What it returns, if anything, is for the caller's own records.

        Raises:
            BudgetExceeded: it does not fit; nothing was recorded.
        """
        ...
