"""How long a person waits for the command line, beside a Python that does nothing.

    python -m benchmarks.startup

Each line is a fresh process, run in turn with the others so that a busy moment hits all of them alike.
The first round warms the disk and does not count.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
LIMIT = 0.5  # seconds, for `reticent --help`

_RETICENT = str(Path(sys.executable).with_name("reticent"))
PLAIN = "python -c pass"
COMMANDS = {
    PLAIN: [sys.executable, "-c", "pass"],
    "import reticent": [sys.executable, "-c", "import reticent"],
    "reticent --version": [_RETICENT, "--version"],
    "reticent --help": [_RETICENT, "--help"],
    "reticent datasets list": [_RETICENT, "datasets", "list"],
}


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS + 1):
        for name, command in COMMANDS.items():
            taken[name].append(_seconds(command))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    print(f"{'':24}{'median s':>10}{'x python':>10}{'slowest s':>11}")
    for name, median in medians.items():
        ratio = median / medians[PLAIN]
        print(f"{name:24}{median:10.3f}{ratio:10.1f}{max(taken[name][1:]):11.3f}")
    waited = medians["reticent --help"]
    verdict = "below" if waited < LIMIT else "ABOVE"
    print(f"reticent --help takes {waited:.2f} s: {verdict} the {LIMIT} s that a person does not notice")


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
