"""Audits by made-up clients: an honest plan stands, one without its noise is contradicted."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import reticent as rt
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.gaussian import add_no_noise
from reticent.training import step

CLIENTS, CANARIES = 20, 200
DATA = rt.Dataset({"x": np.ones((40, 3), np.float32)}, users=np.arange(40) % CLIENTS)


def loss(params, row):
    return jnp.sum((params - row["x"]) ** 2)


def plan_for(**changes: Any) -> Any:
    given: dict[str, Any] = {"clients": CLIENTS + CANARIES, "sampling": "full", "rounds": 2, "max_norm": 0.5}
    given |= {"epsilon": 1.0, "delta": 1e-5, "rows_per_client": 2}
    local = rt.federated.LocalTraining(learning_rate=0.1)
    return rt.federated.FederatedPlan.for_budget(**{**given, "local": local, **changes})


def audit(plan: Any, seed: int) -> Any:
    keys = rt.Keys.seeded(seed)
    return rt.federated.audit_clients(loss, jnp.zeros(3), DATA, plan, canaries=CANARIES, keys=keys)


def test_an_honest_plan_stands_and_one_without_noise_is_contradicted(monkeypatch) -> None:
    plan = plan_for()
    found = audit(plan, 0)
    assert not found.is_contradicted
    assert found.claimed <= 1.0
    assert set(found.run.params) == {"model", "apart"}
    monkeypatch.setattr(
        step, "add_whole_noise", lambda key, total, grid, parts=None: add_no_noise(total, grid)
    )
    assert audit(plan, 1).is_contradicted


def test_plans_without_room_or_of_another_neighbour_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="20 beside 200 canaries"):
        audit(plan_for(clients=50), 0)
    with pytest.raises(InvalidArgument, match="this plan is for 'zero-out'"):
        audit(plan_for(sampling="cyclic", clients_per_round=20), 0)
