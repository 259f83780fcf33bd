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
from reticent.training import loop, programs

ROWS = 40


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    programs.forget()


def _train(
    program: Any = None,
    *,
    epsilon: float = 2.0,
    max_norm: float = 1.0,
    steps: int = 3,
    output: Any = "last",
    **noise: Any,
) -> tuple[Any, int]:
    """The parameters, and how often the loss was traced."""
    traced = 0

    def loss(params: Any, example: Any) -> jax.Array:
        nonlocal traced
        traced += 1
        return jnp.square(params["w"] - example["x"])

    plan = rt.Plan.for_budget(
        epsilon=epsilon, delta=1e-3, examples=ROWS, batch_size=10, steps=steps, max_norm=max_norm, **noise
    )
    data = {"x": np.linspace(0, 1, ROWS, dtype=np.float32)}
    run = rt.train(
        loss,
        {"w": jnp.float32(0)},
        data,
        plan,
        optimizer=optax.sgd(0.1 / steps),
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


def test_plans_of_one_structure_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and clipping norm are arguments of it, and are those of each run; its compiler is asked once."""
    first, as_much = _train("a", epsilon=0.1)
    others: list[dict[str, Any]] = [{"epsilon": 0.08}, {"epsilon": 0.1, "max_norm": 0.7}]
    shared = [_train("a", **other) for other in others]
    assert len(programs._kept) == 2  # the steps, and the metrics
    steps = next(program for name, program in programs._kept.items() if "metrics" not in str(name))
    assert steps._cache_size() == 1
    assert all(traced < as_much for _, traced in shared)
    monkeypatch.setattr(loop, "traced_amounts", lambda *given: None)
    for (found, _), other in zip(shared, others, strict=True):
        constant, _ = _train(**other)
        assert found == pytest.approx(float(constant), rel=1e-5)
        assert abs(float(found - first)) > 1e-3


def test_another_name_plan_or_average_is_another_program() -> None:
    _train("a")
    _, reused = _train("a")
    others: list[dict[str, Any]] = [
        {"program": "b"},
        {"program": None},
        {"epsilon": 0.1},  # so much noise is drawn with another number more
        {"steps": 4},
        {"output": "mean"},
        {"noise": rt.noise.banded(bands=2)},
    ]
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
