"""The one sentence about privacy that may be printed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from reticent.accounting.rounding import Side, to_digits, to_places
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

    Example:
        >>> adjacency = Adjacency.ADD_OR_REMOVE
        >>> print(Guarantee(epsilon=1.23401, delta=1e-5, adjacency=adjacency, accountant="exact Gaussian"))
        (1.235, 1e-05)-differential privacy for adding or removing one record (exact Gaussian).
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
            f"({_format_bound(self.epsilon, 'up')}, {to_digits(self.delta, 6, 'up'):g})-differential privacy "
            f"for {self.adjacency.sentence.format(unit=unit)} ({self.accountant})."
        ]
        if self.epsilon_lower > 0:
            least = _format_bound(self.epsilon_lower, "down")
            lines.append(f"No analysis of the same releases can claim less than {least}.")
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


def _format_bound(value: float, side: Side, digits: int = 4) -> str:
    """A few digits, never on the wrong side of the value: what is printed is still a bound."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 12)
    return f"{to_places(value, places, side):f}"
