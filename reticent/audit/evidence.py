"""What an audit found about epsilon: a number that says what kind of number it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reticent.core import checks


class EvidenceKind(StrEnum):
    """How far a number can be trusted.

    Example:
        >>> [kind.value for kind in EvidenceKind]
        ['bound', 'bound under an assumption', 'estimate']
    """

    BOUND = "bound"
    CONDITIONAL = "bound under an assumption"
    ESTIMATE = "estimate"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The epsilon that the scores of an audit show, as a lower bound or as an estimate.

    Args:
        epsilon: of the kind that `kind` says.
        confidence: the probability with which a bound is not above the truth; None for an estimate.
        canaries: the number of canaries, or of runs.
        guesses: how many of them were guessed; about the rest the auditor abstained.
        correct: how many of the guesses were right.
        selection: how the threshold and the number of guesses were chosen.
        threat: what the attacker was given.
        ceiling: what so many canaries would show if every guess were right; an estimate has none.
        assumption: what a conditional bound rests on.

    Example:
        >>> from reticent.audit.bounds import many_runs
        >>> print(many_runs([1.0] * 1000, [0.0] * 1000, delta=1e-5, threshold=0.5))
        epsilon at least 5.60 at delta 1e-05 with 95% confidence (bound; scores of unknown origin;
        many runs, Clopper-Pearson; 2000 of 2000 guesses right, 2000 canaries; threshold fixed in
        advance; it could show at most 5.60).
    """

    epsilon: float
    kind: EvidenceKind
    method: str
    delta: float
    confidence: float | None
    canaries: int
    guesses: int
    correct: int
    selection: str
    threat: str
    ceiling: float | None
    assumption: str | None = None

    def __post_init__(self) -> None:
        checks.not_negative(epsilon=self.epsilon)
        checks.probability(delta=self.delta)
        if (self.kind is EvidenceKind.ESTIMATE) != (self.confidence is None):
            raise AssertionError("an estimate has no confidence, and a bound has one")
        if (self.kind is EvidenceKind.CONDITIONAL) != (self.assumption is not None):
            raise AssertionError("a conditional bound names its assumption, and nothing else has one")

    def __str__(self) -> str:
        shown = math.floor(self.epsilon * 100) / 100  # rounded down: still a lower bound
        start = f"epsilon {'about' if self.kind is EvidenceKind.ESTIMATE else 'at least'} {shown:.2f}"
        sure = "" if self.confidence is None else f" with {100 * self.confidence:.4g}% confidence"
        given = "" if self.assumption is None else f", assuming that {self.assumption}"
        most = "" if self.ceiling is None else f"; it could show at most {self.ceiling:.2f}"
        return (
            f"{start} at delta {self.delta:g}{sure}{given} ({self.kind}; {self.threat}; {self.method}; "
            f"{self.correct} of {self.guesses} guesses right, {self.canaries} canaries; "
            f"{self.selection}{most})."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "kind": self.kind.value,
            "method": self.method,
            "delta": self.delta,
            "confidence": self.confidence,
            "canaries": self.canaries,
            "guesses": self.guesses,
            "correct": self.correct,
            "selection": self.selection,
            "threat": self.threat,
            "ceiling": self.ceiling,
            "assumption": self.assumption,
        }
