"""The course's picture of CIFAR-10: accuracy and epsilon over epochs, dense layers against all layers.

python -m benchmarks.finetuning.course_figure                      pre-trains on CIFAR-100, then all of it
python -m benchmarks.finetuning.course_figure --public FOLDER      starts from weights of `reticent pretrain`
python -m benchmarks.finetuning.course_figure --learn dense        one way to learn; repeat it for more

Features come from our own pre-training on CIFAR-100, without privacy; the private runs are on CIFAR-10 with
Poisson batches, the tight accountant, delta 1e-5, and the settings that `reticent train --from` chooses. The
last iterate (of networks their average) is scored on the 10,000 test images, which decide nothing. Abadi et
al. (2016) report 67, 70 and 73% at epsilon 2, 4 and 8.

All of it takes hours on a busy machine. What was done is kept below --cache, down to the steps of an
unfinished run, and the same command goes on from there. Lines with the time say how far it is.

Seeds are for benchmarks: whoever knows one can subtract the noise. A real run takes no seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import reticent as rt
from reticent.core.observer import Observer, OnProgress
from reticent.data import catalog
from reticent.pretraining import PublicModel, pretrain, read_public
from reticent.runs.learners import Learner, learner
from reticent.runs.methods import descent, recipes
from reticent.runs.problem import Problem
from reticent.runs.public_start import LEARN, PublicStart
from reticent.training.checkpoint import Checkpoints

DELTA = 1e-5
ABADI = {2.0: 0.67, 4.0: 0.70, 8.0: 0.73}
FIRST_SEED = 1000
_PIECE = 5000  # images whose features are kept in one file
_SECONDS = 60.0  # between two lines on how far it is


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", type=Path, help="weights of `reticent pretrain`")
    parser.add_argument("--model", default="wide_resnet+patches", help="what to pre-train")
    parser.add_argument("--epochs", type=int, default=8, help="of pre-training")
    parser.add_argument("--learn", choices=LEARN, action="append")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(ABADI))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="so many of each dataset, to see that all of it works")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "reticent-bench-features")
    parser.add_argument("--json", type=Path, help="where the curves go")
    asked = parser.parse_args()
    public = _public(asked.public or asked.cache / asked.model, asked.model, asked.epochs, asked.rows)
    about = public.about
    print(f"public: {public.name}, {about.rows:,} rows, {about.epochs} epochs, accuracy {about.accuracy}")
    curves: list[dict[str, Any]] = []
    for how in asked.learn or ["dense", "all"]:
        made, rows, test = _inputs(public, how, asked.cache, asked.rows)
        for epsilon in asked.epsilons:
            found = []
            for seed in range(FIRST_SEED, FIRST_SEED + asked.seeds):
                place = asked.cache / f"{public.digest[:16]}-{how}-{epsilon:g}-{seed}.json"
                if not place.exists():
                    done = _measure(made, rows, test, epsilon, seed, place.with_suffix(".checkpoint"))
                    place.write_text(json.dumps(done) + "\n")
                found.append(json.loads(place.read_text()))
            scores = [each["accuracy"] for each in found]
            spread = f" ± {stdev(scores):.2%}" if len(scores) > 1 else ""
            bar = ABADI.get(epsilon)
            beside = "" if bar is None else f" (Abadi et al. {bar:.0%})"
            seconds = mean(each["processor seconds"] for each in found)
            print(
                f"{how:>6}, epsilon {epsilon:g}: {mean(scores):.2%}{spread}{beside}, {seconds:.0f} s of CPU",
                flush=True,
            )
            curves += [{"learn": how, "epsilon": epsilon, **each} for each in found]
    if asked.json is not None:
        asked.json.write_text(json.dumps(curves, indent=2) + "\n")


@contextmanager
def _told(what: str) -> Iterator[OnProgress]:
    """Says on a line of its own how far something is, and what is left of it."""
    began, last, first = time.monotonic(), time.monotonic(), [-1.0]

    def tell(done: float) -> None:
        nonlocal last
        if first[0] < 0:
            first[0] = done  # of a run that goes on
        if done <= first[0] or (now := time.monotonic()) - last < _SECONDS:
            return
        last, left = now, (now - began) * (1 - done) / max(done - first[0], 1e-9)
        print(f"{time.strftime('%H:%M:%S')}  {what}: {done:.1%}, {left / 60:.0f} minutes left", flush=True)

    yield tell


def _public(folder: Path, model: str, epochs: int, rows: int | None) -> PublicModel:
    """Weights that are there, or new ones."""
    if folder.exists():
        return read_public(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    kept = folder.with_suffix(".kept")
    watched = Observer(watch=_told)
    made = pretrain("cifar100", model=model, epochs=epochs, rows=rows, kept=kept, observer=watched)
    made.write(folder)
    print(f"pre-training: {time.process_time() - began:.0f} s of CPU in this process", flush=True)
    return made


def _inputs(
    public: PublicModel, how: Any, cache: Path, rows: int | None
) -> tuple[Learner, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The learner, and what it takes of both parts; features are kept under the digest of the weights."""
    splits = catalog.load("cifar10")
    assert splits.test is not None
    start = PublicStart(weights=public, learn=how)
    start.require_no_overlap(splits.train["x"], is_public=False)
    count = len(splits.train) if rows is None else rows
    problem = Problem(rows=count, shape=(32, 32, 3), classes=tuple(map(str, range(10))))
    made = learner(start.model_name, problem, start)
    parts = []
    for name, part in (("train", splits.train), ("test", splits.test)):
        x, y = np.asarray(part["x"][:rows]), np.asarray(part["y"][:rows])
        if how == "dense":
            x = _features(made.inputs, x, cache / f"{public.digest[:16]}-{name}")
        parts.append({"x": x, "y": y})
    return made, *parts


def _features(inputs: Callable[[np.ndarray], np.ndarray], x: np.ndarray, folder: Path) -> np.ndarray:
    """Features of images, a file for each few thousand."""
    folder.mkdir(parents=True, exist_ok=True)
    with _told(f"features below {folder.name}") as on_progress:
        for first in range(0, len(x), _PIECE):
            kept = folder / f"{first}.npy"
            if not kept.exists():
                partial = kept.with_suffix(".partial.npy")
                np.save(partial, inputs(x[first : first + _PIECE]))
                partial.rename(kept)
            on_progress(min(first + _PIECE, len(x)) / len(x))
    return np.concatenate([np.load(folder / f"{first}.npy") for first in range(0, len(x), _PIECE)])


def _measure(
    made: Learner,
    rows: dict[str, np.ndarray],
    test: dict[str, np.ndarray],
    epsilon: float,
    seed: int,
    checkpoint: Path,
) -> dict[str, Any]:
    """One private run: accuracy on the test images at the end, and the way there."""
    count, began = len(rows["y"]), time.process_time()
    chosen = recipes.for_batches(made.name, count, epsilon)
    plan = rt.Plan.for_budget(
        epsilon=epsilon,
        delta=DELTA,
        examples=count,
        batch_size=chosen.batch,
        steps=chosen.steps,
        max_norm=chosen.max_norm,
    )
    output = rt.averages.exponential(chosen.decay) if chosen.decay else rt.averages.last()

    def is_right(params: Any, example: Any) -> jax.Array:
        return jnp.float32(jnp.argmax(made.scores(params, example["x"])) == example["y"])

    with _told(f"{made.name} at epsilon {epsilon:g}") as on_progress:
        run = rt.train(
            made.loss,
            made.model.init(jax.random.key(seed)),
            rows,
            plan,
            optimizer=descent.Descent(plan, chosen.rate).optimizer,
            output=output,
            evaluate=test,
            metrics={"accuracy": is_right},
            keys=rt.Keys.seeded(seed),
            checkpoints=Checkpoints(path=checkpoint, seconds=_SECONDS),
            on_progress=lambda moment: on_progress(moment.step / plan.steps),
            progress=False,
        )
    return {
        "accuracy": float(run.history[-1].held_out["accuracy"]),
        "processor seconds": time.process_time() - began,
        "epochs": [moment.epoch for moment in run.history],
        "epsilons": [moment.epsilon for moment in run.history],
        "accuracies": [float(moment.held_out["accuracy"]) for moment in run.history],
    }


if __name__ == "__main__":
    main()
