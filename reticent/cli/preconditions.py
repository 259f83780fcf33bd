"""What commands check before they begin or resume a run."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from reticent.cli import output
from reticent.core.errors import DataError, InvalidArgument, nearest, suggest
from reticent.core.plain_numbers import plain_number

LARGE_EPSILON = 10.0


def refuse_beside(context: typer.Context, option: str, *, what: str, allowed: Collection[str]) -> None:
    """
    Args:
        what: what the option does, as the beginning of a sentence.
        allowed: the parameters that may be given with it, by their names in Python.

    Raises:
        InvalidArgument: something was typed that would be ignored beside the option.
    """
    typed = [
        max(parameter.opts, key=len) if parameter.param_type_name == "option" else f"'{context.params[name]}'"
        for parameter in context.command.params
        if (name := parameter.name or "") not in allowed
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if typed:
        raise InvalidArgument(
            f"{option} {what}, and {', '.join(typed)} would ask for something else.",
            remedy=f"Leave {'it' if len(typed) == 1 else 'them'} out, or start over without {option}.",
        )


def refuse_without_resume(data: str | None) -> None:
    """
    Raises:
        InvalidArgument: a moved table was named for a run that is only started now.
    """
    if data is not None:
        raise InvalidArgument(
            f"--data {data} names the table of a run that is resumed, and this one is started.",
            remedy="Give the table as the first argument, or pass --resume FOLDER.",
        )


def check_source(source: str) -> None:
    """
    Raises:
        DataError: there is no such file, and its name is close to that of a dataset.
    """
    from reticent.data import catalog

    known = catalog.names()
    if source in known or Path(source).exists():
        return
    if nearest(source, known) is not None:
        raise DataError(
            f"There is no file {source}, and no dataset of this name.",
            remedy=f"{suggest(source, known)} All of them: reticent datasets list.",
        )


def warn_of_large_epsilon(epsilon: float) -> None:
    """Says what an epsilon above 10 allows."""
    if epsilon > LARGE_EPSILON:
        factor = plain_number(math.exp(min(epsilon, 700.0)))
        output.warn(
            f"epsilon {epsilon:g} promises little: one person may change the odds of any outcome by a factor "
            f"of {factor}. Values of about 1 are usual."
        )


@contextmanager
def said_if_nothing_was_charged(folder: Path) -> Iterator[None]:
    """For an interrupt before there was a run; later ones say how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        from reticent.runs.folder import RUN

        if not (folder / RUN).exists():
            output.warn("Stopped before anything was charged.")
        raise
