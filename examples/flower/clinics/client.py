"""A client: a SuperNode calls it for every message."""

from __future__ import annotations

from typing import Any

import reticent as rt
from clinics import task


def own_rows(context: Any) -> Any:
    return task.patients(context.node_config["client"])


app = rt.federated.flower.client_app(task.loss, task.start(), task.PLAN, rows=own_rows)
