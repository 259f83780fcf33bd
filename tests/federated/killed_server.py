"""A server of four rounds that is killed by signal 9 at a moment that its command line names."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import reticent as rt
from reticent.core.keys import Keys
from reticent.federated import journal, rounds
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

CLIENTS, WIDTH = 9, 50
VANISHED = ("0", "1", "2")  # a third, in every round


def plan() -> FederatedPlan:
    return FederatedPlan.for_budget(
        epsilon=4.0,
        delta=1e-3,
        clients=CLIENTS,
        clients_per_round=6,
        rounds=4,
        max_norm=1.0,
        rows_per_client=1,
        local=LocalTraining(learning_rate=1.0),
    )


def open_ledger(folder: Path) -> Any:
    ledger = rt.Ledger.create(str(folder / "ledger.db"))
    ledger.limit("phones", epsilon=4.5, delta=2e-3, unit="user")
    return ledger


def charges(ledger: Any) -> list[Any]:
    return [entry for entry in ledger.entries("phones") if entry.kind == "charge"]


def new_rounds(folder: Path | None, budget: Any = None) -> rounds.Rounds:
    names = [str(client) for client in range(CLIENTS)]
    kept = None if folder is None else folder / "run"
    return rounds.Rounds(plan(), jnp.zeros(WIDTH), names, keys=Keys.seeded(1), folder=kept, budget=budget)


def take_round(server: rounds.Rounds, tell: Any = lambda sentence: None) -> None:
    current = server.begin()
    tell(f"asked:{current.number}")
    for client in current.clients:
        if client not in VANISHED:
            current.take(client, np.full(WIDTH, 0.1, np.float32))
    server.finish(current)


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def _kill(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_at(moment: str) -> None:
    if moment == "charge":  # before the ledger has it
        rounds.pay_once = _kill
    if moment == "answers":  # some have answered
        rounds.OpenRound.take = _kill
    if moment == "journal":  # the model of the second round is saved
        note = journal.Journal.note

        def killing(self: Any, number: int, **given: Any) -> None:
            if number == 1 and given.get("finished"):
                _kill()
            note(self, number, **given)

        journal.Journal.note = killing


def main() -> None:
    folder, moment = Path(sys.argv[1]), sys.argv[2]
    _kill_at(moment)
    budget = rt.Ledger.open(str(folder / "ledger.db")).for_dataset("phones", unit="user")
    server = new_rounds(folder, budget)
    while not server.is_complete:
        take_round(server, _say)
    np.save(folder / "model.npy", np.asarray(server.result().params))
    _say("done")


if __name__ == "__main__":
    main()
