"""Federated learning on images: what privacy costs, and what malicious clients achieve against whom.

python -m benchmarks.federated                              everything, 3 seeds (hours on two cores)
python -m benchmarks.federated --part privacy --seeds 1     one part: privacy, rules, backdoor, secure
python -m benchmarks.federated --part rules --rows 6000 --rounds 5 --seeds 1     a quick look

privacy     DP-FedAvg at epsilon 2, 4 and 8 (user level) on clients made by Dirichlet splits, beside the same
            rounds without noise; delta is 1e-5
rules       robust rules under attacks: 100 clients, 20 of them malicious, Dirichlet 0.5, without noise; plain
            averages with our clipping and noise are a further row, all clients in every round, delta 1e-3
backdoor    one client in a hundred replaces the model whenever it is drawn: plain averages beside private
            plans, delta 1e-3
secure      a secure sum over 100 clients with 670,000 numbers, of whom a third vanish, all in one process

Splits look at labels, which are public here. Accuracy is on the test set, and decides nothing. Seeds are for
benchmarks: whoever knows one can subtract the noise.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import reticent as rt
from reticent.core.keys import Stream
from reticent.data import catalog
from reticent.federated import poisoning, robust
from reticent.federated.plan import FederatedPlan
from reticent.federated.robust import RuleName
from reticent.models import accuracy, classification_loss, mlp
from reticent.training.contributions import user_table
from reticent.training.local_training import LocalTraining, client_update

DELTA, FIRST_SEED, CLASSES = 1e-5, 1000, 10
MODEL = mlp((784, 128, CLASSES))
LOSS = classification_loss(MODEL)
RIGHT = accuracy(MODEL)
PARTS = ("privacy", "rules", "backdoor", "secure")


class Options(NamedTuple):
    dataset: str
    rows: int | None
    rounds: int | None
    seeds: int


class Images(NamedTuple):
    x: np.ndarray  # (rows, 28, 28) float32 in [0, 1]
    y: np.ndarray  # (rows,) int32

    def rows(self) -> dict[str, np.ndarray]:
        return {"x": self.x, "y": self.y}


def images_of(dataset: str, rows: int | None) -> tuple[Images, Images]:
    """The training and the test images; of the first, so many."""
    splits = catalog.load(dataset)

    def taken(part: Any, count: int | None) -> Images:
        x = np.asarray(part["x"][:count], np.float32) / 255
        return Images(x, np.asarray(part["y"][:count], np.int32))

    return taken(splits.train, rows), taken(splits.test, None)


def start(seed: int) -> Any:
    return MODEL.init(rt.Keys.seeded(FIRST_SEED + seed).take(Stream.INITIALISATION))


def share(metric: Callable[[Any, Any], Any], params: Any, images: Images) -> float:
    """The mean of a metric of one row."""
    values = jax.jit(jax.vmap(metric, (None, 0)))(params, images.rows())
    return float(np.mean(np.asarray(values, np.float64)))


def said(values: list[float]) -> str:
    spread = stdev(values) if len(values) > 1 else math.nan
    return f"{mean(values):.3f} ± {spread:.3f}"


# What privacy costs


def privacy(options: Options) -> Iterator[dict[str, Any]]:
    """DP-FedAvg at several budgets and the same rounds without noise."""
    train, test = images_of(options.dataset, options.rows)
    for clients, concentration in ((100, 0.5), (1000, 0.5), (1000, 0.1)):
        for epsilon in (2.0, 4.0, 8.0, math.inf):
            accuracies, started = [], time.perf_counter()
            plan = plan_for(clients, epsilon, train, options.rounds or 100)
            for seed in range(options.seeds):
                owners = rt.federated.dirichlet_split(train.y, clients, concentration, seed=seed)
                run = rt.federated.train(
                    LOSS,
                    start(seed),
                    rt.Dataset(train.rows(), users=owners),
                    plan,
                    optimizer=optax.sgd(1.0, momentum=0.9),
                    keys=rt.Keys.seeded(FIRST_SEED + seed),
                )
                accuracies.append(share(RIGHT, run.params, test))
            took = (time.perf_counter() - started) / options.seeds
            yield {
                "part": "privacy",
                "setting": f"{clients} clients, Dirichlet {concentration:g}, epsilon {epsilon:g}",
                "accuracy": accuracies,
                "rounds per second": plan.rounds / took,
                "plan": repr(plan),
            }


def plan_for(clients: int, epsilon: float, train: Images, rounds: int) -> FederatedPlan:
    setting: dict[str, Any] = {
        "clients": clients,
        "clients_per_round": max(clients // 5, 1) if clients >= 1000 else clients // 2,
        "rounds": rounds,
        "max_norm": 0.3,
        "rows_per_client": 2 * len(train.y) // clients,
        "local": LocalTraining(learning_rate=0.1, epochs=1, batch_size=32),
    }
    if math.isinf(epsilon):
        return FederatedPlan.without_privacy(**setting)
    return FederatedPlan.for_budget(epsilon=epsilon, delta=DELTA, **setting)


# Robust rules


class Round(NamedTuple):
    """The compiled part of a round: the update of every client, one row each."""

    updates: Callable[[Any, jax.Array], np.ndarray]
    clients: int


def rounds_of(images: Images, owners: np.ndarray, local: LocalTraining, most: int) -> Round:
    members, is_real = user_table(owners, most)
    held = {name: jnp.asarray(column) for name, column in images.rows().items()}

    def one(params: Any, rows: jax.Array, is_real: jax.Array, seed: jax.Array) -> jax.Array:
        own = jax.tree.map(lambda leaf: leaf[rows], held)
        return ravel_pytree(client_update(LOSS, local, params, own, is_real, seed)[0])[0]

    @jax.jit
    def all_of_them(params: Any, key: jax.Array) -> jax.Array:
        seeds = jax.random.bits(key, (len(members), 2), jnp.uint32)
        return jax.lax.map(
            lambda each: one(params, *each),
            (jnp.asarray(members), jnp.asarray(is_real), seeds),
            batch_size=10,
        )

    return Round(lambda params, key: np.asarray(all_of_them(params, key), np.float64), len(members))


ATTACKS: dict[str, Callable[..., np.ndarray]] = {
    "none": lambda sent, is_bad, random: sent,
    "gauss": lambda sent, is_bad, random: poisoning.gaussian(sent, is_bad, random, 10.0),
    "alie": lambda sent, is_bad, random: poisoning.alie(sent, is_bad),
    "min-max": lambda sent, is_bad, random: poisoning.min_max(sent, is_bad),
    "sign flip": lambda sent, is_bad, random: poisoning.sign_flip(sent, is_bad, 10.0),
}
RULES: tuple[RuleName, ...] = (
    "mean",
    "norm_bound",
    "median",
    "trimmed_mean",
    "geometric_median",
    "krum",
    "multi_krum",
    "bulyan",
)


def noised(sent: np.ndarray, random: np.random.Generator, *, max_norm: float, noise: float) -> np.ndarray:
    """The mean of clipped updates with noise: a row of the table. What is private is `rt.federated.train`."""
    deviation = noise * max_norm / len(sent)
    return robust.norm_bound(sent, max_norm) + deviation * random.standard_normal(sent.shape[1])


def rules(options: Options) -> Iterator[dict[str, Any]]:
    """Accuracy after rounds with 20 malicious clients of 100, by rule and attack."""
    train, test = images_of(options.dataset, options.rows)
    clients, malicious = 100, 20
    local = LocalTraining(learning_rate=0.05, epochs=1, batch_size=32)
    most = 2 * len(train.y) // clients
    noise = noise_for(8.0, clients, options.rounds or 50, most, local)
    owners = [rt.federated.dirichlet_split(train.y, clients, 0.5, seed=seed) for seed in range(options.seeds)]
    compiled = [rounds_of(train, each, local, most) for each in owners]
    for rule in (*RULES, "clipping and noise, epsilon 8"):
        for attack, change in ATTACKS.items():
            accuracies = []
            for seed in range(options.seeds):
                random = np.random.default_rng(FIRST_SEED + seed)
                params, found = start(seed), compiled[seed]
                is_bad = np.arange(found.clients) < malicious
                aggregate = aggregator(rule, found.clients, malicious, noise, random)
                params = contested(params, found, is_bad, change, aggregate, options.rounds or 50, random)
                accuracies.append(share(RIGHT, params, test))
            yield {"part": "rules", "setting": f"{rule} under {attack}", "accuracy": accuracies}


def noise_for(epsilon: float, clients: int, rounds: int, most: int, local: LocalTraining) -> float:
    plan = FederatedPlan.for_budget(
        epsilon=epsilon,
        delta=1e-3,
        clients=clients,
        sampling="full",
        rounds=rounds,
        max_norm=1.0,
        rows_per_client=most,
        local=local,
    )
    return plan.server.noise_multiplier


def aggregator(
    rule: Any, clients: int, malicious: int, noise: float, random: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    if rule.startswith("clipping"):
        return lambda sent: noised(sent, random, max_norm=0.5, noise=noise)
    tolerated = min(malicious, robust.tolerated(rule, clients))
    bound = 0.5 if rule == "norm_bound" else None
    return robust.robust_rule(rule, clients=clients, malicious=tolerated, max_norm=bound)


def contested(
    params: Any,
    found: Round,
    is_bad: np.ndarray,
    change: Callable[..., np.ndarray],
    aggregate: Callable[[np.ndarray], np.ndarray],
    rounds: int,
    random: np.random.Generator,
) -> Any:
    """The parameters after rounds in which the malicious clients send something else."""
    flat, unravel = ravel_pytree(params)
    for number in range(rounds):
        key = jax.random.fold_in(jax.random.key(int(random.integers(2**31))), number)
        sent = change(found.updates(unravel(flat), key), is_bad, random)
        flat = flat + jnp.asarray(aggregate(sent), flat.dtype)
    return unravel(flat)


# A backdoor


def backdoor(options: Options) -> Iterator[dict[str, Any]]:
    """Clean accuracy and the success of a pixel trigger: one client of a hundred replaces the model."""
    train, test = images_of(options.dataset, options.rows)
    triggered = Images(poisoning.with_trigger(test.x), test.y)._replace(y=np.zeros_like(test.y))
    triggered = Images(triggered.x[test.y != 0], triggered.y[test.y != 0])
    clients, attacker = 100, 0
    for name, epsilon in (("plain averages", math.inf), ("epsilon 8", 8.0), ("epsilon 2", 2.0)):
        clean, success = [], []
        for seed in range(options.seeds):
            owners = rt.federated.dirichlet_split(train.y, clients, 0.9, seed=seed)
            random = np.random.default_rng(FIRST_SEED + seed)
            owners[owners == attacker] = 1 + random.integers(
                clients - 1, size=int(np.sum(owners == attacker))
            )
            owners[random.permutation(len(owners))[: len(owners) // clients]] = (
                attacker  # rows of all classes
            )
            is_bad = owners == attacker
            x, y = poisoning.backdoor(train.x[is_bad], train.y[is_bad], target=0)
            changed = Images(train.x.copy(), train.y.copy())
            changed.x[is_bad], changed.y[is_bad] = x, y
            run = attacked_run(changed, owners, is_bad, epsilon, options.rounds or 60, seed)
            clean.append(share(RIGHT, run, test))
            success.append(share(RIGHT, run, triggered))
        yield {"part": "backdoor", "setting": name, "accuracy": clean, "backdoor": success}


def attacked_run(
    images: Images, owners: np.ndarray, is_bad: np.ndarray, epsilon: float, rounds: int, seed: int
) -> Any:
    clients, per_round = 100, 20
    setting: dict[str, Any] = {
        "clients": clients,
        "clients_per_round": per_round,
        "rounds": rounds,
        "rows_per_client": 2 * len(images.y) // clients,
        "local": LocalTraining(learning_rate=0.1, epochs=2, batch_size=32),
    }
    if math.isinf(epsilon):
        plan = FederatedPlan.without_privacy(max_norm=1e6, **setting)  # nothing is clipped
    else:
        plan = FederatedPlan.for_budget(epsilon=epsilon, delta=1e-3, max_norm=0.3, **setting)

    def replace(update: Any, params: Any, rows: Any) -> Any:
        factor = jnp.where(rows["is_bad"][0], float(per_round), 1.0)
        return jax.tree.map(lambda leaf: factor * leaf, update)

    rows = {**images.rows(), "is_bad": is_bad}
    return rt.federated.train(
        lambda params, row: LOSS(params, {"x": row["x"], "y": row["y"]}),
        start(seed),
        rt.Dataset(rows, users=owners),
        plan,
        keys=rt.Keys.seeded(FIRST_SEED + seed),
        tamper=replace,
    ).params


# Secure sums


def secure(options: Options) -> Iterator[dict[str, Any]]:
    """Seconds for one client and for the server; sums are compared bit for bit."""
    clients, numbers, lost = 100, options.rows or 670_000, range(1, 34)
    draw = np.random.default_rng(0)
    given = {place: draw.integers(0, 2**32, numbers, dtype=np.uint32) for place in range(1, clients + 1)}
    started = time.perf_counter()
    found = rt.federated.secure_sum(given, threshold=67, round_name="benchmark", lost=lost)
    took = time.perf_counter() - started
    expected = sum(given[place].astype(np.uint64) for place in given if place not in lost)
    is_exact = bool(np.array_equal(found, (np.asarray(expected) % 2**32).astype(np.uint32)))
    yield {
        "part": "secure",
        "setting": f"{clients} clients x {numbers:,} numbers, {len(lost)} vanish",
        "accuracy": [float(is_exact)],
        "seconds in all": took,
    }


# The command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--dataset", default="mnist", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--rows", type=int, help="of the training set; by default, all")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    options = Options(given.dataset, given.rows, given.rounds, given.seeds)
    parts = {"privacy": privacy, "rules": rules, "backdoor": backdoor, "secure": secure}
    found = []
    for name in given.part or PARTS:
        for row in parts[name](options):
            found.append(row)
            extra = "".join(
                f"  {key} {said(value) if isinstance(value, list) else f'{value:.3g}'}"
                for key, value in row.items()
                if key in ("backdoor", "rounds per second", "seconds in all")
            )
            print(f"{row['part']:10} {row['setting']:50} accuracy {said(row['accuracy'])}{extra}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
