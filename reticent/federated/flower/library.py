"""The parts of Flower that are used here, imported when they are needed, with its telemetry off.

Flower reads these two variables when it is imported, and a process that it starts inherits them.
"""

from __future__ import annotations

import os
from typing import Any

from reticent.core.errors import Unavailable

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1")
try:
    import flwr.app  # type: ignore[import-not-found]
    import flwr.clientapp  # type: ignore[import-not-found]
    import flwr.serverapp  # type: ignore[import-not-found]
    import flwr.serverapp.strategy  # type: ignore[import-not-found]
    from flwr.supercore import task_identity, telemetry  # type: ignore[import-not-found]
except ImportError:
    raise Unavailable(
        "Federated learning over a network needs the package 'flwr', which is not installed.",
        remedy="Install it: pip install 'reticent[flower]'",
    ) from None
if os.environ["FLWR_TELEMETRY_ENABLED"] == "0":  # where Flower was imported before
    telemetry.FLWR_TELEMETRY_ENABLED = "0"

app: Any = flwr.app
clientapp: Any = flwr.clientapp
serverapp: Any = flwr.serverapp
strategies: Any = flwr.serverapp.strategy
identity: Any = task_identity

QUERY, TRAIN = "query.reticent", "train.reticent"
WHO, ROUND, MODEL, UPDATE = "reticent.client", "reticent.round", "reticent.model", "reticent.update"
