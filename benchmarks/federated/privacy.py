"""What privacy costs on images: DP-FedAvg and DP-FTRL at user level, beside the same rounds without noise."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import optax

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Images, Options, Task, images_of
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

DELTA = 1e-5
FEW, HIDDEN = 500, (32,)  # fewer clients have a smaller model: noise grows with the root of its size
EPSILONS = (2.0, 4.0, 8.0, math.inf)


class Setting(NamedTuple):
    """How many clients there are, and who is in a round; found by a few tries at epsilon 4."""

    clients: int
    concentration: float
    per_round: int
    rounds: int
    sampling: Any
    name: str
    noise: Any = None


def settings() -> tuple[Setting, ...]:
    banded = rt.noise.banded(bands=5)
    return (
        Setting(100, 0.5, 100, 10, "full", "DP-FedAvg, all in every round"),
        Setting(100, 0.1, 100, 10, "full", "DP-FedAvg, all in every round"),
        Setting(1000, 0.5, 200, 30, "poisson", "DP-FedAvg, secret coins"),
        Setting(1000, 0.1, 200, 30, "poisson", "DP-FedAvg, secret coins"),
        Setting(1000, 0.5, 200, 30, "cyclic", "DP-FTRL, 5 bands, in turns", banded),
        Setting(1000, 0.1, 200, 30, "cyclic", "DP-FTRL, 5 bands, in turns", banded),
    )


def privacy(options: Options) -> Iterator[dict[str, Any]]:
    """Accuracy on the test set at several budgets, and of the same rounds without noise."""
    for setting in settings():
        is_few = setting.clients < FEW
        train, test = images_of(options.datasets[0], is_halved=is_few)
        task = Task.of(train.pixels, *(() if is_few else HIDDEN))
        for epsilon in EPSILONS:
            accuracies, started = [], time.process_time()
            plan = plan_for(setting, epsilon, train, options.rounds or setting.rounds)
            for seed in range(options.seeds):
                owners = rt.federated.dirichlet_split(
                    train.y, setting.clients, setting.concentration, seed=seed
                )
                run = rt.federated.train(
                    task.loss,
                    task.start(seed),
                    rt.Dataset(train.rows(), users=owners),
                    plan,
                    optimizer=optax.sgd(1.0, momentum=0.0 if is_few else 0.5),
                    keys=rt.Keys.seeded(FIRST_SEED + seed),
                )
                accuracies.append(task.share_right(run.params, test))
            yield {
                "part": "privacy",
                "clients": setting.clients,
                "dirichlet": setting.concentration,
                "name": setting.name,
                "epsilon": epsilon if math.isfinite(epsilon) else "none",
                "accuracy": accuracies,
                "seconds": (time.process_time() - started) / options.seeds,
                "plan": repr(plan),
            }


def plan_for(setting: Setting, epsilon: float, train: Images, rounds: int) -> FederatedPlan:
    given: dict[str, Any] = {
        "clients": setting.clients,
        "clients_per_round": None if setting.sampling == "full" else setting.per_round,
        "rounds": rounds,
        "max_norm": 1.0,
        "rows_per_client": 2 * len(train.y) // setting.clients,
        "local": LocalTraining(learning_rate=0.3, epochs=1, batch_size=32),
        "sampling": setting.sampling,
    }
    if math.isinf(epsilon):
        return FederatedPlan.without_privacy(**given)
    return FederatedPlan.for_budget(epsilon=epsilon, delta=DELTA, noise=setting.noise, **given)
