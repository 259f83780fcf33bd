"""Proves what the fast accountant says: random settings, and those of our benchmarks.

    python -m benchmarks.certify --count 500            random settings, and all of our benchmarks
    python -m benchmarks.certify --count 50 --seconds 60
    python -m benchmarks.certify --log FILE             goes on where an earlier call stopped, and tries again
                                                        what was too slow for a smaller --seconds

A certificate is asked for the very bound that the accountant prints, so "proved" means that this number
is a theorem. "close" means that the proved bound is larger by less than 1e-6, on another lattice. A
larger excess is a bug and fails the run. What other theorems gave (Renyi divergences, concentrated DP)
may lie below what a lattice proves. That, and what took too long, is counted. `room` is how far the
printed bound lies above the least that is proved on the same lattice: error terms of floating point, and
the lattice itself where the certificate needs none. Of several releases it is wanted below 1e-6.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.accounting import CASES, DELTA, event_of
from benchmarks.accounting_fuzz import random_setting
from reticent.accounting.calibrate import noise_multiplier
from reticent.accounting.certificate.checker import check
from reticent.accounting.certificate.prover import least_epsilon, prove
from reticent.accounting.setting import Setting
from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import Unproven
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

CLOSE = 1e-6  # relative
_PLANS = ((1024, 2344), (512, 2344), (256, 14_063))  # batch size and steps on 60,000 examples


class Task(NamedTuple):
    name: str
    event: Event
    delta: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE
    group: int = 1


class Outcome(NamedTuple):
    """What became of a bound; `excess` of the proved one over the printed one, `room` the other way round."""

    kind: str
    epsilon: float
    excess: float = 0.0
    room: float = 0.0
    proving: float = 0.0
    checking: float = 0.0


def of_benchmarks() -> Iterator[Task]:
    for case in CASES:
        yield Task(f"accounting ({case.name})", event_of(case), DELTA)
    for batch, steps in _PLANS:
        for epsilon in (0.5, 1.0, 2.0, 3.0, 8.0):
            plan = Setting(examples=60_000, batch_size=batch, steps=steps, noise_multiplier=1.0)
            noise = noise_multiplier(plan, epsilon=epsilon, delta=DELTA)
            yield Task(
                f"batch {batch}, epsilon {epsilon:g}", replace(plan, noise_multiplier=noise).event, DELTA
            )


def at_random(count: int, first: int, seed: int) -> Iterator[Task]:
    for number in range(first, first + count):
        found = random_setting(np.random.default_rng([seed, number]))
        yield Task(f"random {number}", found.event, found.delta, found.adjacency, found.group)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of CPU: a busy machine changes nothing
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def examine(task: Task, seconds: int) -> Outcome:
    cost = tight(task.event, task.delta, task.adjacency, group=task.group)
    if not math.isfinite(cost.upper):
        return Outcome("infinite", cost.upper)
    try:
        with limited(seconds):
            start = time.process_time()
            found = prove(task.event, cost.upper, task.delta, task.adjacency, group=task.group)
            proving = time.process_time() - start
            start = time.process_time()
            check(found)
            checking = time.process_time() - start
            room = cost.upper / least - 1 if (least := least_epsilon(found)) > 0 else 0.0
    except TimeoutError:
        return Outcome("too slow", cost.upper)
    except Unproven as error:
        is_covered = not error.happened.startswith("No certificate covers")
        is_bug = is_covered and cost.is_numerical
        return Outcome(
            "NOT PROVED" if is_bug else "other theorem" if is_covered else "not covered", cost.upper
        )
    excess = found.epsilon / cost.upper - 1 if cost.upper > 0 else found.epsilon
    if excess == 0:
        return Outcome("proved", cost.upper, 0.0, room, proving, checking)
    kind = "NOT PROVED" if cost.is_numerical else "other theorem"
    if excess <= CLOSE:
        kind = "close"
    return Outcome(kind, cost.upper, excess, 0.0, proving, checking)


class Log:
    """Outcomes in a file, one line each, so that an interrupted run can be resumed."""

    def __init__(self, path: Path | None, seconds: int) -> None:
        self._path, self._seconds = path, seconds
        self._found: dict[str, tuple[Outcome, int]] = {}
        for line in path.read_text().splitlines() if path and path.exists() else ():
            name, outcome, limit = json.loads(line)
            self._found[name] = Outcome(*outcome), limit

    def recall(self, task: Task) -> Outcome | None:
        outcome, limit = self._found.get(task.name, (None, 0))
        return None if outcome and outcome.kind == "too slow" and limit < self._seconds else outcome

    def note(self, task: Task, outcome: Outcome) -> None:
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps([task.name, outcome, self._seconds]) + "\n")


def report(outcomes: list[Outcome]) -> None:
    if not outcomes:
        return
    print(", ".join(f"{kind}: {number}" for kind, number in Counter(item.kind for item in outcomes).items()))
    proved = [item for item in outcomes if item.kind in ("proved", "close")]
    if not proved:
        return
    rooms = sorted(item.room for item in proved)
    print(
        f"room: median {median(rooms):.1e}, nine of ten below {rooms[int(0.9 * (len(rooms) - 1))]:.1e}, "
        f"largest {rooms[-1]:.1e}; within {CLOSE:g}: {sum(item <= CLOSE for item in rooms)} of {len(rooms)}"
    )
    for name, times in (
        ("proving", [item.proving for item in proved]),
        ("checking", [item.checking for item in proved]),
    ):
        print(f"{name}: median {median(times):.2f} s CPU, largest {max(times):.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="number of the first random setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=300, help="of CPU, after which a setting is left out")
    parser.add_argument("--no-benchmarks", action="store_true")
    parser.add_argument("--log", type=Path, help="a file of outcomes: those in it are not computed again")
    chosen = parser.parse_args()
    log = Log(chosen.log, chosen.seconds)
    tasks = [] if chosen.no_benchmarks else list(of_benchmarks())
    failed = False
    for title, some in (
        ("benchmarks", tasks),
        ("random", at_random(chosen.count, chosen.first, chosen.seed)),
    ):
        outcomes = []
        for task in some:
            found = log.recall(task)
            if found is None:
                found = examine(task, chosen.seconds)
                log.note(task, found)
            outcomes.append(found)
            print(
                f"{task.name:<26}{found.kind:<15}{found.epsilon:>14.6g}  excess {found.excess:.1e}  "
                f"room {found.room:.1e}  prove {found.proving:.1f} s  check {found.checking:.1f} s",
                flush=True,
            )
        print(f"--- {title}")
        report(outcomes)
        failed |= any(item.kind == "NOT PROVED" for item in outcomes)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
