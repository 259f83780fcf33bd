"""Runs on allocated batches: each row is read once per round, and a resumed run keeps to its event."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import disk_runs
import jax
import numpy as np
import pytest

from reticent.core.errors import InvalidArgument, Unproven
from reticent.core.keys import Keys
from reticent.data.allocation import Allocation
from reticent.data.dataset import Dataset
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Allocated
from reticent.training.checkpoint import Checkpoints
from reticent.training.clipping import flat
from reticent.training.execution import Execution
from reticent.training.plan import Plan
from reticent.training.plan_json import from_json, to_json
from reticent.training.reporting import Stop

SAMPLER = Allocation(examples=disk_runs.ROWS, batch_size=100)  # 13 steps per round
STEPS = 26


def plan(**changes: Any) -> Plan:
    base = Plan(
        sampler=SAMPLER,
        clipping=flat(0.5),
        noise_multiplier=3.0,
        steps=STEPS,
        delta=1e-4,
        adjacency=Adjacency.ADD_OR_REMOVE,
    )
    return replace(base, **changes)


class Counted:
    """Records by their numbers, and how often each was asked for."""

    def __init__(self) -> None:
        self.rows, self.asked = disk_runs.rows(), np.zeros(disk_runs.ROWS, int)

    def __len__(self) -> int:
        return disk_runs.ROWS

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.int32]:
        self.asked[number] += 1
        return self.rows["x"][number], self.rows["y"][number]


def test_every_row_is_read_once_per_round_and_the_model_is_that_of_rows_in_memory():
    source = Counted()
    data = Dataset(source, names=["x", "y"])
    source.asked[:] = 0
    buffer = 3 * disk_runs.A_ROW * SAMPLER.capacity
    assert buffer < disk_runs.ROWS * disk_runs.A_ROW  # all rows are more than the buffer holds
    streamed = disk_runs.run(data, plan(), execution=Execution(buffer=buffer))
    # An empty place reads the first row, too: how many places are empty does not show in how much is read.
    assert np.all(source.asked[1:] == STEPS // SAMPLER.steps_per_round)
    in_memory = disk_runs.run(disk_runs.rows(), plan())
    assert np.array_equal(streamed.params["w"], in_memory.params["w"])
    assert in_memory.guarantee.epsilon == plan().guarantee(numbers=18).epsilon


def one_entry_each(params: Any, example: Any) -> jax.Array:
    """Every record pulls an entry of its own: steps tell who was in their batches."""
    return -params["w"][example["number"]]


def test_the_rows_of_a_round_are_in_its_sums_once():
    """Sums of a round, without noise, by plain descent."""
    import optax

    from reticent.training.loop import train

    rows = 200
    recipe = Plan.without_privacy(examples=rows, batch_size=40, steps=15, max_norm=1.0, sampling="allocation")
    assert isinstance(recipe.sampler, Allocation)
    data = {"number": np.arange(rows, dtype=np.int32)}
    found = train(
        one_entry_each,
        {"w": np.zeros(rows, np.float32)},
        data,
        recipe,
        optimizer=optax.sgd(1.0),
        keys=Keys.seeded(0),
    )
    times = np.asarray(found.params["w"]) * recipe.sampler.batch_size
    assert np.allclose(times, 3, atol=0.05)  # dry runs add a trace of rounding


def test_a_plan_for_a_budget_spends_it_and_goes_to_json_and_back():
    made = Plan.for_budget(
        epsilon=2, delta=1e-5, examples=10_000, batch_size=400, epochs=3, max_norm=1.0, sampling="allocation"
    )
    assert made.adjacency is Adjacency.ADD_OR_REMOVE
    assert made.steps == 75
    assert made.sampler == Allocation(examples=10_000, batch_size=400)
    assert isinstance(made.event_after(10).event, Allocated)  # type: ignore[union-attr]
    assert 1.99 <= made.guarantee().epsilon <= 2
    assert from_json(to_json(made)) == made
    poisson = Plan.for_budget(epsilon=2, delta=1e-5, examples=10_000, batch_size=400, epochs=3, max_norm=1.0)
    assert made.noise_multiplier < 1.02 * poisson.noise_multiplier


def test_a_run_that_is_resumed_in_the_middle_of_a_round_goes_on_with_the_next(tmp_path: Path):
    """With other keys, a record could otherwise be in two batches of a round, which nothing pays for."""

    def stop(moment: Any) -> Stop | None:
        return Stop("enough") if moment.step == 5 else None

    kept = Checkpoints(path=tmp_path / "kept", seconds=0)
    first = disk_runs.run(
        disk_runs.rows(), plan(), checkpoints=kept, progress_every=5, on_progress=stop, keys=Keys.seeded(1)
    )
    assert int(first.state.step) == 5
    source = Counted()
    data = Dataset(source, names=["x", "y"])
    source.asked[:] = 0
    buffer = Execution(buffer=3 * disk_runs.A_ROW * SAMPLER.capacity)
    again = Checkpoints(path=tmp_path / "kept", seconds=0)
    with pytest.warns(UserWarning, match="Steps 5 to 12 are left out"):
        rest = disk_runs.run(data, plan(), checkpoints=again, keys=Keys.seeded(2), execution=buffer)
    assert rest.is_complete
    assert np.all(source.asked[1:] == 1)  # in the second round alone


def test_what_has_no_theorem_is_refused():
    with pytest.raises(Unproven, match="'replace'"):
        plan(adjacency=Adjacency.REPLACE)
    with pytest.raises(InvalidArgument, match="largest_batch=50 goes with Poisson"):
        Plan.for_budget(
            epsilon=2,
            delta=1e-5,
            examples=1000,
            batch_size=40,
            epochs=3,
            clipping=flat(1.0),
            sampling="allocation",
            largest_batch=50,
        )
