"""A run with attacks and an audit beside it, made up quickly: numbers are plausible, not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from reticent.attacks.metrics import curve, measure
from reticent.attacks.scores import Scores
from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.request import Request


def made_run(folder: Path, **changes: Any) -> Path:
    """A small real run."""
    order = Request(**{"source": "digits", "epsilon": 3.0, **changes})
    fit(order, folder, keys=Keys.seeded(0))
    return folder


def with_attacks(folder: Path, *, signal: float = 0.1) -> None:
    chance = np.random.default_rng(0)
    found = {}
    for name, strength in (("threshold", 0.5 * signal), ("likelihood", signal)):
        scores = Scores(members=chance.normal(strength, 1, 2000), outsiders=chance.normal(0, 1, 2000))
        found[name] = {"name": name, **measure(scores).to_json(), "roc": curve(scores)}
    said = ["These attacks learned next to nothing about who was in the training set."]
    (folder / "attacks").mkdir()
    (folder / "attacks" / "attack.json").write_text(
        json.dumps({"attacks": found, "verdict": said[0], "in_words": said})
    )


def with_audit(folder: Path, *, outcome: str = "CONSISTENT", bound: float = 1.2) -> None:
    verdict = {
        "outcome": outcome,
        "sentence": f"{outcome}: nothing contradicts epsilon 3; the audit shows at least {bound}.",
        "claim": 2.9992,
        "bound": bound,
        "confidence": 0.95,
        "ceiling": 6.7,
        "power": 6.1,
        "expected": 1.5,
        "is_plan_refuted": False,
    }
    evidence = [
        {
            "threat": "sees every noisy step, canaries with parameters of their own",
            "kind": "bound",
            "epsilon": bound,
            "canaries": 1000,
            "method": "one run",
        }
    ]
    (folder / "audit.json").write_text(json.dumps({"verdict": verdict, "evidence": evidence}))
