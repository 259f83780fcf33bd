"""Processes keep records in order, so one that comes or goes moves others: their sums pay a larger margin."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.distributed import collectives
from reticent.mechanisms.adjacency import Adjacency
from reticent.training import loop, step
from reticent.training.gradients.totals import Grid
from reticent.training.places import ROUNDED_ALIKE


def _plan(adjacency: Adjacency = Adjacency.ADD_OR_REMOVE) -> rt.Plan:
    return rt.Plan.for_budget(
        epsilon=2, delta=1e-3, examples=20, batch_size=5, steps=1, max_norm=1.0, adjacency=adjacency
    )


def _loss(params: Any, example: Any) -> Any:
    return jnp.square(params - example["x"])


@pytest.mark.parametrize(
    ("processes", "adjacency", "moves"),
    [
        (1, Adjacency.ADD_OR_REMOVE, False),
        (2, Adjacency.ADD_OR_REMOVE, True),
        (2, Adjacency.ZERO_OUT, False),
    ],
)
def test_a_record_moves_others_where_processes_keep_them_in_order_and_it_may_be_gone(
    monkeypatch: pytest.MonkeyPatch, processes: int, adjacency: Adjacency, moves: bool
) -> None:
    plan = _plan(adjacency)
    monkeypatch.setattr(collectives, "count", lambda: processes)
    assert loop._moves_others(plan) is moves


@pytest.mark.parametrize("moves", [False, True])
def test_sums_of_a_run_are_clipped_for_it_and_its_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    grids: list[Grid] = []

    def spy(*given: Any, **named: Any) -> Grid:
        grids.append(Grid(*given, **named))
        return grids[-1]

    monkeypatch.setattr(step, "Grid", spy)
    monkeypatch.setattr(loop, "_moves_others", lambda plan: moves)
    data = {"x": np.zeros(20, np.float32)}
    run = rt.train(_loss, jnp.float32(0), data, _plan(), optimizer=optax.sgd(0.1))
    assert {grid.moves_others for grid in grids} == {moves}
    assert (ROUNDED_ALIKE in run.guarantee.assumptions) is moves
