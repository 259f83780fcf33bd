"""Processes find each other: one of them, the first, is where all others call."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unavailable

PATIENCE = 60  # seconds to wait for the other processes
_HEARTBEAT = 20  # seconds after which a silent process is taken for dead
_FAREWELL = 3600  # seconds to wait at the end for others that are alive


def start(
    coordinator: str, *, processes: int, process: int, patience: int = PATIENCE, devices: int | None = None
) -> None:
    """Joins this process with the others; before anything else uses JAX.

    Args:
        coordinator: HOST:PORT of process 0, as the others see it.
        processes: how many there are in all.
        process: which one this is, from 0.
        patience: seconds to wait until all are there.
        devices: how many virtual devices a CPU is divided into; 1 unless given.

    Raises:
        InvalidArgument: a number outside its range, no HOST:PORT, or JAX was used already.
        Unavailable: not all processes were there in time.
    """
    checks.count(processes=processes, patience=patience)
    checks.count(minimum=0, process=process)
    if process >= processes:
        raise InvalidArgument(
            f"There is no process {process} among {processes}: they are counted from 0.",
            remedy=f"Give each process a number of its own, from 0 to {processes - 1}.",
        )
    host, port = _address(coordinator)
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if devices is not None:
        checks.count(devices=devices)
        jax.config.update("jax_num_cpu_devices", devices)
    if process > 0:
        _await_coordinator(host, port, patience)
    try:
        jax.distributed.initialize(
            coordinator_address=coordinator,
            num_processes=processes,
            process_id=process,
            initialization_timeout=patience,
            heartbeat_timeout_seconds=_HEARTBEAT,
            shutdown_timeout_seconds=_FAREWELL,
            cluster_detection_method="deactivate",
        )
    except RuntimeError as error:
        raise _explained(error, coordinator, processes, process, patience) from error
    from reticent.distributed import together

    with _standard_output_kept():
        together.everyones(process)


@contextmanager
def _standard_output_kept() -> Iterator[None]:
    """Sends to standard error what the library below prints when processes first meet.

    Whoever reads our output, as JSON say, has no use for it.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def leave(code: int) -> None:
    """Ends this process at once if it is one of several: JAX would wait for others that may be gone."""
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _address(coordinator: str) -> tuple[str, int]:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidArgument(
            f"coordinator={coordinator!r} is no HOST:PORT.",
            remedy="Name the machine of process 0 and a free port there, such as 10.0.0.1:7777.",
        )
    return host, int(port)


def _await_coordinator(host: str, port: int, patience: int) -> None:
    """Waits until somebody listens there: JAX itself would end the process without a word to catch.

    Raises:
        Unavailable: nobody did in time.
    """
    end = time.monotonic() + patience
    while True:
        try:
            socket.create_connection((host, port), timeout=max(min(end - time.monotonic(), 5), 0.1)).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise Unavailable(
                    f"Nobody answered at {host}:{port} within {patience} seconds ({error}).",
                    remedy="Start process 0 there first, and see that the port is open between the machines.",
                ) from error
            time.sleep(0.2)


def _explained(
    error: RuntimeError, coordinator: str, processes: int, process: int, patience: int
) -> InvalidArgument | Unavailable:
    words = str(error)
    if "before any JAX" in words or "only be called once" in words:
        return InvalidArgument(
            "JAX was used before the processes were joined.",
            remedy="Call rt.distributed.start first and once, before any array is made.",
        )
    if "already" in words.lower() and "DEADLINE" not in words:
        return InvalidArgument(
            f"Another process says that it is process {process} of {processes}, or {coordinator} is taken.",
            remedy="Give each process a number of its own, and the coordinator a free port.",
        )
    return Unavailable(
        f"Not all of the {processes} processes were at {coordinator} within {patience} seconds.",
        remedy="Start each of them, with the same number of processes and numbers from 0 on.",
    )
