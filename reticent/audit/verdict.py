"""The verdict of an audit on a claimed epsilon: one of three words, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reticent.accounting.rounding import at_least, at_most
from reticent.audit.evidence import Evidence, EvidenceKind
from reticent.core import checks
from reticent.core.errors import InvalidArgument


class Outcome(StrEnum):
    """The claim was refuted, survived an honest attempt, or was not really tested.

    Example:
        >>> Outcome.CONTRADICTED.value
        'CONTRADICTED'
    """

    CONTRADICTED = "CONTRADICTED"
    CONSISTENT = "CONSISTENT"
    UNINFORMATIVE = "UNINFORMATIVE"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome, and the numbers it rests on.

    Args:
        claim: the promised epsilon.
        bound: the largest of the lower bounds; what rests on an assumption does not count.
        confidence: that all bounds hold at once.
        ceiling: the largest bound that this audit can show.
        power: what a trainer without any noise would have shown; None where that is not known.
        expected: what a correct trainer shows, if known.
        is_plan_refuted: the guesses are too good for the plan's trade-off curve as a whole.
    """

    outcome: Outcome
    claim: float
    bound: float
    confidence: float
    ceiling: float
    power: float | None
    expected: float | None = None
    is_plan_refuted: bool = False

    @property
    def exit_code(self) -> int:
        """1 where the claim is contradicted, for a terminal."""
        return 1 if self.outcome is Outcome.CONTRADICTED else 0

    def __str__(self) -> str:
        bound, claim, sure = at_least(self.bound), at_most(self.claim), f"{100 * self.confidence:.4g}%"
        limits = f"the most that it could show is {at_least(self.ceiling)}"
        if self.power is not None:
            limits += f"; without any noise it would show {at_least(self.power)}"
        if self.expected is not None:
            limits += f"; with the right noise about {self.expected:.2f}"
        match self.outcome:
            case Outcome.CONTRADICTED if self.bound <= self.claim:
                sentence = (
                    f"the guesses are too good for this plan, with {sure} confidence. They show epsilon "
                    f"{bound}, below the claimed {claim} at this delta, but contradict the plan's "
                    "claims at other deltas"
                )
            case Outcome.CONTRADICTED:
                sentence = f"epsilon is at least {bound} with {sure} confidence, above the claimed {claim}"
            case Outcome.CONSISTENT:
                sentence = (
                    f"nothing contradicts the claimed epsilon {claim}; the audit shows at least {bound}"
                )
            case Outcome.UNINFORMATIVE if self.power is None:
                sentence = (
                    f"nothing contradicts the claimed epsilon {claim}, but it is not known whether "
                    "this audit would have detected training without noise"
                )
            case Outcome.UNINFORMATIVE:
                sentence = (
                    f"this audit could not have contradicted the claimed epsilon {claim}, "
                    "even if there had been no noise at all"
                )
        return f"{self.outcome}: {sentence} ({limits})."

    def to_json(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "sentence": str(self),
            "claim": self.claim,
            "bound": self.bound,
            "confidence": self.confidence,
            "ceiling": self.ceiling,
            "power": self.power,
            "expected": self.expected,
            "is_plan_refuted": self.is_plan_refuted,
        }


def judge(
    claim: float,
    evidence: Sequence[Evidence],
    *,
    power: float | None,
    expected: float | None = None,
    is_plan_refuted: bool = False,
) -> Verdict:
    """Compares a claimed epsilon with the evidence.

    Only bounds count: an estimate, or a bound under an assumption, contradicts nothing. The error
    probabilities of the bounds add up: a contradiction is wrong with at most their sum.

        a bound above the claim                      CONTRADICTED
        no bound above it, power above it            CONSISTENT
        power unknown, or not above the claim        UNINFORMATIVE
        no bound at all, or a claim that is NaN      InvalidArgument

    Example:
        >>> from reticent.audit.bounds import one_run
        >>> import numpy as np
        >>> coins = np.arange(400) % 2 == 0
        >>> evidence = one_run(coins.astype(float), coins, delta=1e-5)
        >>> judge(1.0, [evidence], power=4.0).outcome.value
        'CONTRADICTED'
        >>> judge(50.0, [evidence], power=4.0).outcome.value
        'UNINFORMATIVE'
    """
    if power is not None:
        checks.not_negative(power=power)
    if not claim >= 0:
        raise InvalidArgument(
            f"A claimed epsilon of {claim} is not valid.", remedy="Pass a number of at least 0."
        )
    bounds = [each for each in evidence if each.kind is EvidenceKind.BOUND]
    if not bounds:
        raise InvalidArgument("The evidence has no bound.", remedy="Add one from one_run or many_runs.")
    bound, ceiling = max(each.epsilon for each in bounds), max(each.ceiling or 0.0 for each in bounds)
    if bound > claim or is_plan_refuted:
        outcome = Outcome.CONTRADICTED
    elif power is None or min(power, ceiling) <= claim:
        outcome = Outcome.UNINFORMATIVE
    else:
        outcome = Outcome.CONSISTENT
    return Verdict(
        outcome=outcome,
        claim=claim,
        bound=bound,
        confidence=1 - math.fsum(1 - (each.confidence or 0.0) for each in bounds),
        ceiling=ceiling,
        power=power,
        expected=expected,
        is_plan_refuted=is_plan_refuted,
    )
