"""The pieces of a step by themselves, on the cores that this process was given."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.scale.workers import cases
from benchmarks.scale.workers.telling import asked, say
from reticent.core import trees
from reticent.core.whole_normals import whole_normals
from reticent.data.sampling import Batch, Poisson
from reticent.models.losses import classification_loss
from reticent.training.devices.memory import examples_at_once
from reticent.training.devices.mesh import own_part
from reticent.training.gradients import GradientSum, clipped_gradient_sum

_BLOCKS = 4


def main() -> None:
    wanted = asked()
    rounds = wanted["rounds"]
    sampler = Poisson(examples=wanted["examples"], batch_size=wanted["batch"])
    draw = jax.jit(lambda root: sampler.draw(root, jnp.arange(1), sampler.examples))
    root = jax.random.key(0, impl="rbg")
    batch = jax.tree.map(lambda leaf: leaf[0], draw(root))
    held = jnp.array([[0, wanted["examples"] // wanted["devices"]]], jnp.int32)
    numbers = wanted["numbers"]
    noise = jax.jit(lambda key: jnp.sum(whole_normals(key, numbers)))
    say(
        draw=_seconds(lambda: draw(root), rounds),
        own=_seconds(lambda: jax.jit(own_part)(Batch(batch.indices, batch.is_real), held), rounds),
        capacity=sampler.capacity,
        noise=_seconds(lambda: noise(root), rounds) / numbers,
        gradients={name: _gradient(name, rounds) for name in ("cnn", "mlp")},
    )


def _seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median time of a call, after the one that compiles."""
    jax.block_until_ready(work())
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - start)
    return median(found)


def _gradient(name: str, rounds: int) -> dict[str, float]:
    """Flops of the ordinary gradient of one example, as XLA counts them, and seconds of a clipped one."""
    model = cases.network(name)
    loss, params = classification_loss(model), model.init(jax.random.key(0))
    example = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), cases.examples(name, 1)
    )
    at_once = examples_at_once(loss, params, example, "auto")
    rows = {key: jnp.asarray(array) for key, array in cases.examples(name, at_once).items()}

    def mean(params: Any, rows: Any) -> jax.Array:
        return jnp.mean(jax.vmap(loss, in_axes=(None, 0))(params, rows))

    ordinary: Any = jax.jit(jax.grad(mean)).lower(params, rows).compile().cost_analysis()
    blocks = jax.jit(partial(_blocks, clipped_gradient_sum(loss, max_norm=1.0)))
    seconds = _seconds(lambda: blocks(params, rows, jnp.ones(at_once, bool)), rounds) / _BLOCKS
    return {"flops": ordinary["flops"] / at_once, "seconds": seconds / at_once, "at_once": at_once}


def _blocks(gradient_sum: GradientSum, params: Any, rows: Any, is_real: jax.Array) -> Any:
    """Several blocks in one compiled loop, as a step computes them: alone, each would ask for memory anew."""

    def add(total: Any, _: None) -> tuple[Any, None]:
        nearly = jax.tree.map(lambda leaf, so_far: leaf + 1e-20 * so_far, params, total)  # not the same twice
        return trees.add(total, gradient_sum(nearly, rows, is_real)[0]), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), None, length=_BLOCKS)[0]


if __name__ == "__main__":
    main()
