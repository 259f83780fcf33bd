"""reticent: private machine learning on JAX.

The public page. Every name here is loaded on first use, so that `import reticent` and
`reticent --help` stay instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reticent.core.errors import BudgetExceeded as BudgetExceeded
    from reticent.core.errors import ReticentError as ReticentError
    from reticent.core.keys import Keys as Keys

# name -> the module that defines it
_HOMES = {
    "BudgetExceeded": "reticent.core.errors",
    "ReticentError": "reticent.core.errors",
    "Keys": "reticent.core.keys",
}

__all__ = ["BudgetExceeded", "Keys", "ReticentError", "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'reticent' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
