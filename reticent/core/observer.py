"""Whoever watches a run: a person at a terminal, or nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

OnProgress = Callable[[float], None]


@contextmanager
def _unseen(what: str) -> Iterator[OnProgress]:
    yield lambda done: None


class Observer(NamedTuple):
    """How a run speaks.

    Args:
        say: one line.
        warn: one line that should not be missed.
        watch: a bar for something that takes a while; it is told the fraction done.
    """

    say: Callable[[str], None] = lambda line: None
    warn: Callable[[str], None] = lambda line: None
    watch: Callable[[str], AbstractContextManager[OnProgress]] = _unseen


NOBODY = Observer()
