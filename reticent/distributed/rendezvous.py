"""Processes meet before JAX joins them, so that a missing or wrong process gives a clear error.

JAX itself would end every process without an error that could be caught. So the first process listens at the
coordinator's port for a moment, the others say there who they are, and all get the same answer. Then the
port is JAX's.
"""

from __future__ import annotations

import json
import platform
import socket
import time
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from reticent import __version__
from reticent.core import errors
from reticent.core.errors import InvalidArgument, ReticentError, Unavailable

_LONGEST = 4096  # bytes of a line
_STRANGER = 5  # seconds for a caller to introduce itself
_LATE = 3  # seconds more to hear whom the first process missed


class MeetingPoint(NamedTuple):
    """The address of the first process, and how long to wait there."""

    host: str
    port: int
    patience: int
    end: float  # by `time.monotonic`

    @classmethod
    def until(cls, host: str, port: int, patience: int) -> MeetingPoint:
        return cls(host, port, patience, time.monotonic() + patience)

    @property
    def left(self) -> float:
        return max(self.end - time.monotonic(), 0.1)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def meet(place: MeetingPoint, *, processes: int, process: int) -> None:
    """Returns when all processes are there and belong together.

    Raises:
        Unavailable: a process is missing, or none answers.
        InvalidArgument: two have one number, or they differ in how many they are or in their versions.
    """
    hello = {"process": process, "processes": processes, "versions": versions()}
    if process == 0:
        _receive(place, hello)
    else:
        _call(place, hello)


def versions() -> dict[str, str]:
    """The versions that must agree on all machines."""
    import jax

    return {"reticent": __version__, "JAX": jax.__version__, "Python": platform.python_version()}


def connect(place: MeetingPoint) -> socket.socket:
    """Connects to the process that listens there.

    Raises:
        Unavailable: nobody did in time.
    """
    while True:
        try:
            return socket.create_connection((place.host, place.port), timeout=min(place.left, 5))
        except OSError as error:
            if time.monotonic() > place.end:
                raise Unavailable(
                    f"No answer from {place} within {place.patience} seconds ({error}).",
                    remedy="Start process 0 there first, and check that its port is open to this machine.",
                ) from error
            time.sleep(0.1)


def _call(place: MeetingPoint, hello: dict[str, Any]) -> None:
    with connect(place) as connection:
        connection.settimeout(place.left + _LATE)
        try:
            _write(connection, hello)
            answer = _read(connection)
        except TimeoutError as error:
            raise Unavailable(
                f"{place} did not confirm within {place.patience} seconds that all processes have arrived.",
                remedy="Start each of them, or wait longer.",
            ) from error
        except OSError:
            answer = None
    if not isinstance(answer, dict) or "problem" not in answer:
        raise Unavailable(
            f"What answers at {place} is not a process 0 that waits for process {hello['process']}.",
            remedy="It may have ended, or belong to another run: start all processes again, on a free port.",
        )
    if answer["problem"] is not None:
        kind, happened, remedy = answer["problem"]
        raise getattr(errors, kind)(happened, remedy=remedy)


def _receive(place: MeetingPoint, hello: dict[str, Any]) -> None:
    with ExitStack() as stack:
        guests: dict[int, socket.socket] = {}
        problem = _gather_guests(place, hello, guests, stack)
        said = None if problem is None else (type(problem).__name__, problem.happened, problem.remedy)
        for guest in guests.values():
            with suppress(OSError):
                _write(guest, {"problem": said})
                guest.recv(1)  # until it hangs up: the side that closes first keeps the port busy for a while
    if problem is not None:
        raise problem


def _gather_guests(
    place: MeetingPoint, hello: dict[str, Any], guests: dict[int, socket.socket], stack: ExitStack
) -> ReticentError | None:
    """Fills `guests` with all other processes; or says why not. Nobody listens any more afterwards."""
    with _listen(place) as listener:
        while len(guests) < hello["processes"] - 1:
            listener.settimeout(place.left)
            try:
                guest = stack.enter_context(listener.accept()[0])
            except TimeoutError:
                missing = sorted(set(range(1, hello["processes"])) - set(guests))
                return Unavailable(
                    f"Process {missing[0]} was not at {place} within {place.patience} seconds; "
                    f"{len(guests) + 1} of {hello['processes']} processes were.",
                    remedy="Start each of them, with the same number of processes, numbered from 0.",
                )
            guest.settimeout(_STRANGER)
            try:
                told = _read(guest)
                number = told["process"]
                problem = _misfit(told, hello, guests)
            except (OSError, TypeError, KeyError):  # no process of ours
                continue
            guests[-1 if problem else number] = guest
            if problem is not None:
                return problem
    return None


def _misfit(
    told: dict[str, Any], hello: dict[str, Any], guests: dict[int, socket.socket]
) -> ReticentError | None:
    """Why a process with this greeting cannot take part; None if it can."""
    process = told["process"]
    if told["processes"] != hello["processes"]:
        return InvalidArgument(
            f"Process {process} is one of {told['processes']} processes, and process 0 one of "
            f"{hello['processes']}.",
            remedy="Give each the same number of processes.",
        )
    for name, version in hello["versions"].items():
        if told["versions"][name] != version:
            return InvalidArgument(
                f"Process {process} has a different version of {name} from process 0: "
                f"{told['versions'][name]} and {version}.",
                remedy="Install the same versions on all machines.",
            )
    if process == 0 or (process in guests and _is_there(guests[process])):
        return InvalidArgument(
            f"Two processes claim to be process {process} of {hello['processes']}.",
            remedy="Give each process a number of its own.",
        )
    return None


def _is_there(guest: socket.socket) -> bool:
    guest.setblocking(False)
    try:
        return guest.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        guest.settimeout(_STRANGER)


def _listen(place: MeetingPoint) -> socket.socket:
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", place.port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", place.port))
    except OSError as error:
        raise Unavailable(
            f"Process 0 cannot listen at port {place.port}: {error.strerror}.",
            remedy="Choose a port that is free: another process 0 may be there.",
        ) from error


def _write(connection: socket.socket, value: Any) -> None:
    connection.sendall(json.dumps(value).encode() + b"\n")


def _read(connection: socket.socket) -> Any:
    """Reads one line; None if it is not a message of ours."""
    with connection.makefile("rb") as lines:
        line = lines.readline(_LONGEST)
    try:
        return json.loads(line)
    except ValueError:
        return None
