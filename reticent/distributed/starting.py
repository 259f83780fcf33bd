"""Starting several processes: all of them connect to the first."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unavailable
from reticent.distributed.rendezvous import MeetingPoint, connect, meet

PATIENCE = 60  # seconds to wait for the other processes
_PROXIES, _DIRECT = ("grpc_proxy", "https_proxy", "http_proxy"), "no_grpc_proxy"  # as gRPC reads them
_HEARTBEAT = 20  # seconds after which a silent process is taken for dead
_FAREWELL = 3600  # seconds to wait at the end for others that are alive


def start(
    coordinator: str, *, processes: int, process: int, patience: int = PATIENCE, devices: int | None = None
) -> None:
    """Joins this process with the others; call it before anything else uses JAX.

    Args:
        coordinator: HOST:PORT of process 0, as the others see it.
        processes: how many there are in all.
        process: which one this is, from 0.
        patience: seconds to wait until all are there.
        devices: how many virtual devices a CPU is divided into; 1 unless given.

    Raises:
        InvalidArgument: a number outside its range, no HOST:PORT, JAX was used already, or the processes
            do not belong together.
        Unavailable: not all processes were there in time.
    """
    checks.count(processes=processes, patience=patience)
    checks.count(minimum=0, process=process)
    if process >= processes:
        raise InvalidArgument(
            f"Process number {process} is not below {processes}: processes are counted from 0.",
            remedy=f"Give each process a number of its own, from 0 to {processes - 1}.",
        )
    host, port = _address(coordinator)
    import jax

    if jax.distributed.is_initialized() or _is_jax_in_use():
        raise InvalidArgument(
            "JAX was used before the processes were joined.",
            remedy="Call rt.distributed.start first and once, before creating any array.",
        )
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if devices is not None:
        checks.count(devices=devices)
        jax.config.update("jax_num_cpu_devices", devices)
    _call_directly(host)
    meet(MeetingPoint.until(host, port, patience), processes=processes, process=process)
    if process > 0:  # until JAX has taken over the port: it would not wait for itself
        connect(MeetingPoint.until(host, port, patience)).close()
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
        raise Unavailable(
            f"The {processes} processes met at {coordinator}, and JAX could not join them: {error}",
            remedy="Start all of them again.",
        ) from error
    _leave_after_errors()
    from reticent.distributed import collectives

    with _redirect_standard_output():
        collectives.gather_arrays(process)


def _call_directly(host: str) -> None:
    """JAX calls the first process by gRPC, which would ask a proxy of the environment to do it."""
    if any(name in os.environ for name in _PROXIES):
        others = os.environ.get(_DIRECT) or os.environ.get("no_proxy")
        os.environ[_DIRECT] = ",".join(filter(None, [others, host]))


@contextmanager
def _redirect_standard_output() -> Iterator[None]:
    """Sends to standard error what the library below prints when processes first meet.

    It would corrupt output that a program reads, such as JSON.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _is_jax_in_use() -> bool:
    from jax._src import xla_bridge  # JAX has no public question for it

    return xla_bridge.backends_are_initialized()


def _leave_after_errors() -> None:
    """Makes an uncaught error end this process at once, so that the others do not wait for it."""
    show = sys.excepthook

    def show_and_leave(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        show(kind, error, trace)
        leave(1)

    sys.excepthook = show_and_leave


def leave(code: int) -> None:
    """Exits at once if there are several processes: JAX would wait for others that may be gone."""
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # its reader may be gone too
                stream.flush()
        os._exit(code)


def _address(coordinator: str) -> tuple[str, int]:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidArgument(
            f"coordinator={coordinator!r} is not HOST:PORT.",
            remedy="Name the machine of process 0 and a free port there, such as 10.0.0.1:7777.",
        )
    return host, int(port)
