"""Planted bugs, and false alarms of the right trainer."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.audit.coverage import planted_suite
from benchmarks.training.tables import Check, Section


def measure(runs: int) -> tuple[Section, Any]:
    planted = planted_suite("broken_trainers")
    rows, raw, missed = [], [], 0
    for broken in planted.BROKEN:
        checks, verdict = planted.replayed(broken()), planted.audited(broken())
        is_caught = bool(checks) or verdict.exit_code == 1
        missed += not is_caught
        rows.append((broken.__name__, ", ".join(dict.fromkeys(checks)) or "-", verdict.outcome.value,
                     f"{verdict.bound:.2f}"))  # fmt: skip
        raw.append({"trainer": broken.__name__, "replay": checks, "audit": verdict.to_json()})
    alarms = 0
    bounds = []
    for seed in range(runs):
        verdict = planted.audited(planted.Trainer(), seed)
        alarms += bool(planted.replayed(planted.Trainer(), seed)) or verdict.exit_code == 1
        bounds.append(verdict.bound)
        print(f"right trainer, run {seed}: {verdict.bound:.2f}", file=sys.stderr, flush=True)
    raw.append({"trainer": "right", "runs": runs, "alarms": alarms, "bounds": bounds})
    text = (
        f"Each claims epsilon {planted.plan().guarantee().epsilon:.3g}. The audit has {planted.CANARIES:,} "
        f"canaries; the right trainer shows {min(bounds):.2f} to {max(bounds):.2f} in {runs} runs."
    )
    checks_ = [
        Check("planted bugs that neither sees", missed, "=", 0, ""),
        Check(f"alarms in {runs} runs of the right trainer", alarms, "=", 0, ""),
    ]
    header = ("trainer", "replay finds", "audit says", "audit's bound")
    return Section("Planted bugs", text, header, rows, checks_), raw
