"""No privacy: the mean loss of a batch of random rows, its gradient and SGD, compiled.

Takes many steps in one compiled call, as ours does, or one step per call, whichever is faster: XLA's
convolutions on CPU are several times slower inside a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks.training.cases import LEARNING_RATE, Case, make_data, steps_at_once
from benchmarks.training.serving import peak_megabytes, serve, spec
from benchmarks.training.workers.networks import network
from reticent.models.losses import classification_loss


def main() -> None:
    asked = spec()
    case = asked["case"]
    model = network(case.network)
    rows = make_data(case.network, case.examples)
    params = model.init(jax.random.key(0))
    base = peak_megabytes()
    data = {key: jnp.asarray(array) for key, array in rows.items()}
    step = _step(classification_loss(model), case)
    ways = {f"{steps_at_once(case)} steps per call": _looped(step, params, data, steps_at_once(case))}
    if not asked.get("is_looped"):
        ways["one step per call"] = _single(step, params, data)
    choice = min(ways, key=lambda name: _seconds_a_step(ways[name])) if len(ways) > 1 else next(iter(ways))
    cost = jax.jit(step).lower(params, data, jax.random.key(0)).cost_analysis() or {}
    serve(
        ways[choice],
        parameters=model.size,
        operations=cost.get("flops", 0.0),
        bytes=cost.get("bytes accessed", 0.0),
        version=jax.__version__,
        choice=choice,
        base=base,
        data=sum(array.nbytes for array in rows.values()) / 2**20,
    )


def _step(loss: Callable[..., jax.Array], case: Case) -> Callable[..., Any]:
    optimizer = optax.sgd(LEARNING_RATE)

    def mean_loss(params: Any, batch: Any) -> jax.Array:
        return jnp.mean(jax.vmap(loss, (None, 0))(params, batch))

    def step(params: Any, data: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        places = jax.random.randint(key, (case.batch,), 0, case.examples)
        batch = jax.tree.map(lambda leaf: leaf[places], data)
        value, gradient = jax.value_and_grad(mean_loss)(params, batch)
        updates, _ = optimizer.update(gradient, optimizer.init(params), params)
        return optax.apply_updates(params, updates), value

    return step


def _looped(step: Callable[..., Any], params: Any, data: Any, count: int) -> Callable[[], int]:
    @jax.jit
    def many(params: Any, data: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        return jax.lax.scan(lambda params, key: step(params, data, key), params, jax.random.split(key, count))

    return _repeated(lambda params, key: many(params, data, key), params, count)


def _single(step: Callable[..., Any], params: Any, data: Any) -> Callable[[], int]:
    one = jax.jit(step)
    return _repeated(lambda params, key: one(params, data, key), params, 1)


def _repeated(call: Callable[..., Any], params: Any, count: int) -> Callable[[], int]:
    now: dict[str, Any] = {"params": params, "calls": 0}

    def work() -> int:
        now["calls"] += 1
        now["params"], value = call(now["params"], jax.random.key(now["calls"]))
        jax.block_until_ready((now["params"], value))
        return count

    return work


def _seconds_a_step(work: Callable[[], int]) -> float:
    work()
    start, steps = time.perf_counter(), 0
    while steps < 4 or time.perf_counter() - start < 0.5:
        steps += work()
    return (time.perf_counter() - start) / steps


if __name__ == "__main__":
    main()
