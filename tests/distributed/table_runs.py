"""Follows orders for tables, one after the other, in one of several processes; says of each how it went.

    python table_runs.py ADDRESS PROCESSES PROCESS FILE

The file lists the jobs as JSON. Steps are few here, and what chance decides in a real run is decided by a
seed: noise, the batches, and which rows are held out. A process works in a folder of its own, named after its
number, beside the file: as machines do, that may have different files of one name.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from reticent import distributed
from reticent.core.errors import ReticentError
from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.runs import spill
from reticent.runs.fit import fit, resume
from reticent.runs.methods import descent
from reticent.runs.request import Request

STEPS = 12
_planned = descent._plan


def few_steps(terms: Any, max_norm: float, steps: int, batch: int | None) -> Any:
    """The plan of a run, but for its length."""
    return _planned(terms, max_norm, STEPS, batch)


def stop_soon(is_wanted: bool) -> None:
    """Interrupts a run after its first epoch, in every process."""
    train = descent.__dict__.setdefault("_train_as_it_is", descent.train)

    def stop(moment: Any) -> None:
        raise KeyboardInterrupt

    descent.train = (lambda *given, **rest: train(*given, **rest, on_progress=stop)) if is_wanted else train


def follow(job: dict[str, Any], said: list[str]) -> dict[str, Any]:
    """One job: an order for a new folder, or a folder to resume."""
    stop_soon(job.get("stops", False))
    spill.is_too_large = lambda *_: job.get("stays on disk", False)
    folder, keys = Path(job["folder"]), Keys.seeded(job.get("seed", 1))
    observer = Observer(say=said.append)
    if job.get("resumes"):
        return resume(folder, keys=keys, observer=observer).record.to_json()
    return fit(Request(**job["order"]), folder, keys=keys, observer=observer).record.to_json()


def main(address: str, processes: int, process: int, file: Path) -> None:
    distributed.start(address, processes=processes, process=process, patience=60)
    descent._plan = few_steps
    (file.parent / str(process)).mkdir(exist_ok=True)
    os.chdir(file.parent / str(process))
    for job in json.loads(file.read_text()):
        for name, value in job.pop("in process", {}).get(str(process), {}).items():
            job["order"][name] = value
        try:
            record = follow(job, said := [])
            print(json.dumps({"record": record, "said": said}), flush=True)
        except ReticentError as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
