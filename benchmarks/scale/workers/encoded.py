"""`reticent train` on a Parquet file, made to believe that no table fits into the memory."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.scale.workers.telling import asked, say
from reticent.core.observer import Observer
from reticent.runs import spill
from reticent.runs.fit import fit
from reticent.runs.request import Request


def main() -> None:
    wanted = asked()
    spill._SHARE = 1 << 62
    noted: list[tuple[str, float]] = []
    observer = Observer(say=lambda words: noted.append((words, time.perf_counter())))
    order = Request(source=wanted["table"], target="y", epsilon=1.0, domain=wanted["domain"])
    started = time.perf_counter()
    done = fit(order, Path(wanted["folder"]), observer=observer)
    begun = next(at for words, at in noted if words.startswith("training "))
    say(
        preparing=begun - started,
        seconds=time.perf_counter() - started,
        recipe=done.record.recipe.in_words,
    )


if __name__ == "__main__":
    main()
