"""What a worker says and hears: JSON on standard output, one line a turn; seconds on standard input.

The first line says that it is warm, with facts about what it is. Then, for each line it is given, it works
for about so many seconds and answers with its seconds a step. It ends when its input ends.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.training.cases import Case


def spec() -> dict[str, Any]:
    """What the driver asked for, the case as a `Case`."""
    asked = json.loads(sys.argv[1])
    return {**asked, "case": Case(*asked["case"])}


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def hear() -> float:
    """The seconds to work for in the next turn."""
    line = sys.stdin.readline()
    if not line:
        raise SystemExit
    return float(line)


def peak_megabytes() -> float:
    """The most memory this process ever held."""
    units = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / units


def serve(work: Callable[[], int], **facts: Any) -> None:
    """Takes turns with a function that does some steps, waits for them and says how many."""
    work()
    start = time.perf_counter()
    work()
    seconds_a_call = max(time.perf_counter() - start, 1e-6)
    say(**facts)
    while True:
        calls = max(round(hear() / seconds_a_call), 1)
        start, busy = time.perf_counter(), time.process_time()
        steps = sum(work() for _ in range(calls))
        took, worked = time.perf_counter() - start, time.process_time() - busy
        say(seconds=took / steps, processor=worked / steps, steps=steps, peak=peak_megabytes())
