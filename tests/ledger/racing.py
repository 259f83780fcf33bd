"""Many processes charge one ledger at once. Run as a script: it forks after the imports, which would take
longer than the race, and prints what every process saw as JSON.

    python racing.py LEDGER PROCESSES CHARGES gaussian|laplace
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

from reticent.core.errors import BudgetExceeded
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian, Laplace

EVENTS: dict[str, list[Event]] = {
    "gaussian": [Gaussian(noise_multiplier=60.0), Gaussian(noise_multiplier=80.0)],
    "laplace": [
        Laplace(noise_multiplier=40.0),
        Laplace(noise_multiplier=50.0),
    ],  # slow to decide near a limit
}


def charge_some(path: str, me: int, charges: int, kind: str, inherited: Ledger) -> dict[str, Any]:
    """Every second process uses a ledger that was opened before the fork."""
    ledger = inherited if me % 2 else Ledger.open(path)
    parents = inherited._store._connection
    budget, chance = ledger.for_dataset("patients"), random.Random(me)
    seen: dict[str, Any] = {"receipts": [], "refused": 0, "seconds": []}
    for turn in range(charges):
        started = time.perf_counter()
        try:
            receipt = budget.charge(
                chance.choice(EVENTS[kind]), adjacency=Adjacency.ADD_OR_REMOVE, purpose=f"{me}, {turn}"
            )
            seen["receipts"].append([receipt.sequence, receipt.hash, f"{me}, {turn}"])
        except BudgetExceeded:
            seen["refused"] += 1
        seen["seconds"].append(time.perf_counter() - started)
    assert ledger._store._connection is not parents, "connections must not cross a fork"
    return seen


def main(path: str, processes: int, charges: int, kind: str) -> None:
    inherited = Ledger.open(path)
    start, go = os.pipe()
    pipes = []
    for me in range(processes):
        reader, writer = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                os.close(go)
                os.read(start, 1)  # until the last one is there
                seen = charge_some(path, me, charges, kind, inherited)
                with os.fdopen(writer, "w") as file:
                    json.dump(seen, file)
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        pipes.append(reader)
    os.close(go)
    print(json.dumps([json.load(os.fdopen(reader)) for reader in pipes]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
