"""From nothing to the first step of the course CNN: calibration, compilation, the step; a new process."""

from __future__ import annotations

import json
import sys
import time

BORN = time.perf_counter()

import jax  # noqa: E402  # the time that imports take is part of the measurement
import optax  # noqa: E402

import reticent as rt  # noqa: E402
from benchmarks.training.cases import CNN_CLASSES, LEARNING_RATE, MAX_NORM, make_data  # noqa: E402
from benchmarks.training.serving import say  # noqa: E402
from reticent.models import classification_loss, course_cnn  # noqa: E402
from reticent.training.evaluation import Moment  # noqa: E402


def main() -> None:
    imported = time.perf_counter()
    batch, examples = json.loads(sys.argv[1])
    data = make_data("cnn", examples)
    moments: list[tuple[int, float]] = []

    def reached(moment: Moment) -> None:
        moments.append((moment.step, time.perf_counter()))
        if len(moments) == 2:
            raise KeyboardInterrupt

    made = time.perf_counter()
    plan = rt.Plan.for_budget(
        epsilon=3.0, delta=1e-5, examples=examples, batch_size=batch, epochs=60, max_norm=MAX_NORM
    )
    calibrated = time.perf_counter()
    model = course_cnn(CNN_CLASSES)
    params = model.init(jax.random.key(0))
    loss, optimizer = classification_loss(model), optax.sgd(LEARNING_RATE)
    rt.train(loss, params, data, plan, optimizer=optimizer, on_progress=reached)
    (steps, first), (more, second) = moments
    a_step = (second - first) / (more - steps)
    # A run is heard of after an epoch; its other steps are not part of the first.
    trained = first - calibrated - (steps - 1) * a_step
    say(imports=imported - BORN, calibration=calibrated - made, compile_and_step=trained, a_step=a_step)


if __name__ == "__main__":
    main()
