"""Robust rules under attacks: 100 clients, 20 of them malicious, beside our clipping and noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Options, Round, Task, images_of, rounds_of
from reticent.federated import poisoning, robust
from reticent.federated.robust import RuleName
from reticent.training.local_training import LocalTraining

CLIENTS, MALICIOUS, DELTA = 100, 20, 1e-3
NORM = 0.5
EPSILONS = (8.0,)


def published_alie(sent: np.ndarray, is_bad: np.ndarray) -> np.ndarray:
    """What the code behind the published table sends: the root of a deviation, and a probability for z."""
    found = sent.copy()
    supporters = len(sent) // 2 + 1 - int(is_bad.sum())
    z = 0.5 * (1 + _erf((np.sum(~is_bad) - supporters) / np.sum(~is_bad) / np.sqrt(2)))
    found[is_bad] = sent.mean(axis=0) - z * np.sqrt(sent.std(axis=0))
    return found


def _erf(value: float) -> float:
    from scipy.special import erf

    return float(erf(value))


ATTACKS: dict[str, Callable[..., np.ndarray]] = {
    "none": lambda sent, is_bad, random: sent,
    "Gauss": lambda sent, is_bad, random: poisoning.gaussian(sent, is_bad, random, 10.0),
    "ALIE": lambda sent, is_bad, random: poisoning.alie(sent, is_bad),
    "ALIE as published": lambda sent, is_bad, random: published_alie(sent, is_bad),
    "OPT": lambda sent, is_bad, random: poisoning.against_krum(sent, is_bad),
    "min-max": lambda sent, is_bad, random: poisoning.min_max(sent, is_bad),
}
RULES: tuple[RuleName, ...] = (
    "mean",
    "median",
    "trimmed_mean",
    "multi_krum",
    "bulyan",
    "krum",
    "geometric_median",
    "norm_bound",
)
LOCAL = LocalTraining(learning_rate=0.3, epochs=1, batch_size=32)


def rules(options: Options) -> Iterator[dict[str, Any]]:
    """Accuracy after rounds with 20 malicious clients of 100, by rule and attack."""
    rounds = options.rounds or (50 if options.is_full else 25)
    for dataset in options.datasets:
        rows = None if options.is_full else 12_000
        train, test = images_of(dataset, rows=rows, is_halved=not options.is_full)
        task = Task.of(train.pixels, 128 if options.is_full else 64)
        most = 2 * len(train.y) // CLIENTS
        owners = [
            rt.federated.dirichlet_split(train.y, CLIENTS, 0.5, seed=seed) for seed in range(options.seeds)
        ]
        compiled = [rounds_of(task, train.rows(), each, LOCAL, most) for each in owners]
        rows_of_table: list[tuple[RuleName | None, float]] = [
            *((rule, math.inf) for rule in RULES),
            *((None, epsilon) for epsilon in EPSILONS),
        ]
        for rule, epsilon in rows_of_table:
            for attack, change in ATTACKS.items():
                accuracies = []
                for seed, found in enumerate(compiled):
                    random = np.random.default_rng(FIRST_SEED + seed)
                    is_bad = random.permutation(CLIENTS) < MALICIOUS
                    if rule is None:
                        params = private_rounds(
                            task, found, epsilon, is_bad, change, rounds, most, seed, random
                        )
                    else:
                        aggregate = aggregator(rule)
                        params = contested(task.start(seed), found, is_bad, change, aggregate, rounds, random)
                    accuracies.append(task.share_right(params, test))
                name = rule or f"DP-FedAvg, epsilon {epsilon:g}"
                yield {
                    "part": "rules",
                    "dataset": dataset,
                    "rule": name,
                    "attack": attack,
                    "accuracy": accuracies,
                }


def aggregator(rule: RuleName) -> Callable[[np.ndarray], np.ndarray]:
    tolerated = min(MALICIOUS, robust.most_tolerated(rule, CLIENTS))
    bound = NORM if rule == "norm_bound" else None
    return robust.robust_rule(rule, clients=CLIENTS, malicious=tolerated, max_norm=bound)


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
    for _ in range(rounds):
        key = jax.random.key(int(random.integers(2**31)))
        sent = change(found.updates(unravel(flat), key), is_bad, random)
        flat = flat + jnp.asarray(aggregate(sent), flat.dtype)
    return unravel(flat)


def private_rounds(
    task: Task,
    found: Round,
    epsilon: float,
    is_bad: np.ndarray,
    change: Callable[..., np.ndarray],
    rounds: int,
    most: int,
    seed: int,
    random: np.random.Generator,
) -> Any:
    """The same rounds through the server of a deployment: all clients in every round, clipped and noised."""
    plan = rt.federated.FederatedPlan.for_budget(
        epsilon=epsilon,
        delta=DELTA,
        clients=CLIENTS,
        sampling="full",
        rounds=rounds,
        max_norm=NORM,
        rows_per_client=most,
        local=LOCAL,
    )
    names = [str(client) for client in range(CLIENTS)]
    start = task.start(seed)
    server = rt.federated.Rounds(plan, start, names, keys=rt.Keys.seeded(FIRST_SEED + seed))
    _, unravel = ravel_pytree(start)
    while not server.is_complete:
        current = server.begin()
        key = jax.random.key(int(random.integers(2**31)))
        sent = change(found.updates(server.params, key), is_bad, random)
        for client, row in enumerate(sent):
            current.take(str(client), jax.tree.map(np.asarray, unravel(jnp.asarray(row, jnp.float32))))
        server.finish(current)
    return server.params
