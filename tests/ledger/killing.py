"""Charges in children that are killed without warning, at moments nobody chose.

    python killing.py LEDGER KILLS SPENT

A child charges, and only then notes that it has spent: so there may be charges that were never spent, one
for each child at most, and never the reverse. Three ways to die take turns: at a random time, at a random
instruction of SQLite inside a statement (of PostgreSQL's driver, at a random line), and at a random line of
the ledger's own code. SPENT is a file with one byte for each thing that was spent.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

EVENT = Gaussian(noise_multiplier=50.0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(count: int) -> Callable[..., None]:
    """Dies when called for the so-many-th time."""
    left = [count]

    def tick(*_: object) -> None:
        left[0] -= 1
        if left[0] <= 0:
            die()

    return tick


def charge_forever(path: str, spent: int, way: int, chance: random.Random) -> None:
    ledger = Ledger.open(path)
    budget = ledger.for_dataset("patients")
    is_file = "://" not in path
    if way == 1 and is_file:
        connection = ledger._store._connection_for(is_reader=False)
        connection.set_progress_handler(after(chance.randrange(1, 400)), 1)
    elif way:
        tick = after(chance.randrange(1, 300 if is_file else 4000 if way == 1 else 1500))
        place = "psycopg" if way == 1 else "ledger"

        def trace(frame, _event, _argument):
            if place not in frame.f_code.co_filename:
                return None
            tick()
            return trace

        sys.settrace(trace)
    while True:
        budget.charge(EVENT, adjacency=Adjacency.ADD_OR_REMOVE, purpose="test")
        os.write(spent, b"x")


def main(path: str, kills: int, noted: str) -> None:
    chance, patience = random.Random(5), 1 if "://" not in path else 4
    Ledger.open(path).close()  # the driver is imported once, before the children
    spent = os.open(noted, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    rounds = []
    for turn in range(kills):
        child = os.fork()
        if child == 0:
            charge_forever(path, spent, turn % 3, random.Random(turn))
        if turn % 3 == 0:
            time.sleep(patience * chance.uniform(0.005, 0.06))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the child ended by itself"
        with Ledger.open(path) as ledger:
            found = ledger.verify()
            charges = ledger.account("patients").charges
        assert found.entries == charges + 2
        rounds.append([charges, Path(noted).stat().st_size])
    print(json.dumps(rounds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
