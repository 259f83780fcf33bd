"""Processes that race for a budget, and processes that are killed while they charge it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from postgres_server import Server

from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.ledger import cost
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.events import Gaussian, Laplace, Repeated, from_json

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


def run(script: str, *words: object) -> Any:
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(script), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("place", "kind", "noise", "charges", "limit"),
    [
        ("path", "gaussian", 60.0, 60, 1.0),
        ("path", "laplace", 40.0, 6, 0.5),
        ("database", "gaussian", 60.0, 60, 1.0),
        pytest.param("database", "laplace", 40.0, 6, 0.5, marks=pytest.mark.thorough),
        pytest.param("path", "gaussian", 60.0, 1000, 6.0, marks=pytest.mark.thorough),
        pytest.param("database", "gaussian", 60.0, 1000, 6.0, marks=pytest.mark.thorough),
    ],
)
def test_racing_charges_never_pass_the_limit_and_none_is_lost_or_doubled(
    request: pytest.FixtureRequest, place: str, kind: str, noise: float, charges: int, limit: float
):
    address = str(request.getfixturevalue(place))
    with Ledger.create(address) as ledger:
        ledger.limit("patients", epsilon=limit, delta=1e-6)
        seen = run("racing.py", address, 8, charges, kind)
        receipts = sorted(tuple(receipt) for process in seen for receipt in process["receipts"])
        refused = sum(process["refused"] for process in seen)
        entries = [entry for entry in ledger.entries() if entry.kind == "charge"]
        account = ledger.account("patients")
        ledger.verify()
    # Every receipt is an entry and every entry has one receipt: nothing lost, nothing doubled.
    assert receipts == [(entry.sequence, entry.hash, entry.values["purpose"]) for entry in entries]
    assert len(receipts) + refused == 8 * charges
    # The limit was reached, and not passed.
    assert refused > charges / 2
    assert len(receipts) > charges
    assert tight(account.event(), 1e-6).upper <= limit
    # Nobody was refused what would have fitted.
    large = Gaussian(noise_multiplier=noise) if kind == "gaussian" else Laplace(noise_multiplier=noise)
    assert not cost.is_within(account.event(large), account.limit)
    # Nobody waited for long.
    assert max(second for process in seen for second in process["seconds"]) < 15


def test_no_charge_is_refused_while_all_of_them_fit(path: Path):
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=30.0, delta=1e-6)
        seen = run("racing.py", path, 8, 8, "laplace")
        assert [process["refused"] for process in seen] == [0] * 8
        assert ledger.account("patients").charges == 64


def test_killed_at_any_moment_what_is_recorded_is_at_least_what_was_spent(address: str, tmp_path: Path):
    with Ledger.create(address) as ledger:
        ledger.limit("patients", epsilon=50.0, delta=1e-6)
    rounds = run("killing.py", address, 30, tmp_path / "spent")
    for kills, (charged, spent) in enumerate(rounds, start=1):
        assert spent <= charged <= spent + kills
    charged, spent = rounds[-1]
    assert spent > 10
    with Ledger.open(address) as ledger:
        events = {from_json(entry.values["event"]) for entry in ledger.entries() if entry.kind == "charge"}
        recorded = ledger.for_dataset("patients").guarantee().epsilon
    (event,) = events
    assert recorded == guarantee(Repeated(event=event, times=charged), 1e-6).epsilon
    assert recorded >= tight(Repeated(event=event, times=spent), 1e-6).upper


def test_a_server_killed_while_processes_charge_loses_nothing_and_doubles_nothing(
    postgres: Server, database: str
):
    with Ledger.create(database) as ledger:
        ledger.limit("patients", epsilon=50.0, delta=1e-6)
    words = [sys.executable, Path(__file__).with_name("outliving.py"), database, "4", "60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as charging:
        for _ in range(3):
            time.sleep(0.7)
            postgres.kill()
            postgres.start()
        out, _ = charging.communicate(timeout=200)
    assert charging.returncode == 0
    with Ledger.open(database) as ledger:
        ledger.verify()
        charged = sorted(entry.purpose or "" for entry in ledger.entries() if entry.kind == "charge")
    assert charged == sorted(f"{me}, {turn}" for me in range(4) for turn in range(60))
    assert int(out) > 0, "no process noticed that the server was gone"
