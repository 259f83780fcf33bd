"""reticent: private machine learning on JAX.

The public page. Every name here is loaded on first use, so that `import reticent` and
`reticent --help` stay instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reticent import audit as audit
    from reticent import convex as convex
    from reticent import distributed as distributed
    from reticent import pate as pate
    from reticent import synthetic as synthetic
    from reticent.accounting.epsilon import guarantee as guarantee
    from reticent.accounting.epsilon import tight as tight
    from reticent.accounting.guarantee import Guarantee as Guarantee
    from reticent.core.errors import BudgetExceeded as BudgetExceeded
    from reticent.core.errors import ReticentError as ReticentError
    from reticent.core.keys import Keys as Keys
    from reticent.data.dataset import Dataset as Dataset
    from reticent.data.domain import Domain as Domain
    from reticent.ledger.ledger import Ledger as Ledger
    from reticent.mechanisms.adjacency import Adjacency as Adjacency
    from reticent.training.loop import train as train
    from reticent.training.plan import Plan as Plan

# name -> the module that defines it, or the package it is a part of
_HOMES = {
    "Adjacency": "reticent.mechanisms.adjacency",
    "BudgetExceeded": "reticent.core.errors",
    "Dataset": "reticent.data.dataset",
    "Domain": "reticent.data.domain",
    "Guarantee": "reticent.accounting.guarantee",
    "Keys": "reticent.core.keys",
    "Ledger": "reticent.ledger.ledger",
    "Plan": "reticent.training.plan",
    "ReticentError": "reticent.core.errors",
    "audit": "reticent",
    "convex": "reticent",
    "distributed": "reticent",
    "guarantee": "reticent.accounting.epsilon",
    "pate": "reticent",
    "synthetic": "reticent",
    "tight": "reticent.accounting.epsilon",
    "train": "reticent.training.loop",
}

__all__ = [
    "Adjacency",
    "BudgetExceeded",
    "Dataset",
    "Domain",
    "Guarantee",
    "Keys",
    "Ledger",
    "Plan",
    "ReticentError",
    "__version__",
    "audit",
    "convex",
    "distributed",
    "guarantee",
    "pate",
    "synthetic",
    "tight",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'reticent' has no attribute '{name}'")
    home = _HOMES[name]
    if home == "reticent":  # a part of the package itself
        return importlib.import_module(f"reticent.{name}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
