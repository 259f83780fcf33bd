"""The Gaussian noise of our step and nothing else: what of the difference no gradient rule can save."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import reticent as rt
from benchmarks.training.cases import NOISE_MULTIPLIER, steps_at_once
from benchmarks.training.serving import serve, spec
from benchmarks.training.workers.networks import network
from reticent.core.keys import Stream, step_key
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.gaussian import add_gaussian_noise
from reticent.mechanisms.sensitivity import BoundedSum


def main() -> None:
    case = spec()["case"]
    model = network(case.network)
    count, event = steps_at_once(case), Gaussian(noise_multiplier=NOISE_MULTIPLIER)
    root = rt.Keys.from_os().take(Stream.NOISE)

    @jax.jit
    def many(tree: Any, root: jax.Array) -> Any:
        def one(tree: Any, step: jax.Array) -> tuple[Any, None]:
            return add_gaussian_noise(step_key(root, step), BoundedSum(value=tree, max_norm=1.0), event), None

        return jax.lax.scan(one, tree, jnp.arange(count))[0]

    tree = model.init(jax.random.key(0))

    def work() -> int:
        jax.block_until_ready(many(tree, root))
        return count

    serve(work, parameters=model.size, version=rt.__version__)


if __name__ == "__main__":
    main()
