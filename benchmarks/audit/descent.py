"""What audits see of DP-SGD at epsilon 4: white box, black box, and beside the peer on the same scores."""

from __future__ import annotations

import contextlib
import sys
import time
from statistics import median
from typing import Any
from unittest import mock

import jax
import numpy as np
import optax

import reticent as rt
from benchmarks.audit.asking import peer_epsilons
from benchmarks.training.tables import Check, Section
from reticent import audit, models
from reticent.data import catalog
from reticent.training import step

EPSILON, DELTA = 4.0, 1e-5
MODEL = models.mlp((64, 32, 10))
LOSS = models.classification_loss(MODEL)


def plan(steps: int = 60, batch_size: int = 360) -> rt.Plan:
    return rt.Plan.for_budget(
        epsilon=EPSILON, delta=DELTA, examples=1797, batch_size=batch_size, steps=steps, max_norm=1.0
    )


def run(canaries: int, *, recipe: rt.Plan | None = None, among: bool = False, inputs: int = 0, seed: int = 0):
    """One audited run on the digits that come with the package; inputs are noise with random labels."""
    rng = np.random.default_rng(seed)
    made = {"x": rng.uniform(0, 1, (inputs, 64)).astype(np.float32), "y": rng.integers(0, 10, inputs)}
    started = time.perf_counter()
    found = audit.train_with_canaries(
        LOSS,
        MODEL.init(jax.random.key(seed)),
        catalog.load("digits").train,
        recipe or plan(),
        optimizer=optax.sgd(1.0, momentum=0.5),
        canaries=canaries,
        inputs=made if inputs else None,
        among=among,
        keys=rt.Keys.seeded(seed),
    )
    print(f"{canaries} canaries, {inputs} inputs: {found.verdict}", file=sys.stderr, flush=True)
    return found, time.perf_counter() - started


def _without_noise() -> Any:
    """A trainer that forgets its noise, and does not know it."""
    return mock.patch.object(step, "add_gaussian_noise", lambda key, total, event: total.value)


def measure(largest: int, with_peer: bool) -> tuple[Section, Any]:
    rows, raw = [], []
    shown: dict[str, list[float]] = {}
    full = rt.Plan.for_budget(
        epsilon=EPSILON, delta=DELTA, examples=1797, sampling="full", steps=60, max_norm=1.0
    )
    cases: dict[str, dict[str, Any]] = {
        "apart, 1,000": {"canaries": 1000, "inputs": 500},
        "among the parameters, 1,000": {"canaries": 1000, "among": True},
        "apart, 30,000": {"canaries": 30_000},
        **{
            f"apart, {largest:,}, 200 steps, seed {seed}": {
                "canaries": largest,
                "recipe": plan(steps=200, batch_size=180),
                "seed": seed,
            }
            for seed in range(3)
        },
        f"apart, {largest:,}, full batches": {"canaries": largest, "recipe": full},
        "300 inputs": {"canaries": 0, "inputs": 300},
        "300 inputs, no noise at all": {"canaries": 0, "inputs": 300, "noise": False},
        "apart, 1,000, no noise at all": {"canaries": 1000, "noise": False},
    }
    for name, options in cases.items():
        noise = options.pop("noise", True)
        with contextlib.nullcontext() if noise else _without_noise():
            found, seconds = run(**options)
        for each in found.evidence:
            raw.append({"case": name, "claim": found.verdict.claim, **each.to_json()})
            threat = each.threat.partition(",")[0]
            rows.append((name, threat, str(each.kind), f"{each.epsilon:.2f}", f"{found.verdict.claim:.2f}",
                         found.verdict.outcome.value, f"{seconds:.0f}"))  # fmt: skip
            if "200 steps" in name and each.confidence:
                shown.setdefault(str(each.kind), []).append(each.epsilon)
        if with_peer and len(found.scores[0]) in (1000, 30_000) and "among" not in name:
            coins = np.unpackbits(np.frombuffer(bytes.fromhex(found.record["coins"]), np.uint8))
            included = coins[: len(found.scores[0])].astype(bool)
            theirs = peer_epsilons(found.scores[0][None], included[None], DELTA)
            for method, values in theirs.items():
                raw.append({"case": name, "method": f"jax-privacy {method}", "epsilon": values[0]})
                cells = (f"{values[0]:.2f}", f"{found.verdict.claim:.2f}", "", "")
                rows.append((name, "white box", f"jax-privacy {method}", *cells))
    text = (
        f"Digits, {MODEL.size} parameters, epsilon {EPSILON:g} at delta {DELTA:g}: Poisson batches of a "
        "fifth of the rows, 60 steps, unless said otherwise. Half the canaries are in the data, beside 1,797 "
        "images."
    )
    header = ("canaries", "threat", "kind", "epsilon", "claimed", "verdict", "seconds")
    checks = [
        Check("white box, 200 steps: median of the bounds", median(shown["bound"]), ">=", 2.0, ""),
        Check(
            "the same under the assumption of a Gaussian curve",
            median(shown["bound under an assumption"]),
            ">=",
            3.2,
            "",
        ),
    ]
    return Section("DP-SGD at epsilon 4", text, header, rows, checks), raw
