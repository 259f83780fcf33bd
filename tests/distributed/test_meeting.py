"""Processes meet: all of them, each once, with the same versions; or every one of them is told why not."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax.numpy as jnp
import joined_processes as joined
import pytest

from reticent import distributed
from reticent.core.errors import InvalidArgument, ReticentError
from reticent.distributed import rendezvous
from reticent.distributed.rendezvous import MeetingPoint, meet


def place(patience: int = 20) -> MeetingPoint:
    host, _, port = joined.free_address().rpartition(":")
    return MeetingPoint.until(host, int(port), patience)


def together(*calls: Callable[[], Any]) -> list[str]:
    """What came of calls that are made at the same time, in words."""

    def said(call: Callable[[], Any]) -> str:
        try:
            call()
        except ReticentError as error:
            return f"{type(error).__name__}: {error}"
        return "met"

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(said, calls))


def coming(at: MeetingPoint, processes: int, process: int) -> Callable[[], None]:
    return lambda: meet(at, processes=processes, process=process)


def test_processes_meet_in_any_order_and_the_port_is_free_afterwards() -> None:
    at = place()
    assert together(*(coming(at, 3, process) for process in (2, 0, 1))) == ["met"] * 3
    again = MeetingPoint.until(at.host, at.port, 20)
    assert together(coming(again, 2, 0), coming(again, 2, 1)) == ["met"] * 2
    meet(place(), processes=1, process=0)


def test_who_is_missing_is_told_to_all() -> None:
    at = place(patience=1)
    first, second = together(coming(at, 3, 0), coming(at, 3, 1))
    assert first == second
    assert first.startswith("Unavailable: Process 2 was not at 127.0.0.1:")
    assert "within 1 seconds; 2 of 3 processes were. Start each of them" in first


def test_nobody_waits_for_ever_for_a_coordinator() -> None:
    (said,) = together(coming(place(patience=1), 2, 1))
    assert said.startswith("Unavailable: No answer from 127.0.0.1:")
    assert "within 1 seconds" in said
    assert "Start process 0 there first, and check that its port is open" in said


def test_another_number_of_processes_is_told_to_both() -> None:
    at = place()
    said = together(coming(at, 2, 0), coming(at, 3, 1))
    assert len(set(said)) == 1
    assert "InvalidArgument: Process 1 is one of 3 processes, and process 0 one of 2." in said[0]


def test_one_number_for_two_is_told_to_all() -> None:
    at = place()
    said = together(coming(at, 3, 0), coming(at, 3, 1), coming(at, 3, 1))
    assert len(set(said)) == 1
    assert "InvalidArgument: Two processes claim to be process 1 of 3." in said[0]


def test_a_port_that_is_taken_is_no_place_to_wait() -> None:
    at = place()
    with socket.create_server(("", at.port)):
        (said,) = together(coming(at, 2, 0))
    assert f"Unavailable: Process 0 cannot listen at port {at.port}: Address already in use" in said


@pytest.mark.parametrize("name", ["reticent", "JAX", "Python"])
def test_an_older_version_is_told_to_both(name: str) -> None:
    at, older = place(), {**rendezvous.versions(), name: "0.0"}
    said = together(
        coming(at, 2, 0), lambda: rendezvous._call(at, {"process": 1, "processes": 2, "versions": older})
    )
    assert len(set(said)) == 1
    assert f"InvalidArgument: Process 1 has a different version of {name} from process 0: 0.0 and" in said[0]


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"[1, 2]\n", b"{}\n", b"", b"\xff" * 10_000])
def test_strangers_are_not_waited_for(words: bytes) -> None:
    at = place()

    def stranger() -> None:
        with rendezvous.connect(at) as connection:
            connection.sendall(words)
        meet(at, processes=2, process=1)

    assert together(coming(at, 2, 0), stranger) == ["met"] * 2


def test_a_process_that_died_may_come_again() -> None:
    at = place()

    def died_and_came_again() -> None:
        with rendezvous.connect(at) as connection:
            versions = rendezvous.versions()
            rendezvous._write(connection, {"process": 1, "processes": 3, "versions": versions})
        time.sleep(0.2)
        meet(at, processes=3, process=1)

    def last() -> None:
        time.sleep(0.6)
        meet(at, processes=3, process=2)

    assert together(coming(at, 3, 0), died_and_came_again, last) == ["met"] * 3


def test_a_coordinator_that_has_begun_is_no_coordinator_for_one_more() -> None:
    at = place()
    with socket.create_server((at.host, at.port)) as server, ThreadPoolExecutor(1) as pool:
        late = pool.submit(together, coming(at, 3, 2))
        connection, _ = server.accept()
        connection.sendall(b"\x00\x00\x12\x04 as JAX's own service says\n")
        connection.close()
        (said,) = late.result()
    assert "is not a process 0 that waits for process 2." in said


def test_what_start_is_told_is_checked_first() -> None:
    with pytest.raises(InvalidArgument, match="Process number 2 is not below 2"):
        distributed.start("127.0.0.1:7777", processes=2, process=2)
    for address in ("127.0.0.1", ":7", "host:port", "host:0", "host:65536"):
        with pytest.raises(InvalidArgument, match="is not HOST:PORT"):
            distributed.start(address, processes=2, process=0)
    for wrong in ({"processes": 0, "process": 0}, {"processes": 2, "process": -1}):
        with pytest.raises(InvalidArgument):
            distributed.start("127.0.0.1:7777", **wrong)
    with pytest.raises(InvalidArgument):
        distributed.start("127.0.0.1:7777", processes=2, process=0, patience=0)
    jnp.zeros(1)
    with pytest.raises(InvalidArgument, match="JAX was used before the processes were joined"):
        distributed.start("127.0.0.1:7777", processes=2, process=0)
