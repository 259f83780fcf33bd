"""A secure sum over 100 clients with 670,000 numbers, of whom a third vanish, all in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.federated.clients import Options

CLIENTS = 100


def secure(options: Options) -> Iterator[dict[str, Any]]:
    """Processor seconds of all clients and the server together; sums are compared bit for bit."""
    numbers, lost = 670_000 if options.is_full else 67_000, range(1, 34)
    draw = np.random.default_rng(0)
    given = {place: draw.integers(0, 2**32, numbers, dtype=np.uint32) for place in range(1, CLIENTS + 1)}
    started = time.process_time()
    found = rt.federated.secure_sum(given, threshold=67, round_name="benchmark", lost=lost)
    took = time.process_time() - started
    expected = sum(given[place].astype(np.uint64) for place in given if place not in lost)
    yield {
        "part": "secure",
        "clients": CLIENTS,
        "numbers": numbers,
        "vanish": len(lost),
        "is exact": bool(np.array_equal(found, (np.asarray(expected) % 2**32).astype(np.uint32))),
        "seconds": took,
    }
