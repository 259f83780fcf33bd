"""The driver's side: starts workers on chosen cores, gives them turns, watches their memory."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_EVERY = 0.02  # seconds between two looks at the memory of a worker


class WorkerFailed(Exception):
    """A worker ended without an answer; its last words are the message."""


class Worker:
    """A process of `benchmarks.scale.workers`.

    Args:
        asked: what it is to do, as JSON in its first argument.
        cores: those that it may use; all unless given. Its thread pools are made for so many.
        environment: further variables.
    """

    def __init__(
        self,
        module: str,
        asked: Any,
        *,
        cores: Sequence[int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = f"benchmarks.scale.workers.{module}"
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  # open as long as the worker
        # Set before JAX starts, for it counts the cores then.
        pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))] if cores else []
        self.process = subprocess.Popen(
            [*pinned, sys.executable, "-m", self._name, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **(environment or {})},
        )

    def tell(self, words: Any) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(words, file=self.process.stdin, flush=True)

    def hear(self) -> dict[str, Any]:
        """Its next answer.

        Raises:
            WorkerFailed: it ended instead.
        """
        for line in self.process.stdout or ():
            if line.startswith("{"):
                return json.loads(line)
        code = self.process.wait()
        self._complaints.seek(0)
        said = self._complaints.read().strip().splitlines()[-12:]
        raise WorkerFailed(f"{self._name} ended with code {code}:\n" + "\n".join(said))

    def close(self) -> None:
        """Ends it: gently where it listens, otherwise not."""
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._complaints.close()


@contextlib.contextmanager
def closing(*workers: Worker) -> Iterator[None]:
    """Ends the workers whatever happens: at once if something went wrong."""
    try:
        yield
    except BaseException:
        for worker in workers:
            worker.process.kill()
        raise
    finally:
        for worker in workers:
            if worker.process.stdin is not None and not worker.process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):
                    worker.process.stdin.close()
        for worker in workers:
            worker.close()


def answer_of(module: str, asked: Any, **how: Any) -> dict[str, Any]:
    """The one answer of a worker that ends by itself."""
    worker = Worker(module, asked, **how)
    with closing(worker):
        return worker.hear()


def watched_answer_of(module: str, asked: Any, **how: Any) -> dict[str, Any]:
    """The same, with the most megabytes it held: `peak` in all, `anonymous` of it backed by no file."""
    worker = Worker(module, asked, **how)
    most = {"VmHWM": 0.0, "RssAnon": 0.0}
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(_EVERY):
            for name, value in _status(worker.process.pid).items():
                most[name] = max(most[name], value)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    with closing(worker):
        try:
            answer = worker.hear()
        finally:
            is_done.set()
            thread.join()
    return {**answer, "peak": most["VmHWM"], "anonymous": most["RssAnon"]}


def _status(process: int) -> dict[str, float]:
    """Megabytes. Not `getrusage`, which begins with the peak of the parent."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    named = (line.partition(":") for line in lines)
    return {
        name: int(rest.split()[0]) * 1024 / 1e6 for name, _, rest in named if name in ("VmHWM", "RssAnon")
    }


def cores() -> list[int]:
    """Those that the benchmark may use."""
    return sorted(os.sched_getaffinity(0))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
