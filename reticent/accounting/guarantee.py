"""The one sentence about privacy that may be printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reticent.accounting.rounding import Side, to_digits, to_places
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.html_summary import html_table
from reticent.mechanisms.adjacency import Adjacency, Unit
from reticent.mechanisms.events import Event

if TYPE_CHECKING:
    from reticent.accounting.certificate import Certificate


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee:
    """An upper bound on what was spent, with everything needed to understand it.

    Args:
        epsilon: an upper bound.
        epsilon_lower: the least that any analysis of the same releases could claim.
        accountant: which analysis gave the upper bound.
        assumptions: what has to hold outside the proof, such as a declared number of examples.
        group: how many units at once are covered.
        rows_per_user: the most rows that a user contributes, where the unit is a user.
        event: what was released, where it is known: `certify` proves the bound of it.
        distance: of the samplers of all noise from their laws, for which delta pays.

    Example:
        >>> adjacency = Adjacency.ADD_OR_REMOVE
        >>> print(Guarantee(epsilon=1.23401, delta=1e-5, adjacency=adjacency, accountant="exact Gaussian"))
        (1.235, 1e-05)-differential privacy for adding or removing one record (exact Gaussian).
        >>> Guarantee(epsilon=1.23401, delta=1e-5, adjacency=adjacency, accountant="exact Gaussian")
        Guarantee(epsilon <= 1.235, delta=1e-05, add-or-remove, one record)
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit = "record"
    accountant: str
    epsilon_lower: float = 0.0
    assumptions: tuple[str, ...] = ()
    group: int = 1
    rows_per_user: int | None = None
    event: Event | None = field(default=None, compare=False)
    distance: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        checks.probability(delta=self.delta)
        checks.count(group=self.group)
        if self.rows_per_user is not None:
            checks.count(rows_per_user=self.rows_per_user)
            checks.one_of(("user",), unit=self.unit)
        if not self.epsilon >= self.epsilon_lower >= 0:  # NaN in either fails
            raise AssertionError(f"epsilon {self.epsilon} is not above its lower bound {self.epsilon_lower}")

    def __str__(self) -> str:
        if not math.isfinite(self.epsilon):
            return "No privacy guarantee: epsilon is infinite."
        unit = self.unit if self.group == 1 else f"group of {self.group} {self.unit}s"
        if self.rows_per_user is not None:
            rows = "row" if self.rows_per_user == 1 else "rows"
            unit += f" with up to {self.rows_per_user} {rows}{'' if self.group == 1 else ' each'}"
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

    @property
    def short(self) -> str:
        """The bound alone, rounded up: for one line beside other things."""
        if not math.isfinite(self.epsilon):
            return "NonPrivate: epsilon is infinite"
        return f"epsilon <= {_format_bound(self.epsilon, 'up')}, delta={to_digits(self.delta, 6, 'up'):g}"

    def __repr__(self) -> str:
        unit = f"one {self.unit}" if self.group == 1 else f"{self.group} {self.unit}s"
        return f"Guarantee({self.short}, {self.adjacency.value}, {unit})"

    def _repr_html_(self) -> str:
        rows = [("guarantee", self.short), ("in words", str(self))]
        return html_table("Guarantee", rows)

    def certify(self) -> Certificate:
        """The bound proved in ball arithmetic, as a certificate that anybody can check again.

        Guarantee:
            The certificate was proved as `reticent.accounting.certificate.check` proves it. Its epsilon is
            the one here, or a larger one where only that can be proved.

        Raises:
            Unproven: no certificate covers the event, or no epsilon near this one can be proved.
            InvalidArgument: the event is not known, as in a guarantee that was read from a file.
            Unavailable: python-flint is not installed; it comes with reticent[certify].

        Example:
            >>> from reticent.accounting import guarantee
            >>> from reticent.mechanisms.events import Gaussian
            >>> promise = guarantee(Gaussian(noise_multiplier=2.0), 1e-5)
            >>> promise.certify().epsilon == promise.epsilon
            True
        """
        from reticent.accounting.certificate import prove

        if self.event is None:
            raise InvalidArgument(
                "This guarantee does not know what was released.",
                remedy="Certify the event itself: reticent account --events FILE --delta D --certify FILE.",
            )
        return prove(
            self.event,
            self.epsilon,
            self.delta,
            self.adjacency,
            group=self.group,
            distance=self.distance,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "epsilon_lower": self.epsilon_lower,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "group": self.group,
            **({} if self.rows_per_user is None else {"rows_per_user": self.rows_per_user}),
            "accountant": self.accountant,
            "assumptions": list(self.assumptions),
        }


def _format_bound(value: float, side: Side, digits: int = 4) -> str:
    """A few digits, never on the wrong side of the value: what is printed is still a bound."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 12)
    return f"{to_places(value, places, side):f}"
