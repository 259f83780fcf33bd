"""`train` pays from a ledger before it draws any noise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.errors import InvalidArgument
from reticent.training import loop

DATA = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(64, 1), "y": np.ones(64, np.float32)}


def loss(params: Any, example: Any) -> Any:
    return jnp.square(example["x"] @ params - example["y"])


def train(ledger: rt.Ledger, epsilon: float, **changes: Any) -> Any:
    plan = rt.Plan.for_budget(
        **{
            "epsilon": epsilon,
            "delta": 1e-6,
            "examples": 64,
            "batch_size": 16,
            "steps": 4,
            "max_norm": 1.0,
            **changes,
        }
    )
    budget = ledger.for_dataset("patients", fingerprint=ledger.fingerprint(DATA))
    return rt.train(loss, jnp.zeros(1), DATA, plan, optimizer=optax.sgd(0.1), budget=budget)


def test_a_run_is_charged_whole_and_the_next_one_has_what_is_left(ledger: rt.Ledger):
    run = train(ledger, 2.0)
    spent = ledger.for_dataset("patients").guarantee()
    assert spent.epsilon == pytest.approx(run.guarantee.epsilon, rel=1e-3)
    with pytest.raises(rt.BudgetExceeded, match=r"still fits, or . of the 4 repetitions"):
        train(ledger, 2.9)
    train(ledger, 1.0)
    assert spent.epsilon < ledger.for_dataset("patients").guarantee().epsilon <= 3.0


def test_a_refused_run_takes_no_step_and_a_paid_one_pays_before_the_first(
    ledger: rt.Ledger, monkeypatch: pytest.MonkeyPatch
):
    charges: list[int] = []

    def steps(*_: object) -> Any:
        charges.append(ledger.account("patients").charges)
        raise InterruptedError

    monkeypatch.setattr(loop, "take_steps", steps)
    with pytest.raises(rt.BudgetExceeded):
        train(ledger, 3.5)
    assert charges == []
    with pytest.raises(InterruptedError):
        train(ledger, 2.0)
    assert charges == [1]


def test_a_plan_for_other_neighbours_is_refused(ledger: rt.Ledger):
    with pytest.raises(InvalidArgument, match="is for add-or-remove"):
        train(ledger, 2.0, adjacency=rt.Adjacency.REPLACE)


def test_an_adaptive_limit_lets_training_plans_through(ledger: rt.Ledger):
    ledger.limit("patients", epsilon=3.0, delta=1e-6, adaptive=True)
    train(ledger, 1.0)
    assert ledger.for_dataset("patients").guarantee().epsilon == 3.0
