"""The parts of Flower that are used here, imported when they are needed, with its telemetry off.

Flower reads these two variables when it is imported, and a process that it starts inherits them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from reticent.core.errors import Unavailable

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1")


def _part(name: str) -> Any:
    try:
        return importlib.import_module(f"flwr.{name}")
    except ImportError:
        raise Unavailable(
            "Federated learning over a network needs the package 'flwr', which is not installed.",
            remedy="Install it: pip install 'reticent[flower]'",
        ) from None


app = _part("app")
clientapp = _part("clientapp")
serverapp = _part("serverapp")
strategies = _part("serverapp.strategy")
identity = _part("supercore.task_identity")
if os.environ["FLWR_TELEMETRY_ENABLED"] == "0":  # where Flower was imported before
    _part("supercore.telemetry").FLWR_TELEMETRY_ENABLED = "0"

QUERY, TRAIN = "query.reticent", "train.reticent"
WHO, ROUND, MODEL, UPDATE = "reticent.client", "reticent.round", "reticent.model", "reticent.update"
