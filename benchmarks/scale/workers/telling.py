"""What a worker is asked, what it says, and when a run is where."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reticent.training.checkpoint import Checkpoints
from reticent.training.step import TrainState


def asked() -> dict[str, Any]:
    return json.loads(sys.argv[1])


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def hear() -> int:
    """A whole number from the driver; the worker ends when nobody says one."""
    line = sys.stdin.readline()
    if not line:
        raise SystemExit
    return int(line)


@dataclass(kw_only=True)
class Clock(Checkpoints):
    """Notes the step and the time before the first compiled call and after each, and saves nothing."""

    path: Path = Path()
    stamp: str = ""
    noted: list[tuple[int, float]] = field(default_factory=list)

    def save(self, state: TrainState, *, force: bool = False) -> None:
        self.noted.append((int(state.step), time.perf_counter()))

    def load(self, like: TrainState) -> TrainState | None:
        return None

    def after_first_call(self) -> tuple[int, float]:
        """Steps and seconds from the end of the first call, which compiles, to the end of the last."""
        (step, start), (last, end) = self.noted[1], self.noted[-1]
        return last - step, end - start
