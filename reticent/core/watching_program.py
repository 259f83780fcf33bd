"""A program that watches a command: one JSON object per line on stderr, instead of words and bars.

RETICENT_PROGRESS=lines reticent train ...

{"note": ...}, {"warning": ...}, {"error": ...}, and {"bar": ..., "done": 0.25, "said": ...} for a bar
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from reticent.core.printable import printable_json

_PAUSE = 0.1  # seconds between two lines of a bar


def is_watched() -> bool:
    """Whether a program reads what this one says."""
    return os.environ.get("RETICENT_PROGRESS") == "lines"


def tell(**said: Any) -> None:
    """One line for the program that watches."""
    print(printable_json(json.dumps(said, ensure_ascii=False)), file=sys.stderr, flush=True)


def json_bar(description: str, total: float | None) -> Callable[..., None]:
    """A bar for a program: a line when it starts, at most ten in a second, and one when all is done.

    Returns a function to call with how much more was done, and what is worth saying.
    """
    amount, told = 0.0, time.monotonic()
    tell(bar=description, done=None if total is None else 0.0)

    def advance(more: float, said: str = "") -> None:
        nonlocal amount, told
        amount += more
        is_due = time.monotonic() - told > _PAUSE or (total is not None and amount >= total)
        if total and is_due:
            told = time.monotonic()
            beside = {"said": said} if said else {}
            tell(bar=description, done=min(amount / total, 1.0), **beside)

    return advance
