"""Runs in which one process cannot go on, and whoever started it catches what it raises.

python failing_runs.py ADDRESS PROCESSES PROCESS FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.core.errors import DataError, ReticentError
from reticent.data.disk_rows import DiskRows
from reticent.training.checkpoint import Checkpoints

ROWS, STEPS = 40_000, 30


def run(folder: Path, checkpoints: Checkpoints, process: int) -> None:
    path = folder / f"rows of {process}.npy"
    np.save(path, np.ones((ROWS // 2, 3), np.float32))
    plan = rt.Plan.for_budget(
        epsilon=3.0, delta=1e-5, examples=ROWS, batch_size=20, epochs=STEPS * 20 / ROWS, max_norm=1.0
    )
    rt.train(
        lambda params, row: jnp.sum((params - row["x"]) ** 2),
        jnp.zeros(3),
        {"x": np.load(path, mmap_mode="r")},
        plan,
        optimizer=optax.sgd(0.1),
        checkpoints=checkpoints,
        execution=rt.Execution(buffer=3 * 12 * plan.sampler.capacity * 2),  # two steps at once
    )


def failing_after(calls: int, action: Callable[..., Any], error: str) -> Callable[..., Any]:
    left = [calls]

    def acting(*given: Any, **rest: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise DataError(error, remedy="Look after it.")
        return action(*given, **rest)

    return acting


def main(address: str, processes: int, process: int, folder: Path) -> None:
    rt.distributed.start(address, processes=processes, process=process, patience=20)
    take, save = DiskRows.take, Checkpoints.save
    for case in ("reading", "saving"):
        DiskRows.take, Checkpoints.save = take, save
        if case == "reading" and process == 1:
            DiskRows.take = failing_after(9, take, "The disk is gone.")
        if case == "saving" and process == 0:
            Checkpoints.save = failing_after(4, save, "The disk is full.")
        try:
            run(folder, Checkpoints(path=folder / case, stamp=case, seconds=0), process)
        except ReticentError as error:
            print(f"{case}: {type(error).__name__}: {error}", flush=True)
    print("the end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
