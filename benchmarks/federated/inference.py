"""What updates tell: membership, a property, a whole row, by whoever sees one update or a sum of some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.federated.clients import Images, Options, Task, images_of
from reticent.attacks.inference.client_updates import SeenUpdate, membership_from_updates
from reticent.attacks.metrics import auc
from reticent.attacks.reconstruction.leakage import psnr, recover_analytically
from reticent.attacks.reconstruction.malicious import (
    compare_with_batch,
    even_thresholds,
    read_trap,
    trap_parameters,
)
from reticent.attacks.scores import Scores
from reticent.federated.plan import FederatedPlan
from reticent.runs.attacks.client_rounds import property_by_view
from reticent.training.local_training import LocalTraining
from reticent.training.watched_rounds import WatchedRound, watch_rounds

CLIENTS, OWN_ROWS, WATCHED, ROUNDS, DELTA = 200, 10, 8, 10, 1e-4
EPSILON = 8.0


def inference(options: Options) -> Iterator[dict[str, Any]]:
    """AUC of membership and decibels of reconstruction, by what is seen; noise is that of epsilon 8."""
    train, test = images_of(options.datasets[0], rows=CLIENTS * OWN_ROWS)
    task = Task.of(train.pixels, 32)
    users = np.arange(len(train.y)) % CLIENTS
    for seed in range(options.seeds):
        several = LocalTraining(learning_rate=0.1, epochs=2, batch_size=5)
        seen = _rounds(task, train, users, OWN_ROWS, several, seed)
        yield from _rows("membership, AUC", _membership(task, seen, train, users, test))
        yield from _rows("property, AUC", _property(task, seen[-1], several, train, test))
        single = LocalTraining(learning_rate=0.1)  # one step: an update is a gradient
        start = task.start(seed)
        yield from _rows("one row of a client that has one, dB", _one_row(task, train, single, start, seed))
        cuts = even_thresholds(test.x.mean(axis=(1, 2)), 32)
        trap = trap_parameters(start, cuts)
        yield from _rows(
            "share of ten rows read by malicious parameters", _trap(task, train, users, single, trap, seed)
        )


def _rows(attack: str, found: dict[str, float]) -> Iterator[dict[str, Any]]:
    for view, value in found.items():
        yield {"part": "inference", "attack": attack, "view": view, "value": [value]}


def plan_for(rows: int, local: LocalTraining, rounds: int) -> FederatedPlan:
    return FederatedPlan.for_budget(
        epsilon=EPSILON,
        delta=DELTA,
        clients=CLIENTS,
        clients_per_round=CLIENTS // 4,
        rounds=rounds,
        max_norm=0.5,
        rows_per_client=rows,
        local=local,
    )


def _rounds(
    task: Task,
    images: Images,
    users: np.ndarray,
    rows: int,
    local: LocalTraining,
    seed: int,
    start: Any = None,
    rounds: int = ROUNDS,
) -> list[WatchedRound]:
    plan = plan_for(rows, local, rounds)
    first = task.start(seed) if start is None else start
    return watch_rounds(
        task.loss,
        first,
        images.rows(),
        users,
        plan.server,
        local,
        watched=WATCHED,
        rounds=rounds,
        seed=seed,
    )


def _membership(
    task: Task, seen: list[WatchedRound], train: Images, users: np.ndarray, test: Images
) -> dict[str, float]:
    found: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for client in range(WATCHED):
        own = users == client
        others = slice(client * OWN_ROWS, (client + 1) * OWN_ROWS)
        candidates = {
            "x": np.concatenate([train.x[own], test.x[others]]),
            "y": np.concatenate([train.y[own], test.y[others]]),
        }
        for view in seen[0].views:
            updates = [SeenUpdate(each.params, each.views[view][client]) for each in seen]
            scores = membership_from_updates(task.loss, updates, candidates)
            inside, outside = found.setdefault(view, ([], []))
            inside.append(scores[:OWN_ROWS])
            outside.append(scores[OWN_ROWS:])
    return {
        view: auc(Scores(members=np.concatenate(inside), outsiders=np.concatenate(outside))).value
        for view, (inside, outside) in found.items()
    }


def _property(
    task: Task, last: WatchedRound, local: LocalTraining, train: Images, test: Images
) -> dict[str, float]:
    """Whether half of a client's rows are of one class; the attacker has the test images."""
    plan = plan_for(OWN_ROWS, local, ROUNDS).server
    found = property_by_view(task.loss, last, plan, local, train.rows(), test.rows())
    return {view: estimate.value for view, estimate in found.items()}


def _one_row(task: Task, train: Images, local: LocalTraining, start: Any, seed: int) -> dict[str, float]:
    """Clients with one row each, and what division makes of an update."""
    images = Images(train.x[:CLIENTS], train.y[:CLIENTS])
    (seen,) = _rounds(task, images, np.arange(CLIENTS), 1, local, seed, start, rounds=1)
    return {
        view: float(
            np.mean([_decibels(task, start, update, images.x[at]) for at, update in enumerate(updates)])
        )
        for view, updates in seen.views.items()
    }


def _decibels(task: Task, start: Any, update: np.ndarray, truth: np.ndarray) -> float:
    layer = _tree(start, update)["dense1"]
    return psnr(truth, recover_analytically(layer, shape=truth.shape, box=(0.0, 1.0)))


def _trap(
    task: Task, train: Images, users: np.ndarray, local: LocalTraining, trap: Any, seed: int
) -> dict[str, float]:
    (seen,) = _rounds(task, train, users, OWN_ROWS, local, seed, trap, rounds=1)
    return {
        view: float(
            np.mean(
                [
                    compare_with_batch(
                        read_trap(_tree(trap, update)["dense1"]),
                        train.x[users == client].reshape(OWN_ROWS, -1),
                    ).recognisable.value
                    for client, update in enumerate(updates)
                ]
            )
        )
        for view, updates in seen.views.items()
    }


def _tree(like: Any, flat: np.ndarray) -> Any:
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
    pieces = [flat[a:b].reshape(leaf.shape) for a, b, leaf in zip(ends, ends[1:], leaves, strict=False)]
    return jax.tree.unflatten(structure, pieces)
