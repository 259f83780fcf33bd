"""What one process cannot read or write stops all of them, with its words: nobody waits for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import joined_processes as joined
import pytest

from reticent.cli import app


@pytest.mark.thorough
def test_an_error_on_the_way_is_raised_by_every_process(tmp_path: Path):
    address = joined.free_address()
    both = [joined.begun("failing_runs.py", address, 2, process, tmp_path) for process in (0, 1)]
    first, second = joined.ended(both, within=120)
    assert [first.code, second.code] == [0, 0], (first, second)
    assert first.output.splitlines() == [
        "reading: DataError: Process 1 stopped: The disk is gone. Look after it.",
        "saving: DataError: The disk is full. Look after it.",
        "the end",
    ]
    assert second.output.splitlines() == [
        "reading: DataError: The disk is gone. Look after it.",
        "saving: DataError: Process 0 stopped: The disk is full. Look after it.",
        "the end",
    ]


@pytest.mark.parametrize(("is_joined", "code"), [(True, 1), (False, 0)])
def test_a_process_whose_reader_is_gone_does_not_let_the_others_wait(
    monkeypatch: pytest.MonkeyPatch, is_joined: bool, code: int
):
    """`reticent train ... | head -1`: it ends with a code for which `leave` is called."""

    def gone(*given: object, **rest: object) -> None:
        raise BrokenPipeError

    closed: list[int] = []
    monkeypatch.setattr(app, "app", gone)
    monkeypatch.setattr(app.typer.main, "get_command", lambda made: made)
    monkeypatch.setattr(app, "defaults_for", lambda *given: {})
    monkeypatch.setattr(app, "_is_joined", lambda: is_joined)
    monkeypatch.setattr(os, "dup2", lambda new, old: closed.append(old))
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1, raising=False)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2, raising=False)
    assert app._run(["train"], debug=False) == code
    assert closed == ([1, 2] if is_joined else [1])
