"""Ways to draw batches, at the same batch and noise: epsilon, accuracy, steps per second, rows read.

python -m benchmarks.sampling                                    three minutes
python -m benchmarks.sampling --rows 3000 --batch 100 --epochs 2    to try it out
python -m benchmarks.sampling --adversary                        docs/accounting.md, section 2.3
python -m benchmarks.sampling --disk FOLDER --rows 400000 --batch 2000 --features 1024
                                        a file of 1.6 GB: bytes that are read per epoch, steps per second

Rows are made up: ten classes of 64 features, and a linear model. Epsilon is of the run as measured. With
--disk, run it where memory is limited (a cgroup of less than the file), or the kernel keeps the file.
Bytes are those that the process had fetched from storage (/proc/self/io, Linux).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from benchmarks.fixed_size_adversary import adaptive_epsilon
from benchmarks.scale.files import forget
from reticent.accounting.setting import Setting, steps_for
from reticent.accounting.tight_epsilon import Cost, tight
from reticent.mechanisms.sampling_events import Sampling
from reticent.training.execution import Execution
from reticent.training.plan import Plan

WAYS = (Sampling.POISSON, Sampling.ALLOCATION, Sampling.FIXED, Sampling.SHUFFLED)
DELTA = 1e-6
FEATURES, CLASSES, TEST = 64, 10, 10_000


class Rows:
    """Records by their numbers, and how often each was asked for."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y, self.asked = x, y, np.zeros(len(y), int)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.int32]:
        self.asked[number] += 1
        return self.x[number], self.y[number]


class Measured(NamedTuple):
    """One way to draw, as it came out."""

    way: Sampling
    adjacency: str
    cost: Cost
    accuracy: float
    milliseconds: float  # of CPU, for one step
    steps_per_second: float
    once: float  # the share of rows that one epoch reads exactly once
    never: float


def main() -> None:
    options = _options()
    if options.adversary:
        for block in (2009, 502, 125):
            found = adaptive_epsilon(rate=256 / 60_000, noise=1.1, steps=14_063, delta=1e-5, block=block)
            print(f"choices every {block} steps: {found[0]:.2f} without a choice, {found[1]:.2f} with one")
        return
    if options.disk:
        measure_disk(options)
        return
    print(
        "| batches | adjacency | epsilon | accuracy | CPU ms per step | steps per second "
        "| rows read once per epoch | never |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for way in WAYS:
        found = measure(way, options)
        epsilon = f"{found.cost.lower:.2f} to {found.cost.upper:.2f}"
        print(
            f"| {way.value} | {found.adjacency} | {epsilon} | {found.accuracy:.1%} | "
            f"{found.milliseconds:.2f} | {found.steps_per_second:.0f} | {found.once:.0%} | "
            f"{found.never:.0%} |",
            flush=True,
        )


def measure(way: Sampling, options: argparse.Namespace) -> Measured:
    """Trains in memory for accuracy and time, and one epoch on a source for the rows that are read."""
    steps = steps_for(options.epochs, options.rows, options.batch)
    setting = Setting(
        examples=options.rows,
        batch_size=options.batch,
        steps=steps,
        noise_multiplier=options.noise,
        sampling=way,
        adjacency=way.adjacencies[0],
    )
    dry = Plan.without_privacy(
        examples=options.rows, batch_size=options.batch, steps=steps, max_norm=1.0, sampling=way.value
    )
    plan = replace(dry, noise_multiplier=options.noise, delta=DELTA, is_private=True)
    x, y = made_up(options.rows + TEST)
    learn, test = {"x": x[TEST:], "y": y[TEST:]}, {"x": x[:TEST], "y": y[:TEST]}
    _train(learn, plan, options)  # compiles
    started, used = time.perf_counter(), time.process_time()
    run = _train(learn, plan, options)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    guessed = jnp.argmax(test["x"] @ run.params["w"], axis=1)
    asked = _reads_of_an_epoch(learn, plan, options)
    return Measured(
        way=way,
        adjacency=str(plan.adjacency),
        cost=tight(setting.event, DELTA, setting.adjacency),
        accuracy=float(np.mean(np.asarray(guessed) == test["y"])),
        milliseconds=1000 * used / steps,
        steps_per_second=steps / seconds,
        once=float(np.mean(asked[1:] == 1)),  # the first row stands for empty places, too
        never=float(np.mean(asked[1:] == 0)),
    )


def measure_disk(options: argparse.Namespace) -> None:
    """One epoch of each on rows that stay in a file."""
    steps = -(-options.rows // options.batch)
    with _file_of_rows(options) as data:
        size = data["x"].nbytes
        print(f"A file of {size / 1e9:.2f} GB, {steps} steps of {options.batch} rows")
        print("| batches | steps per second | GB read per epoch | files read per epoch |\n|---|---|---|---|")
        for way in WAYS:
            plan = Plan.without_privacy(
                examples=options.rows, batch_size=options.batch, steps=steps, max_norm=1.0, sampling=way.value
            )
            plan = replace(plan, noise_multiplier=options.noise, delta=DELTA / 10, is_private=True)
            forget(data["x"].filename)  # type: ignore[arg-type]
            seen: list[tuple[int, float, int]] = []
            _train(
                data,
                plan,
                options,
                buffer=2**28,
                progress_every=max(steps // 8, 1),
                on_progress=lambda moment, seen=seen: seen.append(
                    (moment.step, time.perf_counter(), _bytes_fetched())
                ),
            )
            (first, started, before), (last, ended, after) = seen[0], seen[-1]
            fetched = (after - before) / (last - first) * steps
            print(
                f"| {way.value} | {(last - first) / (ended - started):.1f} | {fetched / 1e9:.2f} | "
                f"{fetched / size:.2f} |",
                flush=True,
            )


@contextmanager
def _file_of_rows(options: argparse.Namespace) -> Iterator[dict[str, np.ndarray]]:
    """Memory maps of rows and labels, removed after."""
    folder, chance = Path(options.disk), np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.npy" for name in ("x", "y")}
    try:
        shape = (options.rows, options.features)
        rows = np.lib.format.open_memmap(paths["x"], mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, options.rows, 10_000):
            rows[start : start + 10_000] = chance.random(
                (len(rows[start : start + 10_000]), options.features)
            )
        rows.flush()
        del rows
        np.save(paths["y"], chance.integers(0, CLASSES, options.rows, np.int32))
        yield {name: np.load(path, mmap_mode="r") for name, path in paths.items()}
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)


def _bytes_fetched() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


def made_up(rows: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(CLASSES, FEATURES)) * 0.35
    y = chance.integers(0, CLASSES, rows).astype(np.int32)
    return (centres[y] + chance.normal(size=(rows, FEATURES))).astype(np.float32), y


def loss(params: Any, example: Any) -> jax.Array:
    return -jax.nn.log_softmax(example["x"] @ params["w"])[example["y"]]


def _train(
    data: Any, plan: Plan, options: argparse.Namespace, buffer: int | None = None, **watched: Any
) -> Any:
    program = "one product"  # compiled once for each way, so that the second run shows what a step takes
    execution = Execution(program=program) if buffer is None else Execution(buffer=buffer)
    start = {"w": jnp.zeros((options.features, CLASSES))}
    return rt.train(
        loss,
        start,
        data,
        plan,
        optimizer=optax.sgd(0.5),
        execution=execution,
        keys=rt.Keys.seeded(options.seed),
        **watched,
    )


def _reads_of_an_epoch(learn: dict[str, np.ndarray], plan: Plan, options: argparse.Namespace) -> np.ndarray:
    rows = Rows(learn["x"], learn["y"])
    data = rt.Dataset(rows, names=["x", "y"])
    rows.asked[:] = 0
    a_row = 4 * FEATURES + 4
    steps = -(-options.rows // options.batch)
    _train(data, replace(plan, steps=steps), options, buffer=6 * a_row * plan.sampler.capacity)
    return rows.asked


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--noise", type=float, default=1.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", type=int, default=FEATURES, help="with --disk")
    parser.add_argument("--disk", metavar="FOLDER")
    parser.add_argument("--adversary", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
