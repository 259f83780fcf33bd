"""What this machine can do with what we use: a product of matrices, or a copy of memory, by JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.training.serving import serve, spec

_SIDE = 2048
_NUMBERS = 1 << 26  # 256 MB: no cache holds it


def main() -> None:
    if spec()["what"] == "product":
        one = jnp.ones((_SIDE, _SIDE), jnp.float32)
        multiply = jax.jit(jnp.matmul)
        serve(lambda: _done(multiply(one, one)), amount=2.0 * _SIDE**3)
    else:
        many = jnp.zeros(_NUMBERS, jnp.float32)
        copy = jax.jit(lambda many: many + 1)
        serve(lambda: _done(copy(many)), amount=8.0 * _NUMBERS)  # read and written


def _done(result: jax.Array) -> int:
    jax.block_until_ready(result)
    return 1


if __name__ == "__main__":
    main()
