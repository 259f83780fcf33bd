"""How every command prints: results on stdout, remarks and progress on stderr.

Names and words may come from a stranger's file. So everything that is printed passes `printable` here.
With `RETICENT_PROGRESS=lines` in the environment, stderr is for a program: see `core.watching_program`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.core.errors import DataError
from reticent.core.printable import printable, printable_json
from reticent.core.watching_program import is_watched, json_bar, tell

if TYPE_CHECKING:
    from reticent.core.observer import Observer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]


def print_json(value: Any) -> None:
    """Prints one JSON document on stdout. Infinity becomes the string "inf": JSON has no word for it."""
    print(printable_json(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)))


def note(message: str) -> None:
    """Prints a remark for the person at the keyboard."""
    _say("note", printable(message), style="dim")


def warn(message: str) -> None:
    _say("warning", printable(message), prefix="warning: ", style="yellow")


def fail(message: str) -> None:
    """Prints one line that says what went wrong and what to do."""
    _say("error", printable(" ".join(message.split())), prefix="error: ", style="red")


@contextmanager
def kept_if_possible() -> Iterator[None]:
    """Warns where results cannot be kept in the folder of a run: they are printed all the same."""
    try:
        yield
    except DataError as error:
        warn(f"The results are not kept. {error}")


def print_line(text: str = "") -> None:
    """Prints a line on stdout as it is, however wide the terminal is."""
    print(printable(text))


def print_text(text: str) -> None:
    """Prints a sentence on stdout, wrapped to the width of the terminal."""
    from rich.console import Console

    Console().print(printable(text), markup=False, highlight=False)


def print_table(title: str, columns: dict[str, str], rows: list[tuple[str, ...]]) -> None:
    """Prints a table on stdout. `columns` maps each heading to its alignment: "left" or "right"."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(printable(title)), title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for heading, side in columns.items():
        table.add_column(Text(printable(heading)), justify="right" if side == "right" else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


@contextmanager
def progress(description: str, total: float | None, *, unit: str = "bytes") -> Iterator[Any]:
    """A bar on stderr with the time left; silent when nobody is watching.

    Yields a function to call with how much more was done.
    """
    if is_watched():
        yield json_bar(description, total)
        return
    from rich import progress as bars

    columns = {"bytes": bars.DownloadColumn, "percent": bars.TaskProgressColumn}
    amount = columns.get(unit, bars.MofNCompleteColumn)()
    with bars.Progress(
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        amount,
        bars.TimeRemainingColumn(),
        console=_stderr(),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(printable(description), total=total)
        yield lambda amount: bar.advance(task, amount)


@contextmanager
def watch(description: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr for work of which only the fraction done is known.

    Yields a function to call with that fraction.
    """
    with progress(description, 100, unit="percent") as advance:
        furthest = 0.0

        def on_progress(done: float) -> None:
            nonlocal furthest
            advance(100 * max(done - furthest, 0.0))
            furthest = max(done, furthest)

        yield on_progress
        on_progress(1.0)  # what is done in one go never says so


def observer() -> Observer:
    """Shows the remarks, warnings and progress of a computation on stderr."""
    from reticent.core.observer import Observer

    return Observer(say=note, warn=warn, watch=watch)


def _say(kind: str, message: str, *, prefix: str = "", style: str) -> None:
    if is_watched():
        tell(**{kind: message})
    else:
        _stderr().print(prefix + message, style=style, markup=False, highlight=False, soft_wrap=True)


def _stderr():
    from rich.console import Console

    return Console(stderr=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
