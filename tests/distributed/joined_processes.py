"""Starts several processes that train together, waits for them, and never longer than it was told to."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    output: str
    errors: str


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def begun(script: str, *words: Any) -> subprocess.Popen[str]:
    """A process that runs a script of this folder."""
    command = [sys.executable, str(HERE / script), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def commanded(*words: Any) -> subprocess.Popen[str]:
    """A process that follows a command line."""
    command = [sys.executable, "-c", "from reticent.cli.app import main; main()", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(processes: Sequence[subprocess.Popen[str]], *, within: float) -> list[Ended]:
    """What they said. One that is still there at the end of the time is a failure, and is killed.

    A failure says what all of them wrote.
    """
    deadline, found, is_late = time.monotonic() + within, [], False
    for process in processes:
        try:
            output, errors = process.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            is_late = True
            process.kill()
            output, errors = process.communicate()
        found.append(Ended(process.returncode, output, errors))
    assert not is_late, f"Not all processes ended within {within} seconds: {found}"
    return found
