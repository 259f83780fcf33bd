"""`rt.train` on memory-mapped files; the time is counted from the end of the first compiled call."""

from __future__ import annotations

import jax
import numpy as np
import optax

import reticent as rt
from benchmarks.scale.workers import cases
from benchmarks.scale.workers.telling import Clock, asked, say
from reticent.models.linear import linear
from reticent.models.losses import classification_loss
from reticent.training.devices.feeding import BUFFER


def main() -> None:
    wanted = asked()
    data = {key: np.load(path, mmap_mode="r") for key, path in wanted["files"].items()}
    rows, width = data["x"].shape
    model = linear(width, 10)
    clock = Clock()
    run = rt.train(
        classification_loss(model),
        model.init(jax.random.key(0)),
        data,
        cases.plan(rows, wanted["batch"], wanted["steps"]),
        optimizer=optax.sgd(0.1),
        checkpoints=clock,
        execution=rt.Execution(buffer=wanted.get("buffer", BUFFER)),
    )
    steps, seconds = clock.after_first_call()
    say(seconds=seconds, steps=steps, total=run.seconds)


if __name__ == "__main__":
    main()
