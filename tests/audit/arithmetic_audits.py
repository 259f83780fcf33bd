"""Rows that steps are audited with, and what is looked at in an audit of arithmetic."""

from __future__ import annotations

import float_steps as steps
import numpy as np

import reticent as rt
from reticent import audit
from reticent.audit.verdict import Outcome
from reticent.data.sampling import FullBatch
from reticent.training.clipping import flat

RNG = np.random.default_rng(0)
VECTORS = {"x": RNG.normal(size=(40, 50)).astype(np.float32)}
NUMBERS = {"x": RNG.normal(size=40).astype(np.float32)}
EIGHTS = {"x": RNG.uniform(1, 2, (40, 8)).astype(np.float32)}
POSITIONS = {
    "c": RNG.normal(size=(4, 2, 8192)).astype(np.float32),
    "x": RNG.normal(size=(4, 2, 2)).astype(np.float32),
}


def audited(step, data: dict[str, np.ndarray], record=None, **options) -> audit.Arithmetic:
    return audit.arithmetic(step, data, record, max_norm=1.0, noise_multiplier=steps.NOISE, **options)


def blamed(found: audit.Arithmetic) -> set[str]:
    return {each.check for each in found.findings if each.outcome is Outcome.CONTRADICTED}


def seen(found: audit.Arithmetic, check: str) -> dict:
    return dict(next(each.numbers for each in found.findings if each.check == check))


def plan(examples: int = 64, **changes) -> rt.Plan:
    given = {
        "sampler": FullBatch(examples=examples),
        "clipping": flat(1.0),
        "noise_multiplier": steps.NOISE,
        "steps": 1,
        "delta": min(1e-5, 0.5 / examples),
        "adjacency": rt.Adjacency.ADD_OR_REMOVE,
    }
    return rt.Plan(**{**given, **changes})
