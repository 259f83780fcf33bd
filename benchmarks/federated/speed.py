"""Seconds per round: the simulator on one device and on all, beside a loop over clients.

The loop is what one writes by hand: each local step is one compiled call, clipped updates are added up,
normal noise is added. It is compiled once, and its clients train on the simulator's rows. All are timed in
turns in one process, on a machine that does nothing else; the best of each counts.

    JAX_NUM_CPU_DEVICES=2 python -m benchmarks.federated --part speed       # as many as there are cores
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

import reticent as rt
from benchmarks.federated.clients import FIRST_SEED, Options, Task
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

NORM, TURNS = 0.5, 2
CASES = (  # clients per round, rows of each, batch size, pixels, hidden units, rounds
    (1000, 10, 5, 64, (), 40),
    (500, 20, 5, 64, (32,), 40),
    (1000, 20, 10, 784, (32,), 5),
    (100, 60, 20, 784, (128,), 10),
)


def speed(options: Options) -> Iterator[dict[str, Any]]:
    """Seconds for a round, and how many times as long the loop takes."""
    for clients, rows, batch, pixels, hidden, rounds in CASES:
        task = Task.of(pixels, *hidden)
        local = LocalTraining(learning_rate=0.1, epochs=1, batch_size=batch)
        draw = np.random.default_rng(0)
        x = draw.normal(size=(clients * rows, pixels)).astype(np.float32)
        y = draw.integers(10, size=len(x)).astype(np.int32)
        data = rt.Dataset({"x": x, "y": y}, users=np.repeat(np.arange(clients), rows))
        plan, step = _plan(clients, rows, local, rounds), _step(task, local.learning_rate)
        found: dict[str, list[float]] = {}
        for _ in range(TURNS + 1):  # the first compiles
            for devices in {1: 0, len(jax.devices()): 0}:
                name = "one device" if devices == 1 else "all devices"
                found.setdefault(name, []).append(_simulate(task, data, plan, devices))
            found.setdefault("loop", []).append(_loop(task.start(0), step, x, y, rows, plan, batch))
        best = {name: min(seconds[1:]) for name, seconds in found.items()}
        fastest = min(seconds for name, seconds in best.items() if name != "loop")
        yield {
            "part": "speed",
            "setting": f"{clients} clients x {rows} rows, batches of {batch}, {task.model.size:,} parameters",
            "devices": len(jax.devices()),
            "seconds": best,
            "times": best["loop"] / fastest,
        }


def _plan(clients: int, rows: int, local: LocalTraining, rounds: int) -> FederatedPlan:
    return FederatedPlan.for_budget(
        epsilon=8,
        delta=1e-5,
        clients=clients,
        sampling="full",
        rounds=rounds,
        max_norm=NORM,
        rows_per_client=rows,
        local=local,
    )


def _simulate(task: Task, data: rt.Dataset, plan: FederatedPlan, devices: int) -> float:
    """Seconds per round, of a whole call."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("records",))
    how = rt.Execution(program=f"speed {plan!r} {task.model.size}", mesh=mesh)
    keys = rt.Keys.seeded(FIRST_SEED)
    started = time.perf_counter()
    rt.federated.train(
        task.loss, task.start(0), data, plan, optimizer=optax.sgd(1.0), keys=keys, execution=how
    )
    return (time.perf_counter() - started) / plan.rounds


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
    started = time.perf_counter()
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
    return (time.perf_counter() - started) / plan.rounds
