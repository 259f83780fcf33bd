"""A run for a table that takes its time, so that somebody may kill it on the way.

    python slow_run.py ADDRESS PROCESSES PROCESS FOLDER TABLE DOMAIN LEDGER [PACE]

It goes on with the folder if there is a run in it. Every call of compiled steps is followed by a checkpoint,
and by a pause of PACE seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from reticent import distributed
from reticent.core.errors import ReticentError
from reticent.core.keys import Keys
from reticent.distributed.starting import leave
from reticent.runs.fit import fit, resume
from reticent.runs.methods import descent
from reticent.runs.request import Request
from reticent.training.checkpoint import Checkpoints


def main(address: str, processes: int, process: int, *paths: str) -> None:
    distributed.start(address, processes=processes, process=process, patience=20)
    folder, table, domain, ledger = map(Path, paths[:4])
    pace, train = float(paths[4]), descent.train

    def at_this_pace(*given: Any, **rest: Any) -> Any:
        return train(*given, **rest, on_progress=lambda moment: time.sleep(pace))

    descent.train = at_this_pace
    assert Checkpoints.__init__.__kwdefaults__ is not None
    Checkpoints.__init__.__kwdefaults__["seconds"] = 0.0
    order = Request(
        source=str(table),
        target="y",
        epsilon=4.0,
        method="gd",
        domain=str(domain),
        ledger=str(ledger),
        dataset="table",
    )
    try:
        if (folder / "run.json").exists():
            resume(folder, keys=Keys.seeded(1))
        else:
            fit(order, folder, keys=Keys.seeded(1))
    except ReticentError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        leave(3)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
