"""A command line, run as somebody at a terminal would."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import pytest
import typer

from reticent.cli import app

Run = Callable[..., tuple[int, str, str]]

_built = cache(typer.main.get_command)  # commands keep nothing between two lines, and take long to build


@pytest.fixture
def reticent(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process: exit code, stdout, stderr.

    code, out, err = reticent("datasets", "list")
    """

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os._exit", sys.exit)  # or an interrupt would end all tests
            patch.setattr(typer.main, "get_command", _built)
            with pytest.raises(SystemExit) as ended:
                app.main([str(word) for word in words])
        out, err = capfd.readouterr()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return code, out, err

    return run
