"""Tiny Shakespeare, the next character: speakers are the clients, and one of them is what is protected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Options
from reticent.core.keys import Stream
from reticent.data import catalog
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

CONTEXT, SYMBOLS, WIDTH, DELTA = 3, 96, 16, 1e-3
LEAST, MOST_ROWS = 10, 400  # speeches of a client, and pairs of a context and the next character
EPSILONS = (4.0, 8.0, 16.0, math.inf)


def speech(options: Options) -> Iterator[dict[str, Any]]:
    """Bits per character on speakers that nobody trains on; less is better, 6.6 knows nothing."""
    x, y, users = rows_of(text_of())
    names = np.unique(users)
    is_test = np.isin(users, names[::5])
    data = rt.Dataset({"x": x[~is_test], "y": y[~is_test]}, users=users[~is_test])
    clients = len(names) - len(names[::5])
    for epsilon in EPSILONS:
        plan, bits = plan_for(clients, epsilon, options.rounds or 60), []
        for seed in range(options.seeds):
            run = rt.federated.train(
                loss,
                start(seed),
                data,
                plan,
                optimizer=optax.sgd(1.0, momentum=0.5),
                keys=rt.Keys.seeded(FIRST_SEED + seed),
            )
            held_out = {"x": x[is_test], "y": y[is_test]}
            losses = jax.jit(jax.vmap(loss, (None, 0)))(run.params, held_out)
            bits.append(float(np.mean(losses)) / math.log(2))
        yield {
            "part": "speech",
            "clients": clients,
            "epsilon": epsilon if math.isfinite(epsilon) else "none",
            "accuracy": bits,
            "plan": repr(plan),
        }


def text_of() -> str:
    return np.asarray(catalog.load("tinyshakespeare").train["x"]).tobytes().decode("ascii")


def rows_of(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts, next characters and speakers, of all who speak often enough."""
    spoken: dict[str, list[str]] = {}
    for name, said in re.findall(r"^([A-Z][^\n:]*):\n((?:[^\n]+\n?)+)", text, re.MULTILINE):
        spoken.setdefault(name, []).append(said)
    x, y, users = [], [], []
    for client, (_, speeches) in enumerate(sorted(item for item in spoken.items() if len(item[1]) >= LEAST)):
        codes = np.frombuffer("\n".join(speeches).encode("ascii", "replace"), np.uint8)
        codes = np.clip(codes, 31, 126).astype(np.int32) - 31
        codes = codes[: MOST_ROWS + CONTEXT]
        windows = np.lib.stride_tricks.sliding_window_view(codes, CONTEXT + 1)
        x.append(windows[:, :-1])
        y.append(windows[:, -1])
        users.append(np.full(len(windows), client))
    return np.concatenate(x), np.concatenate(y), np.concatenate(users)


def start(seed: int) -> Any:
    key = rt.Keys.seeded(FIRST_SEED + seed).take(Stream.INITIALISATION)
    return {
        "tables": 0.1 * jax.random.normal(key, (CONTEXT, SYMBOLS, WIDTH)),
        "out": jnp.zeros((WIDTH, SYMBOLS)),
    }


def loss(params: Any, row: Any) -> jax.Array:
    hidden = sum(params["tables"][place][row["x"][place]] for place in range(CONTEXT))
    return -jax.nn.log_softmax(jnp.tanh(hidden) @ params["out"])[row["y"]]


def plan_for(clients: int, epsilon: float, rounds: int) -> FederatedPlan:
    given: dict[str, Any] = {
        "clients": clients,
        "sampling": "full",
        "rounds": rounds,
        "max_norm": 1.0,
        "rows_per_client": MOST_ROWS,
        "local": LocalTraining(learning_rate=1.0, epochs=1, batch_size=50),
    }
    if math.isinf(epsilon):
        return FederatedPlan.without_privacy(**given)
    return FederatedPlan.for_budget(epsilon=epsilon, delta=DELTA, **given)
