"""Chance in the suite: a test that passed passes again, until somebody changes what it tests.

What the operating system would give is drawn, in tests, from a stream named after the test (or after the
fixture, where several tests share one). Nothing else changes: keys still call themselves the operating
system's, and no two draws are alike. So a failure can be looked at again, and no change fails by bad luck.

    CHANCE=monday make test    other luck, and other examples from hypothesis: does every test have room?
    CHANCE=os make test        the operating system's own

Processes that a test starts, and forks of this one, draw from the operating system.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

_WORD = os.environ.get("CHANCE", "")
_IS_REAL = _WORD == "os"

# The first example of a test may wait for a compiler, and the machine may be busy: no limit each.
settings.register_profile("house", deadline=None, derandomize=not _WORD)
settings.load_profile("house")


class _Chance:
    """Bytes that follow from a name and from how many were drawn under it before."""

    def __init__(self) -> None:
        self._guard, self._owner = threading.Lock(), os.getpid()
        self._from_os = secrets.token_bytes
        self.name, self.drawn = "collection", 0

    def token_bytes(self, nbytes: int | None = None) -> bytes:
        if os.getpid() != self._owner:
            return self._from_os(nbytes)
        with self._guard:
            self.drawn += 1
            told = f"{_WORD}/{self.name}/{self.drawn}".encode()
        return hashlib.shake_256(told).digest(secrets.DEFAULT_ENTROPY if nbytes is None else nbytes)

    def randbits(self, k: int) -> int:
        return int.from_bytes(self.token_bytes((k + 7) // 8)) >> (-k % 8)


_CHANCE = _Chance()
if not _IS_REAL:
    secrets.token_bytes, secrets.randbits = _CHANCE.token_bytes, _CHANCE.randbits


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _CHANCE.name, _CHANCE.drawn = item.nodeid, 0
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    if fixturedef.scope == "function":
        return (yield)
    before = _CHANCE.name, _CHANCE.drawn
    _CHANCE.name, _CHANCE.drawn = f"{fixturedef.baseid}/{fixturedef.argname}/{request.param_index}", 0
    try:
        return (yield)
    finally:
        _CHANCE.name, _CHANCE.drawn = before
