"""Two processes beside one, each with a core of its own, in turns."""

from __future__ import annotations

from statistics import median
from typing import Any, NamedTuple

from benchmarks.scale.asking import Worker, closing, cores, free_port
from benchmarks.training.tables import Check, Section, shown

BAR = 0.85


class Case(NamedTuple):
    network: str
    described: str
    batch: int
    epoch: int  # steps: what one compiled call takes, 64 at most


class Side(NamedTuple):
    """One way to use the machine, and what it answered in each turn: an answer of each process."""

    name: str
    workers: list[Worker]
    turns: list[list[dict[str, Any]]]
    facts: dict[str, Any]

    def compile(self) -> None:
        for worker in self.workers:
            answer = worker.hear()
            self.facts.update({name: answer[name] for name in ("params", "leaves", "capacity")})

    def turn(self, epochs: int) -> None:
        for worker in self.workers:
            worker.tell(epochs)
        self.turns.append([worker.hear() for worker in self.workers])

    def seconds(self) -> float:
        """Of a step; the slowest process counts, and the median turn."""
        return median(max(answer["seconds"] for answer in turn) for turn in self.turns)


TEXT = """`rt.train` as a user calls it: Poisson batches from rows in memory, clipping, noise, SGD.
Examples per second, from one epoch's end to another's, after compiling; the median of {turns} turns of
{epochs} epochs each. All sides are started together and take turns, and all but one wait for their turn at
any time.

* **two threads**: one process that may use both cores; XLA divides its products over two threads.
* **two processes**: joined by `rt.distributed.start`, each with half of the rows and one thread of XLA
  (`NPROC=1`), sums by gloo over the loopback device.
* **two processes, pinned**: the same, each on a core of its own (`taskset`), where gloo's thread has to
  share it.
* **one core**: one process, pinned to one core.
* **two devices**: one process with both cores, divided into two virtual devices (`jax_num_cpu_devices`).

The machine sent {sent} bytes per step to itself in a turn of the two processes: two of them, a gradient of
{gradient} each."""


def measure(*, quick: bool) -> tuple[Section, dict[str, Any]]:
    turns, epochs = (2, 1) if quick else (5, 1)
    rows, checks, raw = [], [], {}
    for case in _cases(quick):
        sides = _measured(case, turns, epochs)
        speeds = {name: case.batch / side.seconds() for name, side in sides.items()}
        whole = speeds["two threads"]
        rows += [
            (
                f"`{case.network}`, B = {case.batch}",
                name,
                f"{speed:,.0f}",
                shown(speed / whole),
                shown(
                    median(sum(answer["processor"] for answer in turn) for turn in sides[name].turns) * 1000
                ),
            )
            for name, speed in speeds.items()
        ]
        ratio = speeds["two processes"] / whole
        checks.append(Check(f"{case.network}: two processes / two threads", ratio, ">=", BAR))
        raw[case.network] = {
            "batch": case.batch,
            **sides["two threads"].facts,
            "gradient": 4 * sides["two threads"].facts["params"],
            "seconds": {name: side.seconds() for name, side in sides.items()},
            "bytes": median(turn[0]["bytes"] for turn in sides["two processes"].turns),
            "turns": {name: side.turns for name, side in sides.items()},
        }
    described = "\n".join(f"* `{case.network}`: {case.described}" for case in _cases(quick))
    sent, gradient = (
        " and ".join(f"{found[key]:,.0f} (`{name}`)" for name, found in raw.items())
        for key in ("bytes", "gradient")
    )
    text = TEXT.format(turns=turns, epochs=epochs, sent=sent, gradient=gradient) + f"\n\n{described}"
    header = ("", "side", "examples / s", "of two threads", "processor ms per step, all processes")
    return Section("Throughput", text, header, rows, checks), raw


def _cases(quick: bool) -> tuple[Case, ...]:
    cnn = "two convolutions, two dense layers, 26,010 parameters, 28 x 28 images"
    perceptron = "perceptron 784-512-512-10, 669,706 parameters"
    if quick:
        return (Case("cnn", cnn, 256, 8), Case("mlp", perceptron, 256, 8))
    return (Case("cnn", cnn, 1024, 32), Case("mlp", perceptron, 1024, 64))


def _measured(case: Case, turns: int, epochs: int) -> dict[str, Side]:
    both = cores()[:2]
    asked = {"network": case.network, "batch": case.batch, "rows": case.batch * case.epoch}

    def side(name: str, *each: list[int], devices: int = 1, **environment: str) -> Side:
        shared = {**asked, "port": free_port(), "processes": len(each), "devices": devices}
        workers = [
            Worker("steps", {**shared, "process": number}, cores=own, environment=environment)
            for number, own in enumerate(each)
        ]
        return Side(name, workers, [], {})

    sides = [
        side("two threads", both),
        side("two processes", both, both, NPROC="1"),
        side("two processes, pinned", both[:1], both[1:]),
        side("one core", both[:1]),
        side("two devices", both, devices=2),
    ]
    with closing(*(worker for side in sides for worker in side.workers)):
        for one in sides:
            one.compile()
        for _ in range(turns):
            for one in sides:
                one.turn(epochs)
        return {one.name: one for one in sides}
