"""How many shadow models are trained at once, and for how long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from reticent.core import checks
from reticent.distributed import collectives

Chunk = Literal["auto"] | int

_CHUNKS = (8, 16, 32)  # models at once on a device; more of them fall out of a CPU's cache
_WORTH_A_TRIAL = 6  # compile for another size only while so many compilations of work are left


class Progress(NamedTuple):
    """How far the training of shadow models is."""

    done: int
    wanted: int
    seconds_left: float

    @property
    def fraction(self) -> float:
        return self.done / self.wanted


class Sizes:
    """How many models are trained at once: a pair first, then larger chunks while they are faster.

    Always whole pairs, and as many on every device: a pair is the least on one or two devices, and one model
    each on four.
    """

    def __init__(self, chunk: Chunk, *, devices: int = 1) -> None:
        if not isinstance(chunk, str):
            checks.count(chunk=chunk)
        else:
            checks.one_of(["auto"], chunk=chunk)
        self._least = math.lcm(2, devices)
        self._fixed = None if isinstance(chunk, str) else -(-chunk // self._least) * self._least
        self._ladder = [size * devices for size in _CHUNKS]
        self._best: tuple[float, int] | None = None
        self._next = self._least

    def next(self) -> int:
        return self._fixed or self._next

    def note(self, size: int, seconds_each: float, compile_seconds: float, seconds_left: float) -> None:
        """Learns how long a model took in a chunk of this size."""
        if self._best is None or seconds_each < self._best[0]:
            self._best = (seconds_each, size)
            is_faster = True
        else:
            is_faster = size == self._best[1]
        is_first = size == self._least
        if is_first or (is_faster and seconds_left > _WORTH_A_TRIAL * compile_seconds):
            while self._ladder and self._ladder[0] <= size:
                self._ladder.pop(0)
            self._next = self._ladder.pop(0) if self._ladder else self._best[1]
        else:
            self._ladder.clear()
            self._next = self._best[1]


class Clock:
    """How long is left, and whether a budget of minutes is spent."""

    def __init__(
        self, minutes: float | None, wanted: int, on_progress: Callable[[Progress], None] | None
    ) -> None:
        if minutes is not None:
            checks.positive(minutes=minutes)
        self._started = time.perf_counter()
        self._seconds = None if minutes is None else 60 * minutes
        self._wanted, self._tell = wanted, on_progress
        self._each: float | None = None

    def is_over(self, size: int) -> bool:
        if self._seconds is None or self._each is None:
            return False
        spent = collectives.gather_arrays(
            time.perf_counter() - self._started
        ).max()  # processes have to stop together
        return bool(spent + size * self._each > self._seconds)

    def note(self, done: int, seconds_each: float) -> None:
        self._each = seconds_each
        if self._tell is not None:
            self._tell(Progress(done, self._wanted, (self._wanted - done) * seconds_each))
