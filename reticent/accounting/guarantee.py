"""The one sentence about privacy that may be printed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from reticent.core import checks
from reticent.mechanisms.adjacency import Adjacency

Unit = Literal["record", "user"]


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An upper bound on what was spent, with everything needed to understand it.

    Args:
        epsilon: an upper bound.
        epsilon_lower: the least that any analysis of the same releases could claim.
        accountant: which analysis gave the upper bound.
        assumptions: what has to hold outside the proof, such as a declared number of examples.
        group: how many units at once are covered.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit = "record"
    accountant: str
    epsilon_lower: float = 0.0
    assumptions: tuple[str, ...] = ()
    group: int = 1

    def __post_init__(self) -> None:
        checks.probability(delta=self.delta)
        checks.count(group=self.group)
        if not self.epsilon >= self.epsilon_lower >= 0:  # NaN in either fails
            raise AssertionError(f"epsilon {self.epsilon} is not above its lower bound {self.epsilon_lower}")

    def __str__(self) -> str:
        if not math.isfinite(self.epsilon):
            return "No privacy guarantee: epsilon is infinite."
        unit = self.unit if self.group == 1 else f"group of {self.group} {self.unit}s"
        lines = [
            f"({_round_up(self.epsilon)}, {self.delta:g})-differential privacy "
            f"for {self.adjacency.sentence.format(unit=unit)} ({self.accountant})."
        ]
        if self.epsilon_lower > 0:
            lines.append(
                f"No analysis of the same releases can claim less than {_round_down(self.epsilon_lower)}."
            )
        if self.assumptions:
            lines.append(f"Assuming that {'; '.join(self.assumptions)}.")
        return " ".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "epsilon_lower": self.epsilon_lower,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "group": self.group,
            "accountant": self.accountant,
            "assumptions": list(self.assumptions),
        }


def _round_up(value: float, digits: int = 4) -> str:
    """A few digits, never below the value: what is printed is still an upper bound."""
    return _rounded(value, digits, math.ceil)


def _round_down(value: float, digits: int = 4) -> str:
    return _rounded(value, digits, math.floor)


def _rounded(value: float, digits: int, to_whole: Any) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 12)
    return f"{to_whole(value * 10**places) / 10**places:.{places}f}"
