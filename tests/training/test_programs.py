"""A named program is compiled once for all runs of its name, plan and shapes, and computes the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.keys import Keys
from reticent.training import programs

ROWS = 40


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    programs.forget()


def _train(program: Any = None, *, epsilon: float = 2.0, output: Any = "last") -> tuple[Any, int]:
    """The parameters, and how often the loss was traced."""
    traced = 0

    def loss(params: Any, example: Any) -> jax.Array:
        nonlocal traced
        traced += 1
        return jnp.square(params["w"] - example["x"])

    plan = rt.Plan.for_budget(
        epsilon=epsilon, delta=1e-3, examples=ROWS, batch_size=10, steps=3, max_norm=1.0
    )
    data = {"x": np.linspace(0, 1, ROWS, dtype=np.float32)}
    run = rt.train(
        loss,
        {"w": jnp.float32(0)},
        data,
        plan,
        optimizer=optax.sgd(0.1),
        evaluate={"x": np.linspace(0.01, 0.99, 7, dtype=np.float32)},
        output=output,
        keys=Keys.seeded(5),
        execution=rt.Execution(program=program),
    )
    return run.params["w"], traced


def test_a_second_run_of_a_name_traces_only_what_it_checks() -> None:
    alone, all_of_it = _train()
    first, as_much = _train("a")
    second, less = _train("a")
    assert alone == first == second
    assert as_much == all_of_it
    assert less < all_of_it


def test_another_name_plan_or_average_is_another_program() -> None:
    _train("a")
    _, reused = _train("a")
    others: list[dict[str, Any]] = [{"program": "b"}, {"epsilon": 3.0}, {"output": "mean"}, {"program": None}]
    for other in others:
        expected, _ = _train(**{**other, "program": None})
        found, traced = _train(**{"program": "a", **other})
        assert found == expected, other
        assert traced > reused, other


def test_no_more_than_a_few_are_kept() -> None:
    made = []
    for number in range(40):
        programs.kept(number, lambda: made.append(0))
    assert len(programs._kept) < 20
    programs.kept(39, lambda: made.append(0))
    assert len(made) == 40
    programs.kept(0, lambda: made.append(0))
    assert len(made) == 41
