"""reticent: `rt.train` as a user calls it, timed from one call of `on_progress` to the next."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import jax
import optax

import reticent as rt
from benchmarks.training.cases import LEARNING_RATE, MAX_NORM, NOISE_MULTIPLIER, make_data
from benchmarks.training.serving import hear, peak_megabytes, say, spec
from benchmarks.training.workers.networks import network
from reticent.data.sampling import FixedSize, Poisson
from reticent.models.losses import classification_loss
from reticent.training.clipping import flat

_ENDLESS = 10_000_000  # steps; the run ends when nobody asks for more


class Turns:
    """Answers from inside a run that goes on: works between two moments, waits at them."""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        self.compiled: Counter[str] = Counter()
        self.compiled_late = 0
        self.is_warm = False
        self.wanted, self.since, self.busy, self.step = 0.0, 0.0, 0.0, 0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, duration_secs: float, **about: Any) -> None:
        if event.endswith("/backend_compile_duration"):
            self.compiled[str(about.get("fun_name"))] += 1
            self.compiled_late += self.is_warm

    def reached(self, moment: Any) -> None:
        elapsed, steps = time.perf_counter() - self.since, moment.step - self.step
        if not self.is_warm:
            self.is_warm = True
            say(**self.facts)
        elif elapsed < self.wanted:
            return
        else:
            loops = sum(count for name, count in self.compiled.items() if "many" in name)
            say(
                seconds=elapsed / steps,
                processor=(time.process_time() - self.busy) / steps,
                steps=steps,
                peak=peak_megabytes(),
                compiled_loops=loops,
                compiled_late=self.compiled_late,
            )
        self.wanted = hear()
        self.step, self.since, self.busy = moment.step, time.perf_counter(), time.process_time()


def main() -> None:
    asked = spec()
    case = asked["case"]
    model = network(case.network)
    data = make_data(case.network, case.examples, as_bytes=asked.get("as_bytes", False))
    kind = {"poisson": Poisson, "fixed": FixedSize}[asked.get("sampling", "poisson")]
    sampler = kind(examples=case.examples, batch_size=case.batch)
    plan = rt.Plan(
        sampler=sampler,
        clipping=flat(MAX_NORM),
        noise_multiplier=NOISE_MULTIPLIER,
        steps=_ENDLESS,
        delta=1e-5,
        adjacency=sampler.adjacencies[0],
    )
    params = model.init(jax.random.key(0))
    turns = Turns(
        parameters=model.size,
        version=rt.__version__,
        base=peak_megabytes(),
        data=sum(array.nbytes for array in data.values()) / 2**20,
    )
    rt.train(
        classification_loss(model),
        params,
        data,
        plan,
        optimizer=optax.sgd(LEARNING_RATE),
        execution=rt.Execution(microbatch=asked.get("microbatch")),
        on_progress=turns.reached,
    )


if __name__ == "__main__":
    main()
