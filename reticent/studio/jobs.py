"""Commands that run for a page: the same engine and the same ledger as in a terminal.

A job is a process of its own. What it says is kept line by line, so that a page that is opened later sees all
of it. Stopping a job is Ctrl-C: a run keeps its checkpoint and its charge, and can be resumed.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reticent.core.errors import CannotMeet, DataError

_PROGRAM = "import sys; from reticent.cli.app import main; main()"
_MOST_LINES = 5_000  # that one job says; bars are kept once per name
_MOST_RUNNING = 2
_STOP_SECONDS = 20.0


@dataclass
class Job:
    """One command and what it has said so far.

    Args:
        leads_to: the run that it makes or changes, as pages name it.
    """

    number: int
    words: tuple[str, ...]
    leads_to: str | None
    process: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list)
    bars: dict[str, tuple[float | None, str]] = field(default_factory=dict)
    output: str = ""
    code: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: int = 0  # grows with whatever it says

    @property
    def command(self) -> str:
        """What to type for the same."""
        return shlex.join(["reticent", *self.words])

    @property
    def state(self) -> str:
        if self.code is None:
            return "running"
        return {0: "finished", 3: "refused by the budget", 130: "interrupted"}.get(self.code, "failed")

    def facts(self, since: int = 0) -> dict[str, Any]:
        """What a page shows: lines from `since` on."""
        with self.lock:
            return {
                "state": self.state,
                "code": self.code,
                "lines": self.lines[since:],
                "next": len(self.lines),
                "bars": [
                    {"name": name, "done": done, "said": said} for name, (done, said) in self.bars.items()
                ],
                "output": self.output if self.code is not None else "",
            }

    def stop(self) -> None:
        """Interrupts the command as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)


class Jobs:
    """All jobs of one studio."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._jobs, self._lock = folder, list[Job](), threading.Lock()

    def start(self, words: Sequence[str], *, leads_to: str | None = None) -> Job:
        """Starts a command in the folder of the studio.

        Raises:
            CannotMeet: too many are running.
        """
        with self._lock:
            running = [job for job in self._jobs if job.code is None]
            if len(running) >= _MOST_RUNNING:
                raise CannotMeet(
                    f"{len(running)} commands are running already.", remedy="Wait for one, or stop it."
                )
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *words],
                cwd=self._folder,
                env={**os.environ, "RETICENT_PROGRESS": "lines", "COLUMNS": "100"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C at the terminal reaches the studio, which interrupts it once
            )
            job = Job(len(self._jobs) + 1, tuple(words), leads_to, process)
            self._jobs.append(job)
        threading.Thread(target=_listen, args=(job,), daemon=True).start()
        return job

    def find(self, number: int) -> Job:
        """
        Raises:
            DataError: there is no such job.
        """
        if not 1 <= number <= len(self._jobs):
            raise DataError(f"There is no job {number}.", remedy="The studio was started again since then.")
        return self._jobs[number - 1]

    def newest(self) -> list[Job]:
        return self._jobs[::-1]

    def close(self) -> None:
        """Interrupts whatever still runs, and waits until it has kept its state."""
        for job in self._jobs:
            job.stop()
        for job in self._jobs:
            try:
                job.process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                job.process.kill()


def _listen(job: Job) -> None:
    """Takes down what a command says until it ends."""
    reader = threading.Thread(target=_keep_output, args=(job,), daemon=True)
    reader.start()
    assert job.process.stderr is not None
    for line in job.process.stderr:
        _keep_line(job, line.rstrip("\n"))
    reader.join()
    code = job.process.wait()
    for pipe in (job.process.stdout, job.process.stderr):
        if pipe is not None:
            pipe.close()
    with job.lock:
        job.code = 130 if code == -signal.SIGINT else code
        job.version += 1


def _keep_output(job: Job) -> None:
    assert job.process.stdout is not None
    job.output = job.process.stdout.read(1 << 22)
    while job.process.stdout.read(1 << 16):  # a pipe that nobody reads would stop the command
        pass


def _keep_line(job: Job, line: str) -> None:
    try:
        read = json.loads(line)
        said: dict[str, Any] = read if isinstance(read, dict) else {"note": line}
    except ValueError:
        said = {"note": line}
    with job.lock:
        if "bar" in said:
            name = str(said["bar"])
            before = job.bars.get(name, (None, ""))[1]
            job.bars[name] = (said.get("done"), str(said.get("said") or before))
        elif len(job.lines) < _MOST_LINES and line:
            job.lines.append(said)
        job.version += 1
