"""How often each bound exceeds the truth, and how much it shows, on mechanisms of known epsilon."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.audit.asking import peer_epsilons
from benchmarks.training.tables import Check, Section
from reticent import audit

DELTA, CANARIES = 1e-5, 1000
EPSILONS = (0.0, 0.5, 1.0, 4.0)

OURS: dict[str, Callable[..., Any]] = {
    "one_run": audit.one_run,
    "one_run, split": lambda s, i, delta: audit.one_run(s, i, delta=delta, select="split"),
    "one_run, binomial": lambda s, i, delta: audit.one_run(s, i, delta=delta, test="binomial"),
    "many_runs": lambda s, i, delta: audit.many_runs(s[i], s[~i], delta=delta),
    "gaussian_one_run (assumes)": audit.gaussian_one_run,
}


def planted_suite(name: str) -> Any:
    """A module of the tests: the same mechanisms and trainers as there."""
    folder = str(Path(__file__).resolve().parents[2] / "tests" / "audit")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def measure(trials: int, peer_trials: int) -> tuple[Section, Any]:
    mechanisms = planted_suite("mechanisms")
    rows, raw, worst = [], [], 0.0
    for mechanism, make in mechanisms.MECHANISMS.items():
        for epsilon in EPSILONS:
            included, scores = mechanisms.trials(make(epsilon, DELTA), canaries=CANARIES, count=trials)
            found = {
                f"ours: {name}": [
                    way(s, i, delta=DELTA).epsilon for s, i in zip(scores, included, strict=True)
                ]
                for name, way in OURS.items()
            }
            if peer_trials:
                theirs = peer_epsilons(scores[:peer_trials], included[:peer_trials], DELTA)
                found |= {f"jax-privacy: {name}": values for name, values in theirs.items()}
            for name, values in found.items():
                above = float(np.mean(np.array(values) > epsilon))
                numbers = {"mean": float(np.mean(values)), "largest": max(values), "above": above}
                what = {"mechanism": mechanism, "epsilon": epsilon, "method": name, "trials": len(values)}
                raw.append({**what, **numbers})
                cells = (f"{np.mean(values):.2f}", f"{max(values):.2f}", f"{above:.1%}")
                rows.append((mechanism, f"{epsilon:g}", name, *cells))
                if name.startswith("ours") and "assumes" not in name:
                    worst = max(worst, above)
            print(f"{mechanism}, epsilon {epsilon:g}: done", file=sys.stderr, flush=True)
    text = (
        f"{CANARIES} canaries, delta {DELTA:g}, 95% confidence; {trials} trials of ours, {peer_trials} of "
        "jax-privacy 2.0.0 on the same scores. A bound at 95% may be above the truth in 5% of trials."
    )
    header = ("mechanism", "epsilon", "method", "mean", "largest", "above the truth")
    limit = 0.05 + 3 * float(np.sqrt(0.05 * 0.95 / trials))
    check = Check("largest share of trials above the truth, our bounds", worst, "<=", round(limit, 4), "")
    return Section("Coverage and power", text, header, rows, [check]), raw
