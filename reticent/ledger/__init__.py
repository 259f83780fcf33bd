"""What each dataset may spend and has spent: an append-only chain, shared by any number of processes.

chain           entries, each holding the hash of the one before
owner           the key that signs limits, where a ledger has an owner
storage         where entries are kept: a SQLite file, or a PostgreSQL database
address         the name of that place, without a password
names           of datasets: those that look alike are one, or refused
accounts        the entries read as accounts of datasets
cost            what an account has spent, and what would still fit
rules           what a limit may become, and on which terms a release is charged
fingerprint     the content of a dataset, as a keyed hash
dataset_budget  the budget of one dataset that training is handed
verification a whole ledger checked from its first entry to its last
ledger          `Ledger`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.ledger.cost import Remaining as Remaining
    from reticent.ledger.dataset_budget import DatasetBudget as DatasetBudget
    from reticent.ledger.dataset_budget import Receipt as Receipt
    from reticent.ledger.ledger import Ledger as Ledger
    from reticent.ledger.owner import OwnerKey as OwnerKey

open_page(__name__)
