"""Rounds per processor second: the simulator beside a loop over clients, one after the other.

The loop is what one writes by hand: each local step is one compiled call, clipped updates are added up,
normal noise is added. It is compiled once, and its clients train on the simulator's rows. Both are timed in
turns in one process, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Options, Task
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

NORM, TURNS, ROUNDS = 0.5, 2, 40
CASES = (  # clients per round, rows of each, batch size, pixels, hidden units
    (1000, 10, 5, 64, ()),
    (500, 20, 5, 64, (32,)),
    (200, 60, 20, 196, (32,)),
    (100, 60, 20, 784, (128,)),
)


def speed(options: Options) -> Iterator[dict[str, Any]]:
    """Seconds of the processor for a round, and how many times as long the loop takes."""
    for clients, rows, batch, pixels, hidden in CASES:
        task = Task.of(pixels, *hidden)
        local = LocalTraining(learning_rate=0.1, epochs=1, batch_size=batch)
        draw = np.random.default_rng(0)
        x = draw.normal(size=(clients * rows, pixels)).astype(np.float32)
        y = draw.integers(10, size=len(x)).astype(np.int32)
        users = np.repeat(np.arange(clients), rows)
        plan = _plan(clients, rows, local)
        step, name = _step(task, local.learning_rate), rt.Execution(program=f"speed {clients} {pixels}")
        simulated, looped = [], []
        for _ in range(TURNS + 1):  # the first compiles
            simulated.append(_simulate(task, x, y, users, plan, name))
            looped.append(_loop(task.start(0), step, x, y, rows, plan, batch))
        ours, theirs = min(simulated[1:]), min(looped[1:])
        yield {
            "part": "speed",
            "setting": f"{clients} clients x {rows} rows, batches of {batch}, {task.model.size:,} parameters",
            "seconds": ours,
            "loop": theirs,
            "times": theirs / ours,
        }


def _plan(clients: int, rows: int, local: LocalTraining) -> FederatedPlan:
    return FederatedPlan.for_budget(
        epsilon=8,
        delta=1e-5,
        clients=clients,
        sampling="full",
        rounds=ROUNDS,
        max_norm=NORM,
        rows_per_client=rows,
        local=local,
    )


def _simulate(
    task: Task, x: np.ndarray, y: np.ndarray, users: np.ndarray, plan: FederatedPlan, name: rt.Execution
) -> float:
    """Processor seconds per round, of a whole call."""
    keys, data = rt.Keys.seeded(FIRST_SEED), rt.Dataset({"x": x, "y": y}, users=users)
    started = time.process_time()
    rt.federated.train(
        task.loss, task.start(0), data, plan, optimizer=optax.sgd(1.0), keys=keys, execution=name
    )
    return (time.process_time() - started) / plan.rounds


def _step(task: Task, rate: float) -> Any:
    def step(params: Any, x: jax.Array, y: jax.Array) -> Any:
        def mean_loss(params: Any) -> jax.Array:
            return jnp.mean(jax.vmap(lambda a, b: task.loss(params, {"x": a, "y": b}))(x, y))

        slope = jax.grad(mean_loss)(params)
        return jax.tree.map(lambda leaf, down: leaf - rate * down, params, slope)

    return jax.jit(step)


@jax.jit
def _clipped_change(before: Any, after: Any) -> Any:
    change = jax.tree.map(jnp.subtract, after, before)
    length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(change)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1, NORM / length), change)


@jax.jit
def _noised(params: Any, total: Any, key: jax.Array, deviation: float, clients: float) -> Any:
    leaves, structure = jax.tree.flatten(total)
    keys = jax.random.split(key, len(leaves))
    noisy = [
        leaf + deviation * jax.random.normal(one, leaf.shape) for leaf, one in zip(leaves, keys, strict=True)
    ]
    return jax.tree.map(lambda leaf, change: leaf + change / clients, params, structure.unflatten(noisy))


_add = jax.jit(lambda total, change: jax.tree.map(jnp.add, total, change))


def _loop(
    params: Any, step: Any, x: np.ndarray, y: np.ndarray, rows: int, plan: FederatedPlan, batch: int
) -> float:
    draw = np.random.default_rng(0)
    deviation = plan.server.noise_multiplier * NORM
    started = time.process_time()
    for number in range(plan.rounds):
        total = jax.tree.map(jnp.zeros_like, params)
        for client in range(plan.clients):
            own, order = params, client * rows + draw.permutation(rows)
            for at in range(0, rows, batch):
                taken = order[at : at + batch]
                own = step(own, x[taken], y[taken])
            total = _add(total, _clipped_change(params, own))
        params = _noised(params, total, jax.random.key(number), deviation, float(plan.clients))
    jax.block_until_ready(params)
    return (time.process_time() - started) / plan.rounds
