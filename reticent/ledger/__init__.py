"""What each dataset may spend and has spent: one file, append-only, shared by any number of processes.

chain       entries, each holding the hash of the one before
store       the SQLite file: its schema, its transactions, its errors in our words
accounts    the entries read as accounts of datasets
cost        what an account has spent, and what would still fit
fingerprint the content of a dataset, as a keyed hash
ledger      `Ledger`, and the budget of one dataset that training is handed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.ledger.cost import Remaining as Remaining
    from reticent.ledger.ledger import DatasetBudget as DatasetBudget
    from reticent.ledger.ledger import Ledger as Ledger
    from reticent.ledger.ledger import Receipt as Receipt

open_page(__name__)
