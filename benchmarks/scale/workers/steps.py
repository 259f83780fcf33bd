"""`rt.train` as a user calls it, alone or as one of several processes, timed between ends of epochs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import optax

import reticent as rt
from benchmarks.scale.workers import cases
from benchmarks.scale.workers.telling import asked, hear, say
from reticent.models.losses import classification_loss

_ENDLESS = 10_000_000  # steps; the run ends when nobody asks for more


class Turns:
    """Works for as many epochs as it is told, then waits to be told again."""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        self.left, self.step, self.since, self.bytes, self.processor = 1, 0, 0.0, 0, 0.0

    def reached(self, moment: Any) -> None:
        self.left -= 1
        if self.left:
            return
        taken = moment.step - self.step
        say(
            seconds=(time.perf_counter() - self.since) / taken,
            processor=(time.process_time() - self.processor) / taken,
            bytes=(_loopback_bytes() - self.bytes) / taken,
            steps=taken,
            **self.facts,
        )
        self.facts = {}
        self.left = hear()
        self.step, self.bytes = moment.step, _loopback_bytes()
        self.since, self.processor = time.perf_counter(), time.process_time()


def _loopback_bytes() -> int:
    """What the machine sent to itself so far, everybody's: 0 where the system does not say."""
    try:
        lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    own = [line.split() for line in lines if line.strip().startswith("lo:")]
    return int(own[0][9]) if own else 0


def main() -> None:
    wanted = asked()
    count, process = wanted["processes"], wanted["process"]
    if count > 1:
        rt.distributed.start(f"127.0.0.1:{wanted['port']}", processes=count, process=process)
    elif wanted["devices"] > 1:
        jax.config.update("jax_num_cpu_devices", wanted["devices"])
    rows = wanted["rows"]
    share = slice(rows * process // count, rows * (process + 1) // count)
    model = cases.network(wanted["network"])
    params = model.init(jax.random.key(0))
    plan = cases.plan(rows, wanted["batch"], _ENDLESS)
    facts = {
        "params": model.size,
        "leaves": len(jax.tree.leaves(params)),
        "capacity": plan.sampler.capacity,
    }
    rt.train(
        classification_loss(model),
        params,
        cases.examples(wanted["network"], share.stop - share.start, share.start),
        plan,
        optimizer=optax.sgd(0.1),
        on_progress=Turns(**facts).reached,
    )


if __name__ == "__main__":
    main()
