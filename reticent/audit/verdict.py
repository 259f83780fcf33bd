"""What an audit says about a claimed epsilon: one of three words, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reticent.audit.evidence import Evidence, Kind
from reticent.core import checks
from reticent.core.errors import InvalidArgument


class Outcome(StrEnum):
    """A claim is refuted, survives an honest attempt, or was not put to the test."""

    CONTRADICTED = "CONTRADICTED"
    CONSISTENT = "CONSISTENT"
    UNINFORMATIVE = "UNINFORMATIVE"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome, and the numbers it rests on.

    Args:
        claim: the epsilon that was promised.
        bound: the largest of the lower bounds; what rests on an assumption does not count.
        confidence: that all bounds hold at once.
        ceiling: the most that any of them could have shown.
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
        bound, sure = f"{_down(self.bound)}", f"{100 * self.confidence:.4g}%"
        limits = f"the most it could have shown is {_down(self.ceiling)}"
        if self.power is not None:
            limits += f"; without any noise: {_down(self.power)}"
        if self.expected is not None:
            limits += f"; with the right noise: about {self.expected:.2f}"
        match self.outcome:
            case Outcome.CONTRADICTED if self.bound <= self.claim:
                said = (
                    f"the guesses are too good for this plan, with {sure} confidence: not for the claimed "
                    f"epsilon {self.claim:.4g} at this delta ({bound} was seen), but for its claims at all "
                    "deltas"
                )
            case Outcome.CONTRADICTED:
                said = (
                    f"epsilon is at least {bound} with {sure} confidence, above the claimed {self.claim:.4g}"
                )
            case Outcome.CONSISTENT:
                said = f"nothing contradicts the claimed epsilon {self.claim:.4g}; at least {bound} was seen"
            case Outcome.UNINFORMATIVE if self.power is None:
                said = (
                    f"nothing contradicts the claimed epsilon {self.claim:.4g}, and whether this audit would "
                    "have seen training without noise is not known"
                )
            case Outcome.UNINFORMATIVE:
                said = (
                    f"this audit could not have contradicted the claimed epsilon {self.claim:.4g}, "
                    "even if there had been no noise at all"
                )
        return f"{self.outcome}: {said} ({limits})."

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
    """Compares a claimed epsilon with what was seen.

    Only bounds count: an estimate, or a bound under an assumption, contradicts nothing. What the confidences
    leave open adds up: a contradiction is wrong with at most that probability.
    """
    if power is not None:
        checks.not_negative(power=power)
    if not claim >= 0:
        raise InvalidArgument(
            f"A claimed epsilon of {claim} means nothing.", remedy="Pass a number from 0 on."
        )
    bounds = [each for each in evidence if each.kind is Kind.BOUND]
    if not bounds:
        raise InvalidArgument(
            "There is no bound among the evidence.", remedy="Add one from one_run or many_runs."
        )
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


def _down(value: float) -> str:
    """Two digits, rounded down: still a lower bound."""
    return f"{math.floor(value * 100) / 100:.2f}"
