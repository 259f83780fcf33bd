"""Runs on rows that stay on disk, on two devices; what came out goes into one file.

python disk_runs.py FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"

import jax
import numpy as np
import optax

from reticent.core.keys import Keys
from reticent.data.sampling import FixedSize, Poisson, Sampler
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import flat
from reticent.training.execution import Execution
from reticent.training.loop import Run, train
from reticent.training.plan import Plan

ROWS, WIDTH, STEPS = 1203, 6, 40
ADAM = optax.adam(0.05)
A_ROW = 4 * WIDTH + 4  # bytes
SAMPLERS: dict[str, Sampler] = {
    "Poisson": Poisson(examples=ROWS, batch_size=40),
    "FixedSize": FixedSize(examples=ROWS, batch_size=40),
}


def loss(params: Any, example: Any) -> jax.Array:
    return -jax.nn.log_softmax(example["x"] @ params["w"])[example["y"]]


def rows() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return {"x": x, "y": chance.integers(0, 3, ROWS).astype(np.int32)}


def on_disk(folder: Path) -> dict[str, np.ndarray]:
    for key, column in rows().items():
        np.save(folder / f"{key}.npy", column)
    return {key: np.load(folder / f"{key}.npy", mmap_mode="r") for key in rows()}


def plan(sampler: str = "Poisson", **changes: Any) -> Plan:
    values = {
        "sampler": SAMPLERS[sampler],
        "clipping": flat(0.5),
        "noise_multiplier": 1.0,
        "steps": STEPS,
        "delta": 1e-4,
        "adjacency": Adjacency.REPLACE,
    }
    return Plan(**{**values, **changes})


def a_step(sampler: str = "Poisson", devices: int = 1) -> int:
    """Bytes of the smallest buffer: three windows of one step, with room for any draw, on each device."""
    return 3 * A_ROW * SAMPLERS[sampler].capacity * devices


def run(data: Any, recipe: Plan | None = None, **options: Any) -> Run:
    options = {"optimizer": ADAM, "keys": Keys.seeded(3), **options}
    return train(loss, {"w": np.zeros((WIDTH, 3), np.float32)}, data, recipe or plan(), **options)


def shaken(key: jax.Array, example: Any) -> Any:
    return {**example, "x": example["x"] + 0.3 * jax.random.normal(key, example["x"].shape)}


def _free(*_: Any, **__: Any) -> Any:
    return 0.0


def main(folder: Path) -> None:
    Plan.guarantee = Plan.epsilon_after = _free
    options = {"augment": shaken, "views": 2}
    mapped, least = on_disk(folder), a_step(devices=2)
    in_memory, on_disk_too = Execution(divide_params=True), Execution(buffer=2 * least, divide_params=True)
    found = {
        "in memory": run(rows(), execution=in_memory, **options).params["w"],
        "on disk": run(mapped, execution=on_disk_too, **options).params["w"],
    }
    arrays: dict[str, Any] = {name: np.asarray(array) for name, array in found.items()}
    np.savez(folder / "found.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
