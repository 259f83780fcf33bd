"""What the model says of a billion records on 256 devices, and what they cost in privacy."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, NamedTuple

from benchmarks.scale.constants import BATCH, DEVICES, EXAMPLES
from benchmarks.scale.model import Device, Work, seconds_of_a_step
from benchmarks.training.tables import Section, shown
from reticent.data.sampling import Poisson
from reticent.training.plan import Plan

STEPS, DELTA = 100_000, 1e-10
_EPSILONS = (1, 3, 8)

# Nobody measured these here: they are what the reader puts in.
ACCELERATOR = Device(flops=5e13, noise=2e-11, place=2e-9, bandwidth=5e10, latency=1e-5)


class Case(NamedTuple):
    name: str
    flops: float
    params: int


CASES = (
    Case("perceptron on rows of 100 numbers", 6e6, 1_000_000),
    Case("convolutional network on images", 25e9, 25_000_000),
)


def accounted() -> tuple[Section, dict[str, Any]]:
    """The noise that a budget needs at this rate and length, and how long it takes to find."""
    rows, raw = [], {}
    for epsilon in _EPSILONS:
        started = time.perf_counter()
        plan = Plan.for_budget(
            epsilon=epsilon, delta=DELTA, examples=EXAMPLES, batch_size=BATCH, steps=STEPS, max_norm=1.0
        )
        found = time.perf_counter()
        spent = plan.guarantee()
        checked = time.perf_counter()
        seconds = (found - started, checked - found)
        raw[epsilon] = {
            "noise_multiplier": plan.noise_multiplier,
            "epsilon": spent.epsilon,
            "seconds": seconds,
        }
        rows.append(
            (
                str(epsilon),
                f"{plan.noise_multiplier:.4f}",
                f"{spent.epsilon:.4f}",
                *(f"{s:.1f}" for s in seconds),
            )
        )
    sampler = Poisson(examples=EXAMPLES, batch_size=BATCH)
    text = (
        f"n = {EXAMPLES:,} records, B = {BATCH:,}, so q = {sampler.rate:.3e}; T = {STEPS:,} steps, "
        f"{STEPS * BATCH / EXAMPLES:.2f} epochs; delta = {DELTA:g}; adding or removing one record; the "
        f"tight accountant. A batch has {sampler.capacity:,} places; what happens beyond them is part of the "
        "event."
    )
    header = ("epsilon", "noise multiplier", "epsilon of the plan", "s to find it", "s to prove it")
    return Section("Accounting of a billion records", text, header, rows, ()), raw


def predicted(here: Device | None) -> tuple[Section, dict[str, Any]]:
    """A step, a run, and where the time goes."""
    capacity = Poisson(examples=EXAMPLES, batch_size=BATCH).capacity
    devices = {"accelerator (assumed)": ACCELERATOR}
    if here is not None:
        devices["core of this machine (measured)"] = here
    rows, raw = [], {}
    for name, device in devices.items():
        for case in CASES:
            work = Work(flops=case.flops, params=case.params, batch=BATCH, capacity=capacity, messages=1)
            parts = seconds_of_a_step(device, work, DEVICES)
            step = sum(parts.values())
            raw[f"{name}, {case.name}"] = parts
            rows.append(
                (
                    name,
                    case.name,
                    *(shown(part * 1e3) for part in parts.values()),
                    shown(step * 1e3),
                    shown(step * STEPS / 3600),
                    shown(step * STEPS / 3600 * DEVICES),
                )
            )
    described = "; ".join(f"{case.name}: {case.params:,} parameters, {case.flops:.3g} flop" for case in CASES)
    assumed = ", ".join(f"{key} {value:g}" for key, value in asdict(ACCELERATOR).items())
    text = (
        f"Milliseconds of a step on {DEVICES} devices with B = {BATCH:,}, hours of {STEPS:,} steps, and "
        f"hours of devices, which is what they cost. {described} for the gradient of an example. "
        f"**Assumed**, not measured, of an accelerator: {assumed}. The rows of cores take every constant "
        "from the tables above, those of the perceptron and of loopback sums; no network has been measured."
    )
    header = (
        *("device", "model", "gradients", "sums", "noise", "sampling"),
        *("ms per step", "hours", "device hours"),
    )
    return Section("A billion records on 256 devices", text, header, rows, ()), raw
