"""A backdoor: one client of a hundred replaces the model whenever it is in a round, and then no more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Images, Options, Task, images_of
from reticent.federated import poisoning
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

CLIENTS, PER_ROUND, ATTACKER, TARGET, DELTA = 100, 20, 0, 0, 1e-3
SETTINGS = (("plain averages", math.inf), ("epsilon 8", 8.0), ("epsilon 4", 4.0), ("epsilon 2", 2.0))


def backdoor(options: Options) -> Iterator[dict[str, Any]]:
    """Clean accuracy, the success of a pixel trigger, and how much of it is left after honest rounds."""
    train, test = images_of(options.datasets[0], rows=None if options.is_full else 12_000)
    task = Task.of(train.pixels, 128)
    seen = test.y != TARGET
    triggered = Images(poisoning.with_trigger(test.x[seen]), np.full(int(seen.sum()), TARGET, np.int32))
    for name, epsilon in SETTINGS:
        clean, success, later = [], [], []
        for seed in range(options.seeds):
            owners, changed = _poisoned(train, seed)
            rounds = options.rounds or 60
            params = _attacked(task, changed, owners, epsilon, rounds, seed, task.start(seed))
            clean.append(task.share_right(params, test))
            success.append(task.share_right(params, triggered))
            honest = Images(changed.x[owners != ATTACKER], changed.y[owners != ATTACKER])
            left = _attacked(
                task, honest, owners[owners != ATTACKER], epsilon, rounds // 3, 500 + seed, params
            )
            later.append(task.share_right(left, triggered))
        yield {
            "part": "backdoor",
            "setting": name,
            "accuracy": clean,
            "backdoor": success,
            "after honest rounds": later,
        }


def _poisoned(train: Images, seed: int) -> tuple[np.ndarray, Images]:
    """Clients, and their rows; the attacker has as many as others, half of them with a trigger."""
    owners = rt.federated.dirichlet_split(train.y, CLIENTS, 0.9, seed=seed)
    random = np.random.default_rng(FIRST_SEED + seed)
    was = owners == ATTACKER
    owners[was] = 1 + random.integers(CLIENTS - 1, size=int(was.sum()))
    owners[random.permutation(len(owners))[: len(owners) // CLIENTS]] = ATTACKER
    is_bad = owners == ATTACKER
    changed = Images(train.x.copy(), train.y.copy())
    changed.x[is_bad], changed.y[is_bad] = poisoning.backdoor(train.x[is_bad], train.y[is_bad], target=TARGET)
    return owners, changed


def _attacked(
    task: Task, images: Images, owners: np.ndarray, epsilon: float, rounds: int, seed: int, start: Any
) -> Any:
    setting: dict[str, Any] = {
        "clients": CLIENTS,
        "clients_per_round": PER_ROUND,
        "rounds": rounds,
        "rows_per_client": 2 * len(images.y) // CLIENTS,
        "local": LocalTraining(learning_rate=0.1, epochs=2, batch_size=32),
    }
    if math.isinf(epsilon):
        plan = FederatedPlan.without_privacy(max_norm=1e6, **setting)  # nothing is clipped
    else:
        plan = FederatedPlan.for_budget(epsilon=epsilon, delta=DELTA, max_norm=0.3, **setting)

    def replace(update: Any, params: Any, rows: Any) -> Any:
        factor = jnp.where(rows["is_bad"][0], float(PER_ROUND), 1.0)
        return jax.tree.map(lambda leaf: factor * leaf, update)

    return rt.federated.train(
        lambda params, row: task.loss(params, {"x": row["x"], "y": row["y"]}),
        start,
        rt.Dataset({**images.rows(), "is_bad": owners == ATTACKER}, users=owners),
        plan,
        keys=rt.Keys.seeded(FIRST_SEED + seed),
        tamper=replace,
    ).params
