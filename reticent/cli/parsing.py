"""What is raised for a line that cannot be parsed, under one name for every version of typer."""

from __future__ import annotations

from typing import Any

import typer

# An option that does not exist, a value of the wrong kind: `typer.TyperException` since typer 0.28, an
# exception of click before, which typer has brought along since 0.26. Flower needs typer below 0.21.
LineError: Any = typer.BadParameter.__mro__[-4]  # the one just below Exception


def explain(error: Any) -> str:
    """The sentence of a `LineError`; empty if the help was printed instead.

    typer before 0.26 and click both suggest the command that was meant: it is said once.
    """
    first, *suggestions = error.format_message().split(" Did you mean ")
    return " Did you mean ".join([first, *dict.fromkeys(suggestions)])
