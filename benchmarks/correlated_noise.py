"""Correlated noise: expected error beside jax_privacy's optimisers, and accuracy beside independent noise.

python -m benchmarks.correlated_noise                        all of it (an hour)
python -m benchmarks.correlated_noise --skip accuracy        errors and optimisers alone (a minute)
python -m benchmarks.correlated_noise --skip peer --only mnist/1/3  one dataset, epsilon and number of epochs
python -m benchmarks.correlated_noise --table FILE ...       the table of what several calls wrote with --json

Errors are root mean squares over all prefix sums, at equal privacy. A column that the peer found is judged
by our own formulas, in float64.

Accuracies are those of the last iterate on the test set, of one product with whitened scattering features
(benchmarks.accuracy; of CIFAR-10 in grey), after one epoch and after three. The learning rate is chosen on
held-out training rows with a seed of its own, for each noise by itself, from the same list. As in published
figures, that search is not charged. Noises of one row have the same seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from benchmarks.accuracy import (
    _BESIDE_THE_REPOSITORY,
    SHAPES,
    STROKES,
    features,
    pixels,
    unit_scattering,
)
from benchmarks.training.environments import PEERS, default_folder, interpreter
from reticent.core.keys import Stream
from reticent.models import Model, classification_loss, random_shapes, whitening
from reticent.models.initialisers import zeros
from reticent.models.losses import Measure
from reticent.noise import Participation, toeplitz_error, toeplitz_sensitivity
from reticent.noise.optimal_series import optimal_toeplitz
from reticent.training.execution import Execution

DELTA = 1e-5
LENGTHS = ((16, 4), (100, 10), (2000, 400), (2052, 342))  # steps, bands
BUDGETS = ((300, 60_000, 600, 1.0, 1e-6), (240, 60_000, 1000, 4.0, 1e-6))
EPSILONS, EPOCHS = (0.5, 1.0, 2.0), (1, 3)
RATES = tuple(50.0 * 2**k for k in range(8))
TUNING_SEED, FIRST_SEED = 1, 2000
BATCH, MAX_NORM = 512, 0.1
NOISES: dict[str, Any] = {"independent": None, "banded(4)": rt.noise.banded(bands=4), "auto": "auto"}


PRIORS = {"mnist": STROKES, "fashion_mnist": SHAPES, "cifar10": SHAPES}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip", choices=("peer", "accuracy"), action="append", default=[])
    parser.add_argument("--only", action="append", metavar="DATASET/EPSILON/EPOCHS")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.table:
        print_table([row for path in asked.table for row in json.loads(path.read_text())["accuracy"]])
        return
    if "RETICENT_DATA" not in os.environ and _BESIDE_THE_REPOSITORY.is_dir():
        os.environ["RETICENT_DATA"] = str(_BESIDE_THE_REPOSITORY)
    found: dict[str, Any] = {}
    if "peer" not in asked.skip:
        found |= compare_optimisers()
    if "accuracy" not in asked.skip:
        everything = [
            f"{dataset}/{epsilon:g}/{epochs}"
            for epochs in EPOCHS
            for dataset in PRIORS
            for epsilon in EPSILONS
        ]
        found["accuracy"] = []
        for each in asked.only or everything:
            dataset, epsilon, epochs = each.split("/")
            case = Case(dataset, float(epsilon), int(epochs))
            found["accuracy"] += compare_noises(case, FIRST_SEED + np.arange(asked.seeds))
        print_table(found["accuracy"])
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


# Expected error


def compare_optimisers() -> dict[str, Any]:
    theirs = ask_peer()
    print("\nToeplitz strategies of least error: steps / bands, error here and there, seconds here and there")
    rows = []
    for (steps, bands), peer in zip(LENGTHS, theirs["toeplitz"], strict=True):
        part = Participation.cyclic(steps, bands)
        started = time.perf_counter()
        column = optimal_toeplitz(bands, steps, part)
        seconds = time.perf_counter() - started
        ours, other = (error_of(each, steps, part) for each in (column, np.array(peer["column"])))
        rows.append((steps, bands, ours, other, seconds, peer["seconds"]))
        print(
            f"  {steps}/{bands}: {ours:.6f} {other:.6f}   {seconds:.3f} s {peer['seconds']:.2f} s", flush=True
        )
    print("\nThe best number of bands on random batches: plan, error here and there, seconds here and there")
    chosen = []
    for budget, peer in zip(BUDGETS, theirs["amplified"], strict=True):
        steps, examples, batch_size, epsilon, delta = budget
        started = time.perf_counter()
        plan = rt.Plan.for_budget(
            epsilon=epsilon,
            delta=delta,
            examples=examples,
            batch_size=batch_size,
            steps=steps,
            max_norm=1.0,
            noise="auto",
        )
        seconds = time.perf_counter() - started
        other = peer["deviation"] * toeplitz_error(np.array(peer["column"]), steps, 1.0).rmse
        chosen.append((*budget, plan.expected_error, other, seconds, peer["seconds"]))
        print(f"  {plan}: {plan.expected_error:.4f} {other:.4f}   {seconds:.2f} s {peer['seconds']:.1f} s")
    return {"toeplitz": rows, "amplified": chosen}


def ask_peer() -> dict[str, Any]:
    python = interpreter(PEERS["jax-privacy"], default_folder())
    script = Path(__file__).with_name("correlated_noise_peer.py")
    command = [str(python), str(script), json.dumps(LENGTHS), json.dumps(BUDGETS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def error_of(column: np.ndarray, steps: int, part: Participation) -> float:
    return toeplitz_error(column, steps, toeplitz_sensitivity(column, steps, part)).rmse


# Accuracy


class Case(NamedTuple):
    """What all noises of a row have in common."""

    dataset: str
    epsilon: float
    epochs: int

    def plan(self, examples: int, noise: Any) -> rt.Plan:
        return rt.Plan.for_budget(
            epsilon=self.epsilon,
            delta=DELTA,
            examples=examples,
            batch_size=BATCH,
            epochs=self.epochs,
            max_norm=MAX_NORM,
            noise=noise,
        )


@cache
def rows_of(dataset: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Features, computed once and kept beside the peers' environments."""
    kept = default_folder() / "features" / f"{dataset}.npz"
    if not kept.is_file():
        train, test = (
            features_of_photographs() if dataset == "cifar10" else features(dataset, PRIORS[dataset])
        )
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, x=train["x"], y=train["y"], test_x=test["x"], test_y=test["y"])
    found = np.load(kept)
    return {"x": found["x"], "y": found["y"]}, {"x": found["test_x"], "y": found["test_y"]}


def features_of_photographs() -> list[dict[str, np.ndarray]]:
    """Of CIFAR-10 without its colours: of three channels there would be thrice as many, for little more."""
    whiten = whitening(unit_scattering(random_shapes(8000, side=32)), kept=SHAPES.kept)
    parts = [{**part, "x": part["x"].mean(axis=-1).astype(np.uint8)} for part in pixels("cifar10")]
    return [{"x": whiten(unit_scattering(part["x"])), "y": part["y"]} for part in parts]


def compare_noises(case: Case, seeds: np.ndarray) -> list[dict[str, Any]]:
    train, test = rows_of(case.dataset)
    held_out = {key: rows[-10_000:] for key, rows in train.items()}
    rest = {key: rows[:-10_000] for key, rows in train.items()}
    found = []
    for name, noise in NOISES.items():
        plan, dry = case.plan(len(train["y"]), noise), case.plan(len(rest["y"]), noise)
        rate, tuned = best_rate(lambda rate, dry=dry: accuracy_of(rest, held_out, dry, rate, TUNING_SEED))
        scores = [accuracy_of(train, test, plan, rate, int(seed)) for seed in seeds]
        what = {"noise": name, "plan": str(plan), "expected_error": plan.expected_error}
        found.append({**case._asdict(), **what, "tuned": tuned, "rate": rate, "scores": scores})
        print(f"{case}: {name} {mean(scores):.4f} +- {stdev(scores):.4f} (rate {rate:g}; {plan})", flush=True)
    return found


def best_rate(score: Callable[[float], float]) -> tuple[float, dict[float, float]]:
    """From the middle of the list uphill, as long as it is uphill."""
    at = len(RATES) // 2
    tuned = {RATES[k]: score(RATES[k]) for k in (at - 1, at)}
    step = 1 if tuned[RATES[at]] >= tuned[RATES[at - 1]] else -1
    at += min(step, 0)
    while 0 <= at + step < len(RATES):
        tuned[RATES[at + step]] = score(RATES[at + step])
        if not tuned[RATES[at + step]] > tuned[RATES[at]]:
            break
        at += step
    return RATES[at], tuned


@cache
def one_product(width: int) -> tuple[Model, Measure]:
    model = Model(
        name="whitened scattering",
        description="one product, no bias",
        starts={"w": zeros(width, 10)},
        apply=lambda params, x: x @ params["w"],
    )
    return model, classification_loss(model)


def accuracy_of(
    train: dict[str, np.ndarray], test: dict[str, np.ndarray], plan: rt.Plan, rate: float, seed: int
) -> float:
    keys = rt.Keys.seeded(seed)
    model, loss = one_product(train["x"].shape[1])
    run = rt.train(
        loss,
        model.init(keys.take(Stream.INITIALISATION)),
        train,
        plan,
        optimizer=falling(rate, plan.steps),
        keys=keys,
        execution=Execution(program=f"one product, {plan.steps} steps"),
    )
    return float(np.mean(np.argmax(test["x"] @ np.asarray(run.params["w"]), axis=1) == test["y"]))


def falling(rate: float, steps: int) -> optax.GradientTransformation:
    """Plain descent with a rate that falls to zero. It is kept in the state: one program for all rates."""

    def init(params: Any) -> Any:
        return jnp.float32(rate), jnp.int32(0)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        first, at = state
        now = first * (1 - at / steps)
        return jax.tree.map(lambda leaf: -now * leaf, updates), (first, at + 1)

    return optax.GradientTransformation(init, update)


def print_table(rows: list[dict[str, Any]]) -> None:
    print("| dataset | epsilon | epochs | independent | banded, 4 | auto | auto - independent | it chose |")
    print("|---|---|---|---|---|---|---|---|")
    for start in range(0, len(rows), len(NOISES)):
        some = {row["noise"]: row for row in rows[start : start + len(NOISES)]}
        first, best = some["independent"], some["auto"]
        cells = [f"{_in_percent(row['scores'])} ({row['expected_error']:.2f})" for row in some.values()]
        gains = [one - other for one, other in zip(best["scores"], first["scores"], strict=True)]
        chosen = next(part for part in best["plan"].split(", ") if "noise" in part)
        print(
            f"| {first['dataset']} | {first['epsilon']:g} | {first['epochs']} | {' | '.join(cells)} "
            f"| {_in_percent(gains)} | {chosen} |"
        )


def _in_percent(values: list[float]) -> str:
    return f"{100 * mean(values):.2f} ± {100 * stdev(values):.2f}"


if __name__ == "__main__":
    main()
