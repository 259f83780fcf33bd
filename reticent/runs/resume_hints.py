"""What whoever stopped a run should know: whether it is charged, and how to go on with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reticent.core.observer import Onlooker
from reticent.runs import folder as folders
from reticent.runs.payment import is_charged


@contextmanager
def said_when_stopped(
    folder: Path, record: dict[str, Any], onlooker: Onlooker, *, what: str
) -> Iterator[None]:
    """Has an interrupt say what became of the run: whoever is not told starts anew, and pays twice."""
    try:
        yield
    except KeyboardInterrupt:
        if (folder / folders.RUN).exists():
            onlooker.warn(f"Stopped. {what_now(folder, record, what=what)}".rstrip())
        raise


def what_now(folder: Path, record: dict[str, Any], *, what: str) -> str:
    """How to go on with a run that was stopped, that it costs nothing more, and what it promises."""
    paid = paid_already(record, what=what)
    if record["state"] == "failed":
        return paid
    said = (f"Go on with: reticent {what} --resume {folder}.", paid, folders.stopped_in_words(record))
    return " ".join(filter(None, said))


def paid_already(record: dict[str, Any], *, what: str) -> str:
    """Nothing, if nothing was charged."""
    if not is_charged(record, what=what):
        return ""
    rest = "what it cost stays spent" if record["state"] == "failed" else "is not charged again"
    return f"This run is charged already, and {rest}."
