"""Several processes that train one model together, on one machine or on many.

    import reticent as rt

    rt.distributed.start("10.0.0.1:7777", processes=2, process=0)   # before anything else uses JAX
    run = rt.train(loss, params, my_shard, plan, optimizer=optimizer)

Each process brings its own records. Processes are those of `jax.distributed`.
"""

from __future__ import annotations

from reticent.distributed.starting import start as start

__all__ = ["start"]
