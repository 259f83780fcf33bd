"""Tests draw the same each time, and never the same twice."""

from __future__ import annotations

import hashlib
import os
import secrets

import pytest

pytestmark = pytest.mark.skipif("CHANCE" in os.environ, reason="CHANCE asks for other luck")


def _stream(name: str, draw: int) -> bytes:
    return hashlib.shake_256(f"/{name}/{draw}".encode()).digest(32)


@pytest.fixture(scope="module")
def drawn_for_all() -> bytes:
    return secrets.token_bytes(32)


def test_a_test_draws_from_a_stream_of_its_own(request: pytest.FixtureRequest):
    assert [secrets.token_bytes(32) for _ in range(2)] == [_stream(request.node.nodeid, n) for n in (1, 2)]


def test_what_tests_share_does_not_depend_on_who_came_first(
    drawn_for_all: bytes, request: pytest.FixtureRequest
):
    assert drawn_for_all == _stream("tests/test_chance.py/drawn_for_all/0", 1)
    assert secrets.token_bytes(32) == _stream(request.node.nodeid, 1)


def test_whole_numbers_fill_their_bits():
    drawn = [secrets.randbits(63) for _ in range(64)]
    assert max(drawn).bit_length() <= 63
    assert [any(number >> bit & 1 for number in drawn) for bit in range(63)] == [True] * 63


def test_a_fork_draws_from_the_operating_system(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert secrets.token_bytes(32) != _stream(request.node.nodeid, 1)
