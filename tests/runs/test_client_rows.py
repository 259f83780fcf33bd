"""Rows of clients are read from their updates, and not from sums with noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from reticent.federated.plan import FederatedPlan
from reticent.models import classification_loss, mlp
from reticent.runs.attacks.client_rows import ONE_ROW, TRAPPED, rows_from_updates
from reticent.training.local_training import LocalTraining

WIDTH = 20


def rows_of(count: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.random((count, WIDTH)) * random.random((count, 1))  # of many means, as pictures are
    return {"x": x.astype(np.float32), "y": random.integers(3, size=count).astype(np.int32)}


def test_rows_are_read_from_single_updates_and_not_from_sums_with_noise() -> None:
    plan = FederatedPlan.for_budget(
        epsilon=4,
        delta=1e-4,
        clients=60,
        clients_per_round=20,
        rounds=20,
        max_norm=0.5,
        rows_per_client=10,
        local=LocalTraining(learning_rate=0.1),
    ).server
    model = mlp((WIDTH, 32, 3))
    params, loss = model.init(jax.random.key(0)), classification_loss(model)
    found = rows_from_updates(loss, params, plan, 0.1, rows_of(600, 0), rows_of(300, 1), watched=8)
    copies, traps = found[ONE_ROW], found[TRAPPED]
    assert list(copies) == list(traps) == ["one client", "one client with noise", "a sum", "a sum with noise"]
    assert copies["one client"].low > 40
    assert max(copies["one client with noise"].value, copies["a sum with noise"].value) < 20
    assert traps["one client"].low > 0.3
    assert max(traps["one client with noise"].value, traps["a sum with noise"].value) < 0.2

    def score(weights, row):
        return jnp.sum(weights * row["x"])  # a model without a layer that could be divided

    assert (
        rows_from_updates(score, jnp.zeros(WIDTH), plan, 0.1, rows_of(80, 0), rows_of(20, 1), watched=8) == {}
    )
