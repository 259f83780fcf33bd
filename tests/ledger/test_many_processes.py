"""Processes that race for a budget, and processes that are killed while they charge it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kind", "noise", "charges", "limit"), [("gaussian", 60.0, 60, 1.0), ("laplace", 40.0, 6, 0.5)]
)
def test_racing_charges_never_pass_the_limit_and_none_is_lost_or_doubled(
    path: Path, kind: str, noise: float, charges: int, limit: float
):
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=limit, delta=1e-6)
        seen = run("racing.py", path, 8, charges, kind)
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


def test_killed_at_any_moment_what_is_recorded_is_at_least_what_was_spent(path: Path):
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=50.0, delta=1e-6)
    rounds = run("killing.py", path, 30)
    for kills, (charged, spent) in enumerate(rounds, start=1):
        assert spent <= charged <= spent + kills
    charged, spent = rounds[-1]
    assert spent > 10
    with Ledger.open(path) as ledger:
        events = {from_json(entry.values["event"]) for entry in ledger.entries() if entry.kind == "charge"}
        recorded = ledger.for_dataset("patients").guarantee().epsilon
    (event,) = events
    assert recorded == guarantee(Repeated(event=event, times=charged), 1e-6).epsilon
    assert recorded >= tight(Repeated(event=event, times=spent), 1e-6).upper
