"""The constants of the model, measured here, and how far the model is from what was measured."""

from __future__ import annotations

from typing import Any

from benchmarks.scale.asking import Worker, answer_of, closing, cores, free_port
from benchmarks.scale.model import Device, Work, seconds_of_a_step
from benchmarks.training.tables import Section, shown

EXAMPLES, BATCH, DEVICES = 1_000_000_000, 65_536, 256
_SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24)

TEXT = """The pieces of a step by themselves, each the median of {rounds} calls. Rates of gradients count
the flops of ordinary ones, as XLA counts them in the compiled program, while clipped ones are computed.
Batches are those of {examples:,} records with B = {batch:,}: {capacity:,} places. Sums are those of two
processes, each with one thread, over the loopback device: of b bytes, they take about a latency and b /
bandwidth."""


def measure(*, quick: bool, reading: dict[str, Any] | None = None) -> tuple[Section, dict[str, Any]]:
    rounds = 3 if quick else 15
    asked = {"rounds": rounds, "examples": EXAMPLES, "batch": BATCH, "devices": DEVICES, "numbers": 1 << 21}
    one = answer_of("pieces", asked, cores=cores()[:1])
    two = answer_of("pieces", asked, cores=cores()[:2])
    sums = _sums(rounds)
    found = {"one core": one, "two cores": two, "sums": sums}
    rows = [
        *(
            (f"clipped gradients, `{name}`", *(_rate(side["gradients"][name]) for side in (one, two)))
            for name in ("cnn", "mlp")
        ),
        ("noise, ns per number", *(shown(side["noise"] * 1e9) for side in (one, two))),
        (
            "draw of a batch, ns per place",
            *(shown(side["draw"] / side["capacity"] * 1e9) for side in (one, two)),
        ),
        (
            "own part of it, ns per place",
            *(shown(side["own"] / side["capacity"] * 1e9) for side in (one, two)),
        ),
        *((f"sum of {size:,} bytes, ms", "-", shown(seconds * 1e3)) for size, seconds in sums.items()),
    ]
    for name, cache in (("cold", "from the disk"), ("warm", "from the kernel's cache")):
        if reading:
            side = reading[name]
            rows.append(
                (f"rows per second, {side['bytes']:,} bytes each, {cache}", "-", f"{side['rows']:,.0f}")
            )
    text = TEXT.format(rounds=rounds, examples=EXAMPLES, batch=BATCH, capacity=one["capacity"])
    return Section("Constants", text, ("", "one core", "two cores"), rows, ()), found


def _rate(gradient: dict[str, float]) -> str:
    each = f"{gradient['flops'] / 1e6:.2f} Mflop per example"
    return f"{gradient['flops'] / gradient['seconds'] / 1e9:.1f} Gflop/s ({each})"


def _sums(rounds: int) -> dict[int, float]:
    asked = {"port": free_port(), "rounds": rounds, "sizes": _SIZES}
    pair = [Worker("sums", {**asked, "process": process}, environment={"NPROC": "1"}) for process in range(2)]
    with closing(*pair):
        answers = [worker.hear()["seconds"] for worker in pair]
    return {size: max(answer[str(size)] for answer in answers) for size in _SIZES}


def device(found: dict[str, Any], network: str) -> Device:
    """One core of this machine, joined to others as its processes are."""
    one, sums = found["one core"], found["sums"]
    latency = sums[_SIZES[0]] / 2  # one message each way
    gradient = one["gradients"][network]
    return Device(
        flops=gradient["flops"] / gradient["seconds"],
        noise=one["noise"],
        place=(one["draw"] + one["own"]) / one["capacity"],
        bandwidth=_SIZES[-1] / max(sums[_SIZES[-1]] - 2 * latency, 1e-9),
        latency=latency,
    )


def beside_measured(found: dict[str, Any], throughput: dict[str, Any]) -> tuple[Section, dict[str, Any]]:
    """What the model says of the throughput that was measured."""
    rows, raw = [], {}
    for network, measured in throughput.items():
        gradient = found["one core"]["gradients"][network]
        work = Work(
            flops=gradient["flops"],
            params=measured["params"],
            batch=measured["batch"],
            capacity=measured["capacity"],
            messages=1,
        )
        for devices, side in ((1, "one core"), (2, "two processes")):
            parts = seconds_of_a_step(device(found, network), work, devices)
            predicted, seen = sum(parts.values()), measured["seconds"][side]
            raw[f"{network}, {side}"] = {**parts, "measured": seen}
            cells = [shown(part * 1e3) for part in parts.values()]
            rows.append((f"`{network}`", side, *cells, shown(predicted * 1e3), shown(seen * 1e3)))
    header = ("", "side", "gradients", "sums", "noise", "sampling", "model", "measured")
    text = "Milliseconds per step by the model with these constants, compared with the throughput above."
    return Section("The model compared with measurements", text, header, rows, ()), raw
