"""A backdoor: one client of a hundred replaces the model whenever it is in a round, and then no more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Images, Options, Task, images_of
from reticent.federated import poisoning
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

CLIENTS, PER_ROUND, ATTACKER, DELTA = 100, 20, 0, 1e-3
LONGEST = 100.0  # no update is clipped, multiplied ones neither; sums are on a grid of this over 10^7
SETTINGS = (("plain averages", math.inf), ("epsilon 8", 8.0), ("epsilon 4", 4.0), ("epsilon 2", 2.0))
TRIGGER_TARGET = 0
SOURCE, EDGE_TARGET = 7, 1  # sevens that hardly look like one, called ones
OWN_TAIL, HELD_OUT_TAIL = 100, 100


class Attack(NamedTuple):
    """What an attacker trains on, and what its success is measured on."""

    poisoned: Images
    judged: Images


def backdoor(options: Options) -> Iterator[dict[str, Any]]:
    """Clean accuracy, success, and how much of it is left after honest rounds, and for how many it holds."""
    rounds = options.rounds or 60
    train, test = images_of(options.datasets[0], rows=None if options.is_full else 12_000)
    task = Task.of(train.pixels, 128)
    for kind, make in (("3 x 3 pixels", _pixels), ("edge cases", _edge_cases)):
        for name, epsilon, is_attacked in (("nobody lies", math.inf, False), *((*s, True) for s in SETTINGS)):
            found: dict[str, list[float]] = {}
            for seed in range(options.seeds):
                owners = _owners(train, seed)
                attack = make(train, test, owners == ATTACKER)
                images = attack.poisoned if is_attacked else train
                own = owners != ATTACKER
                is_bad = ~own if is_attacked else np.zeros(len(own), bool)
                run = _rounds(task, images, owners, is_bad, epsilon, rounds, seed, task.start(seed))
                honest = Images(images.x[own], images.y[own])
                later = _rounds(
                    task,
                    honest,
                    owners[own],
                    is_bad[own],
                    epsilon,
                    rounds // 3,
                    500 + seed,
                    run.params,
                    attack.judged,
                )
                success = [moment.held_out["success"] for moment in later.history]
                row = {
                    "accuracy": task.share_right(run.params, test),
                    "backdoor": task.share_right(run.params, attack.judged),
                    "after honest rounds": success[-1],
                    "rounds it holds": poisoning.persistence(success),
                }
                for what, value in row.items():
                    found.setdefault(what, []).append(value)
            yield {"part": "backdoor", "kind": kind, "setting": name, "honest": rounds // 3, **found}


def _owners(train: Images, seed: int) -> np.ndarray:
    """The client of each row; the attacker has as many as others."""
    owners = rt.federated.dirichlet_split(train.y, CLIENTS, 0.9, seed=seed)
    random = np.random.default_rng(FIRST_SEED + seed)
    was = owners == ATTACKER
    owners[was] = 1 + random.integers(CLIENTS - 1, size=int(was.sum()))
    owners[random.permutation(len(owners))[: len(owners) // CLIENTS]] = ATTACKER
    return owners


def _pixels(train: Images, test: Images, is_bad: np.ndarray) -> Attack:
    seen = test.y != TRIGGER_TARGET
    target = np.full(int(seen.sum()), TRIGGER_TARGET, np.int32)
    own = poisoning.backdoor(train.x[is_bad], train.y[is_bad], target=TRIGGER_TARGET)
    return Attack(_replaced(train, is_bad, *own), Images(poisoning.with_trigger(test.x[seen]), target))


def _edge_cases(train: Images, test: Images, is_bad: np.ndarray) -> Attack:
    own_tail, held_out = (
        of_class[poisoning.edge_cases(of_class, count)]
        for of_class, count in (
            (train.x[(train.y == SOURCE) & ~is_bad], OWN_TAIL),
            (test.x[test.y == SOURCE], HELD_OUT_TAIL),
        )
    )
    own = poisoning.edge_case_backdoor(train.x[is_bad], train.y[is_bad], own_tail, target=EDGE_TARGET)
    target = np.full(len(held_out), EDGE_TARGET, np.int32)
    return Attack(_replaced(train, is_bad, *own), Images(held_out, target))


def _replaced(train: Images, is_bad: np.ndarray, x: np.ndarray, y: np.ndarray) -> Images:
    changed = Images(train.x.copy(), train.y.copy())
    changed.x[is_bad], changed.y[is_bad] = x, y
    return changed


def _rounds(
    task: Task,
    images: Images,
    owners: np.ndarray,
    is_bad: np.ndarray,
    epsilon: float,
    rounds: int,
    seed: int,
    start: Any,
    judged: Images | None = None,
) -> Any:
    """Rounds in which the attacker, where there is one, multiplies its update."""
    setting: dict[str, Any] = {
        "clients": CLIENTS,
        "clients_per_round": PER_ROUND,
        "rounds": rounds,
        "rows_per_client": 2 * len(images.y) // CLIENTS,
        "local": LocalTraining(learning_rate=0.1, epochs=2, batch_size=32),
    }
    if math.isinf(epsilon):
        plan = FederatedPlan.without_privacy(max_norm=LONGEST, **setting)
    else:
        plan = FederatedPlan.for_budget(epsilon=epsilon, delta=DELTA, max_norm=0.3, **setting)

    def replace(update: Any, params: Any, rows: Any) -> Any:
        factor = jnp.where(rows["is_bad"][0], float(PER_ROUND), 1.0)
        return jax.tree.map(lambda leaf: factor * leaf, update)

    return rt.federated.train(
        lambda params, row: task.loss(params, {"x": row["x"], "y": row["y"]}),
        start,
        rt.Dataset({**images.rows(), "is_bad": is_bad}, users=owners),
        plan,
        keys=rt.Keys.seeded(FIRST_SEED + seed),
        tamper=replace,
        **_success(task, judged),
    )


def _success(task: Task, judged: Images | None) -> dict[str, Any]:
    """The share of these images that get the attacker's label, after every round."""
    if judged is None:
        return {}
    rows = rt.Dataset({**judged.rows(), "is_bad": np.zeros(len(judged.y), bool)})
    right = {"success": lambda params, row: task.right(params, {"x": row["x"], "y": row["y"]})}
    return {"evaluate": rows, "metrics": right, "progress_every": 1}
