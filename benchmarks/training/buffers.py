"""What a compiled step needs in memory beyond parameters and data, by XLA's own account of its buffers.

    python -m benchmarks.training.buffers

The perceptron 784-512-512-10 on 60,000 examples: `rt.train` beside plain JAX, at several batch sizes. Unlike
the resident set of a process, this leaves out what the compiler itself takes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent import models
from reticent.data.sampling import Poisson
from reticent.training import loop
from reticent.training.clipping import flat

EXAMPLES, STEPS = 60_000, 8
MODEL = models.mlp((784, 512, 512, 10))
LOSS = models.classification_loss(MODEL)


class _Seen(Exception):
    """Ends a run as soon as its compiled call is known."""

    def __init__(self, megabytes: float) -> None:
        self.megabytes = megabytes


def ours(params: Any, data: dict[str, np.ndarray], batch_size: int) -> float:
    plan = rt.Plan(
        sampler=Poisson(examples=EXAMPLES, batch_size=batch_size),
        clipping=flat(1.0),
        noise_multiplier=1.0,
        steps=STEPS,
        delta=1e-6,
        adjacency=rt.Adjacency.ADD_OR_REMOVE,
    )
    compiled = loop._compiled

    def looked_at(*args: Any) -> Any:
        many = compiled(*args)

        def look(*given: Any) -> Any:
            raise _Seen(_megabytes(many.lower(*given)))  # type: ignore[attr-defined]

        return look

    loop._compiled = looked_at
    try:
        rt.train(LOSS, params, data, plan, optimizer=optax.sgd(0.1))
    except _Seen as seen:
        return seen.megabytes
    finally:
        loop._compiled = compiled
    raise AssertionError("the run took no step")


def plain(params: Any, data: dict[str, np.ndarray], batch_size: int) -> float:
    optimizer = optax.sgd(0.1)

    def many(params: Any, data: Any, key: jax.Array) -> Any:
        def one(params: Any, key: jax.Array) -> tuple[Any, None]:
            rows = jax.random.randint(key, (batch_size,), 0, EXAMPLES)
            batch = {name: leaf[rows] for name, leaf in data.items()}
            mean = lambda params: jnp.mean(jax.vmap(LOSS, in_axes=(None, 0))(params, batch))  # noqa: E731
            updates, _ = optimizer.update(jax.grad(mean)(params), optimizer.init(params), params)
            return optax.apply_updates(params, updates), None

        return jax.lax.scan(one, params, jax.random.split(key, STEPS))[0]

    return _megabytes(jax.jit(many).lower(params, data, jax.random.key(0)))


def _megabytes(lowered: Any) -> float:
    return lowered.compile().memory_analysis().temp_size_in_bytes / 2**20


def main() -> None:
    rng = np.random.default_rng(0)
    data = {
        "x": rng.random((EXAMPLES, 784), dtype=np.float32),
        "y": rng.integers(0, 10, EXAMPLES).astype(np.int32),
    }
    params = MODEL.init(jax.random.key(0))
    print("| batch | reticent, MB | not private, MB | ratio |\n|---|---|---|---|")
    for batch_size in (1024, 4096, 16384):
        mine, theirs = ours(params, data, batch_size), plain(params, data, batch_size)
        print(f"| {batch_size} | {mine:.1f} | {theirs:.1f} | {mine / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
