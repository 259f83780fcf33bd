"""How far one record moves what a step releases under the same noise, in clipping norms, rounding and all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from reticent.audit.finding import Claim, Finding
from reticent.audit.suspects import roundings
from reticent.audit.verdict import Outcome

_FORGIVEN = 1e-5  # relative, of a clipping norm: float32 itself is no more precise
_BLIND = 0.1  # of what a record may move: if rounding hides as much, nothing can be said


class Distance(NamedTuple):
    """How far two releases are apart.

    Args:
        moved: in clipping norms.
        hidden: how much of it may come from rounding each release once it was made, which is nobody's secret.
        what: the record that did it.
    """

    moved: float
    hidden: float
    what: str

    @property
    def least(self) -> float:
        return max(self.moved - self.hidden, 0.0) if not math.isnan(self.moved) else math.inf

    def breaks(self, claim: Claim) -> bool:
        return not self.least <= claim.reach * (1 + _FORGIVEN)


def distance(without: np.ndarray, inside: np.ndarray, claim: Claim, what: str) -> Distance:
    unit = claim.max_norm / claim.divisor
    if without.shape != inside.shape:
        return Distance(math.inf, 0.0, what)
    one, other = without.astype(np.float64), inside.astype(np.float64)
    hidden = roundings(without.dtype) * np.linalg.norm(np.abs(one) + np.abs(other))
    return Distance(float(np.linalg.norm(other - one)) / unit, float(hidden) / unit, what)


def judge_distances(check: str, found: Iterable[Distance], claim: Claim, tried: str) -> Finding:
    """Compares distances with a claim; the largest decides.

    Args:
        tried: what was done, in words.
    """
    every = sorted(found, key=lambda each: -each.least)
    if not every:
        return Finding(
            check=check, outcome=Outcome.UNINFORMATIVE, what="the batches are too small to try any"
        )
    worst = every[0]
    seeing = [each for each in every if each.hidden <= _BLIND * claim.reach]
    may = f"{claim.reach} is claimed"
    if worst.breaks(claim):
        outcome = Outcome.CONTRADICTED
        how = (
            f"moved the sum by {worst.least:.4g} clipping norms; {may}"
            if math.isfinite(worst.least)
            else "made the sum NaN or infinite"
        )
        what = f"{worst.what} {how}"
    elif not seeing:
        outcome = Outcome.UNINFORMATIVE
        what = f"{tried}; what is released is rounded by up to {every[0].hidden:.2g} clipping norms"
    else:
        outcome = Outcome.CONSISTENT
        what = f"{tried}; none moved the sum by more than {worst.least:.4g} clipping norms, {may}"
    numbers = {
        "moved": worst.least,
        "rounding": worst.hidden,
        "allowed": claim.reach,
        "record": worst.what,
        "tried": len(every),
    }
    return Finding(check=check, outcome=outcome, what=what, numbers=numbers)
