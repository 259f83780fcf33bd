"""The driver's side: starts workers, asks them in turn, and keeps what they answered."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# The C library keeps freed memory or gives it back, depending on what was freed before. A process that gives
# it back faults its pages in anew in every step, which takes up to a quarter of it. All workers keep theirs.
_KEPT = "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=8589934592:glibc.malloc.mmap_max=0"


class Worker:
    """A process that measures one thing. When it fails it stays, and `error` says why."""

    def __init__(
        self, module: str, asked: Any, python: Path | None = None, *, keeps_memory: bool = True
    ) -> None:
        self.answers: list[dict[str, Any]] = []
        self.error = ""
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  # open as long as the worker
        name = f"benchmarks.training.workers.{module}"
        self._process = subprocess.Popen(
            [str(python or sys.executable), "-m", name, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=ROOT,
            env={
                **({"GLIBC_TUNABLES": _KEPT} if keeps_memory else {}),
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "JAX_PLATFORMS": "cpu",
            },
        )
        self.facts = self._listen()

    def ask(self, seconds: float) -> None:
        """One turn of about so many seconds."""
        if self.error or self._process.stdin is None:
            return
        try:
            print(seconds, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            self.error = self._reason()
            return
        answer = self._listen()
        if answer:
            self.answers.append(answer)

    def seconds(self) -> float | None:
        """The median of its seconds a step."""
        return None if self.error else median(answer["seconds"] for answer in self.answers)

    def last(self, fact: str) -> float | None:
        return None if self.error or not self.answers else self.answers[-1][fact]

    def close(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        self._complaints.close()

    def _listen(self) -> dict[str, Any]:
        for line in self._process.stdout or ():
            if line.startswith("{"):
                return json.loads(line)
        self.error = self._reason()
        return {}

    def _reason(self) -> str:
        """The first line of the error that ended it."""
        code = self._process.wait()
        self._complaints.seek(0)
        said = self._complaints.read().rpartition("Traceback (most recent call last):")[2].splitlines()
        named = [
            line
            for line in said
            if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Unsupported\w*)\b", line)
        ]
        reason = (named or [line for line in said if line.strip()] or [f"ended with code {code}"])[0]
        return f"killed by signal {-code}" if code < 0 else reason.replace("|", "/")[:160]


@contextlib.contextmanager
def turns(workers: Mapping[str, Worker], rounds: int, seconds: float) -> Iterator[None]:
    """Asks all of them in turn, so many rounds, one computing at a time; closes them at the end."""
    try:
        for _ in range(rounds):
            for worker in workers.values():
                worker.ask(seconds)
        yield
    finally:
        for worker in workers.values():
            worker.close()


def ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None or below <= 0 else above / below
