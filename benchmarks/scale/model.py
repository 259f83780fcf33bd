"""A model of the time of a private step on many devices. Printed in docs/scale.md, as it stands here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, kw_only=True)
class Device:
    """What one device does by itself, and what joins it to the others."""

    flops: float  # a second, of ordinary gradients, while it computes clipped ones
    noise: float  # seconds a number
    place: float  # seconds a place of a batch: every device draws all of it, and looks for its own rows
    bandwidth: float  # bytes a second, out of one device
    latency: float  # seconds of one message to another device


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a step is about."""

    flops: float  # of the ordinary gradient of one example
    params: int
    batch: int
    capacity: int  # places of a batch: Poisson(...).capacity
    messages: int = 1  # collective operations in a step


def seconds_of_a_step(
    device: Device, work: Work, devices: int, *, is_divided: bool = False
) -> dict[str, float]:
    """The parts of a step. All devices wait for the one with the largest share of a random batch."""
    share = work.batch / devices
    slowest = NormalDist().inv_cdf((devices - 0.375) / (devices + 0.25)) if devices > 1 else 0.0
    # Counted in deviations of a share; chunks have about as many examples as that, and half a chunk is empty.
    largest = share + (slowest + 0.5) * math.sqrt(share)
    sent = 2 * (devices - 1) / devices * 4 * work.params  # bytes: an all-reduce, or a scatter and a gathering
    hops = 2 * math.ceil(math.log2(devices)) * work.messages
    return {
        "gradients": largest * work.flops / device.flops,
        "sums": sent / device.bandwidth + hops * device.latency,
        "noise": work.params / (devices if is_divided else 1) * device.noise,
        "sampling": work.capacity * device.place,
    }
