"""Correlated noise: expected error beside jax_privacy's optimisers, and accuracy beside independent noise.

python -m benchmarks.correlated_noise                        all of it (hours)
python -m benchmarks.correlated_noise --skip accuracy        errors and optimisers alone (minutes)
python -m benchmarks.correlated_noise --skip peer --quick    one seed, one epsilon, MNIST

Errors are root mean squares over all prefix sums, at equal privacy. A column that the peer found is judged
by our own formulas, in float64. Accuracies are those of the last iterate on the test set, of a small network
on pixels; the learning rate is chosen on held-out training rows with one seed, for each noise by itself,
from the same list. As in published figures, that search is not charged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import jax
import numpy as np
import optax

import reticent as rt
from benchmarks.accuracy import _BESIDE_THE_REPOSITORY, pixels
from benchmarks.training.environments import PEERS, default_folder, interpreter
from reticent.core.keys import Stream
from reticent.models import accuracy, classification_loss, tanh_cnn
from reticent.noise import Participation, toeplitz_error, toeplitz_sensitivity
from reticent.noise.optimal_series import optimal_toeplitz

DELTA = 1e-5
LENGTHS = ((16, 4), (100, 10), (2000, 400), (2052, 342))  # steps, bands
BUDGETS = ((300, 60_000, 600, 1.0, 1e-6), (240, 60_000, 1000, 4.0, 1e-6))
EPSILONS, RATES, SEEDS = (0.5, 1.0, 2.0), (0.5, 1.0, 2.0, 4.0), range(2000, 2005)
EPOCHS, BATCH = 3, 512
NOISES: dict[str, Any] = {"independent": None, "banded(4)": rt.noise.banded(bands=4), "auto": "auto"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip", choices=("peer", "accuracy"), action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if "RETICENT_DATA" not in os.environ and _BESIDE_THE_REPOSITORY.is_dir():
        os.environ["RETICENT_DATA"] = str(_BESIDE_THE_REPOSITORY)
    found: dict[str, Any] = {}
    if "peer" not in asked.skip:
        found |= compare_optimisers()
    if "accuracy" not in asked.skip:
        datasets = ("mnist",) if asked.quick else ("mnist", "fashion_mnist")
        epsilons, seeds = ((1.0,), SEEDS[:1]) if asked.quick else (EPSILONS, SEEDS)
        found["accuracy"] = [
            row for dataset in datasets for epsilon in epsilons for row in accuracies(dataset, epsilon, seeds)
        ]
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


def accuracies(dataset: str, epsilon: float, seeds: Any) -> list[dict[str, Any]]:
    train, test = pixels(dataset)
    held_out = {key: rows[-10_000:] for key, rows in train.items()}
    rest = {key: rows[:-10_000] for key, rows in train.items()}
    found = []
    for name, noise in NOISES.items():
        tuned = {rate: accuracy_of(rest, held_out, epsilon, noise, rate, 1) for rate in RATES}
        rate = max(tuned, key=lambda each: tuned[each])
        scores = [accuracy_of(train, test, epsilon, noise, rate, seed) for seed in seeds]
        spread = stdev(scores) if len(scores) > 1 else 0.0
        plan = plan_for(len(train["y"]), epsilon, noise)
        found.append(
            {
                "dataset": dataset,
                "epsilon": epsilon,
                "noise": name,
                "plan": str(plan),
                "rate": rate,
                "scores": scores,
            }
        )
        print(
            f"{dataset} epsilon {epsilon}: {name} {mean(scores):.4f} +- {spread:.4f} (rate {rate}; {plan})",
            flush=True,
        )
    return found


def plan_for(examples: int, epsilon: float, noise: Any) -> rt.Plan:
    return rt.Plan.for_budget(
        epsilon=epsilon,
        delta=DELTA,
        examples=examples,
        batch_size=BATCH,
        epochs=EPOCHS,
        max_norm=0.1,
        noise=noise,
    )


def accuracy_of(
    train: dict[str, np.ndarray],
    test: dict[str, np.ndarray],
    epsilon: float,
    noise: Any,
    rate: float,
    seed: int,
) -> float:
    model, keys = tanh_cnn(), rt.Keys.seeded(seed)
    plan = plan_for(len(train["y"]), epsilon, noise)
    schedule = optax.linear_schedule(rate, 0.0, plan.steps)
    run = rt.train(
        classification_loss(model),
        model.init(keys.take(Stream.INITIALISATION)),
        train,
        plan,
        optimizer=optax.sgd(schedule, momentum=0.9),
        keys=keys,
    )
    scores = jax.jit(jax.vmap(lambda example: accuracy(model)(run.params, example)))
    pieces = [
        np.asarray(scores({"x": test["x"][at : at + 1000], "y": test["y"][at : at + 1000]}))
        for at in range(0, len(test["y"]), 1000)
    ]
    return float(np.concatenate(pieces).mean())


if __name__ == "__main__":
    main()
