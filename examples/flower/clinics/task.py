"""What server and clients agree on: the clients, the model, the loss, the plan. The data are made up."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import reticent as rt

CLINICS = ["clinic-0", "clinic-1", "clinic-2"]
ROWS = 40  # of a clinic, at most
WEIGHTS = np.array([2.0, -1.0, 0.5, 0.0], np.float32)
PLAN = rt.federated.FederatedPlan.for_budget(
    epsilon=8,
    delta=1e-3,
    clients=len(CLINICS),
    rounds=3,
    sampling="full",
    max_norm=1.0,
    rows_per_client=ROWS,
    local=rt.federated.LocalTraining(learning_rate=0.5, epochs=2, batch_size=10),
)


def start() -> Any:
    return {"w": jnp.zeros(4), "b": jnp.zeros(())}


def loss(params: Any, row: Any) -> Any:
    return jnp.logaddexp(0, -(2 * row["y"] - 1) * (row["x"] @ params["w"] + params["b"]))


def patients(clinic: str) -> dict[str, np.ndarray]:
    """The rows of one clinic; a real one reads its own."""
    draw = np.random.default_rng(int(clinic.rpartition("-")[2]))
    x = draw.normal(size=(draw.integers(20, ROWS), 4)).astype(np.float32)
    return {"x": x, "y": (x @ WEIGHTS > 0).astype(np.float32)}
