"""Ways to draw batches, at the same batch and noise: epsilon, accuracy, steps per second, rows read.

python -m benchmarks.sampling                                    three minutes
python -m benchmarks.sampling --rows 3000 --batch 100 --epochs 2    to try it out
python -m benchmarks.sampling --adversary                        docs/accounting.md, section 2.3

Rows are made up: ten classes of 64 features, and a linear model. Epsilon is of the run as measured.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from benchmarks.fixed_size_adversary import adaptive_epsilon
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
    print("| batches | adjacency | epsilon | accuracy | steps per second | rows read once an epoch | never |")
    print("|---|---|---|---|---|---|---|")
    for way in WAYS:
        found = measure(way, options)
        epsilon = f"{found.cost.lower:.2f} to {found.cost.upper:.2f}"
        print(
            f"| {way.value} | {found.adjacency} | {epsilon} | {found.accuracy:.1%} | "
            f"{found.steps_per_second:.0f} | {found.once:.0%} | {found.never:.0%} |",
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
    started = time.perf_counter()
    run = _train(learn, plan, options)
    seconds = time.perf_counter() - started
    guessed = jnp.argmax(test["x"] @ run.params["w"], axis=1)
    asked = _reads_of_an_epoch(learn, plan, options)
    return Measured(
        way=way,
        adjacency=str(plan.adjacency),
        cost=tight(setting.event, DELTA, setting.adjacency),
        accuracy=float(np.mean(np.asarray(guessed) == test["y"])),
        steps_per_second=steps / seconds,
        once=float(np.mean(asked[1:] == 1)),  # the first row stands for empty places, too
        never=float(np.mean(asked[1:] == 0)),
    )


def made_up(rows: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(CLASSES, FEATURES)) * 0.35
    y = chance.integers(0, CLASSES, rows).astype(np.int32)
    return (centres[y] + chance.normal(size=(rows, FEATURES))).astype(np.float32), y


def loss(params: Any, example: Any) -> jax.Array:
    return -jax.nn.log_softmax(example["x"] @ params["w"])[example["y"]]


def _train(data: Any, plan: Plan, options: argparse.Namespace, buffer: int | None = None) -> Any:
    execution = Execution() if buffer is None else Execution(buffer=buffer)
    start = {"w": jnp.zeros((FEATURES, CLASSES))}
    return rt.train(
        loss,
        start,
        data,
        plan,
        optimizer=optax.sgd(0.5),
        execution=execution,
        keys=rt.Keys.seeded(options.seed),
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
    parser.add_argument("--adversary", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
