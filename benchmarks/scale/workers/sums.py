"""One of two processes that add up arrays of several sizes over the loopback device."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import reticent as rt
from benchmarks.scale.workers.telling import asked, say

_AT_ONCE = 8  # sums in one compiled call


def main() -> None:
    wanted = asked()
    rt.distributed.start(f"127.0.0.1:{wanted['port']}", processes=2, process=wanted["process"])
    mesh = Mesh(np.array(jax.devices()), ("records",))
    say(seconds={str(size): _seconds(mesh, size, wanted["rounds"]) for size in wanted["sizes"]})


def _seconds(mesh: Mesh, size: int, rounds: int) -> float:
    """Of one sum of so many bytes from each process."""

    def many(x: jax.Array) -> jax.Array:
        halved = lambda now, _: (jax.lax.psum(now, "records") / 2, None)  # noqa: E731
        return jax.lax.scan(halved, x, None, length=_AT_ONCE)[0]

    spec = PartitionSpec()
    program: Any = jax.jit(jax.shard_map(many, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    own = np.ones(size // 4, np.float32)
    x = jax.make_array_from_callback(own.shape, NamedSharding(mesh, spec), lambda index: own[index])
    jax.block_until_ready(program(x))
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(program(x))
        found.append((time.perf_counter() - start) / _AT_ONCE)
    assert float(jnp.max(program(x).addressable_data(0))) == 1.0
    return median(found)


if __name__ == "__main__":
    main()
