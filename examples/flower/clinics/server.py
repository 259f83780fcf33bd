"""The server: `flwr run` starts it beside the SuperLink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import ServerApp  # type: ignore[import-not-found]

import reticent as rt
from clinics import task

app = ServerApp()


@app.main()
def main(grid: Any, context: Any) -> None:
    asked = context.run_config
    folder = asked["folder"] or None
    strategy = rt.federated.flower.PrivateStrategy(
        task.PLAN,
        task.start(),
        clients=task.CLINICS,
        folder=folder,
        keys=None if asked["seed"] < 0 else rt.Keys.seeded(asked["seed"]),
        timeout=asked["timeout"],
        wait_for=asked["wait-for"],
    )
    run = strategy.start(grid)
    print(run.guarantee)
    if folder is not None:
        np.savez(Path(folder) / "model.npz", w=np.asarray(run.params["w"]), b=np.asarray(run.params["b"]))
