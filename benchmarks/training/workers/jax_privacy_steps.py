"""jax-privacy: `clipped_grad`, its Gaussian privatizer and optax in one jitted step, on one resident batch.

The microbatch is the fastest of a few that fit into memory, found before anything is measured.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_privacy
import optax

from benchmarks.training.cases import (
    LEARNING_RATE,
    MAX_NORM,
    MOST_GIGABYTES,
    NOISE_MULTIPLIER,
    gradient_gigabytes,
    make_data,
)
from benchmarks.training.serving import serve, spec
from benchmarks.training.workers.networks import network
from reticent.models.losses import classification_loss

_MICROBATCHES = (8, 64)


def main() -> None:
    case = spec()["case"]
    model = network(case.network)
    batch = {key: jnp.asarray(array) for key, array in make_data(case.network, case.batch).items()}
    params = model.init(jax.random.key(0))
    choices: list[int | None] = [size for size in _MICROBATCHES if size < case.batch]
    if gradient_gigabytes(model.size, case.batch) <= MOST_GIGABYTES:
        choices.append(None)
    timed = [(_seconds(_stepper(model, params, batch, case.batch, size)), size) for size in choices]
    best = min(timed, key=lambda pair: pair[0])[1]
    serve(
        _stepper(model, params, batch, case.batch, best),
        parameters=model.size,
        version=jax_privacy.__version__,
        choice="whole batch" if best is None else f"microbatch {best}",
    )


def _stepper(model: Any, params: Any, batch: Any, size: int, microbatch: int | None) -> Callable[[], int]:
    """A function that takes one step each time it is called."""
    gradient = jax_privacy.clipped_grad(
        classification_loss(model),
        l2_clip_norm=MAX_NORM,
        normalize_by=size,
        keep_batch_dim=False,
        microbatch_size=microbatch,
    )
    privatizer = jax_privacy.noise_addition.gaussian_privatizer(
        stddev=NOISE_MULTIPLIER * MAX_NORM / size, prng_key=jax.random.key(0)
    )
    optimizer = optax.chain(privatizer, optax.sgd(LEARNING_RATE))

    @jax.jit
    def step(params: Any, slots: Any, batch: Any) -> tuple[Any, Any]:
        updates, slots = optimizer.update(gradient(params, batch), slots, params)
        return optax.apply_updates(params, updates), slots

    now = [params, optimizer.init(params)]

    def work() -> int:
        now[:] = jax.block_until_ready(step(*now, batch))
        return 1

    return work


def _seconds(work: Callable[[], int]) -> float:
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
