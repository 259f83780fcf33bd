"""Locks: files that one process at a time may hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Waits until nobody else holds the lock, a file beside what is written; it stays where it is.

    On systems without `flock`, nothing is waited for.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
