"""The bar that a person watches while a model trains; silent when nobody does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reticent.core.watching_program import is_watched, json_bar
from reticent.training.plan import Plan

_WARM_UP = "compiling"


@contextmanager
def bar(plan: Plan, *, is_shown: bool | None = None) -> Iterator[Callable[[int, str], None]]:
    """Epoch, steps per second, epsilon and time left, on stderr.

    The epsilon is that of a run that was meant from the start to end here, with what was released beside it.
    Whoever stops a run because of what the bar says has spent the whole plan.

    Yields a function to call with the steps taken so far and the last thing worth saying.
    """
    if is_shown is not False and is_watched():
        yield _tell(plan)
        return
    if not (sys.stderr.isatty() if is_shown is None else is_shown):
        yield lambda steps, said: None
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[epoch]:.1f}/{task.fields[epochs]:.1f} epochs"),
        progress.TextColumn("{task.fields[speed]}"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as shown:
        task = shown.add_task(_WARM_UP, total=plan.steps, epoch=0.0, epochs=plan.epochs, speed="")

        def advance(steps: int, said: str) -> None:
            speed = shown.tasks[task].speed
            shown.update(
                task,
                completed=steps,
                description=said or "training",
                epoch=plan.epochs * steps / max(plan.steps, 1),
                speed=f"{speed:.0f} steps/s" if speed else "",
            )

        yield advance


def _tell(plan: Plan) -> Callable[[int, str], None]:
    """The same for a program that watches."""
    advance, taken = json_bar("training", float(plan.steps)), 0

    def tell(steps: int, said: str) -> None:
        nonlocal taken
        more, taken = steps - taken, steps
        advance(more, said)

    return tell
