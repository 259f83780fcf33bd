"""What a method receives, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import (
    NEARLY_EXACT,
    ROOM,
    USUAL,
    delta_left,
    delta_owed,
    ends_show,
    is_paid,
    noise_too_small,
)
from reticent.accounting.reserve import OFF as OFF
from reticent.core import checks
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


def public_number(examples: int) -> str:
    """The assumption about the declared number of records: neighbours declare the same one."""
    return f"the number of records, {examples}, is public"


@dataclass(frozen=True, kw_only=True)
class ConvexTerms:
    """The requested privacy, and what the caller decided about the problem.

    Args:
        delta: None for pure differential privacy.
        regularisation: mu of mu/2 |w|^2, added to the mean loss of rows of norm 1; by a rule unless given.
        radius: the ball in which a good solution is expected, in the same units; public knowledge.
        pay: called with the event before any noise is drawn.
    """

    epsilon: float
    delta: float | None
    adjacency: Adjacency
    keys: Keys
    pay: Callable[[Event], None]
    regularisation: float | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        if self.delta is not None:
            checks.inside_unit(delta=self.delta)
        if self.radius is not None:
            checks.positive(radius=self.radius)
        if self.regularisation is not None:
            checks.not_negative(regularisation=self.regularisation)

    def delta_for(self, numbers: int) -> float:
        """The part of delta that a proof about real noise may use, when so many numbers are sampled.

        Raises:
            CannotMeet: samplers owe more than half of delta, at this epsilon.
        """
        if self.delta is None:
            raise AssertionError("a pure release uses no delta")
        if ends_show(delta_owed(OFF, self.epsilon), self.delta):
            raise noise_too_small(self.epsilon, self.delta)
        if not is_paid(self.epsilon, self.delta):
            return delta_left(self.delta)  # and `assumptions` says so
        return delta_left(self.delta, ROOM * delta_owed(max(numbers * OFF, USUAL), self.epsilon))

    def assumptions(self, examples: int, *, is_pure: bool) -> tuple[str, ...]:
        """What a guarantee under these terms assumes."""
        is_said = is_pure or (self.delta is not None and not is_paid(self.epsilon, self.delta))
        exact = (NEARLY_EXACT,) if is_said else ()  # else delta pays for it
        return (public_number(examples), *exact, *self.keys.assumptions)


@dataclass(frozen=True, kw_only=True)
class ReleasedWeights:
    """What may be published: weights (features, outputs) for rows of norm 1, and their cost.

    Args:
        excess_risk_bound: a theorem's bound on the expected excess of the mean loss over its least value
            within the radius; None where no theorem covers the run.
    """

    weights: np.ndarray
    event: Event
    guarantee: Guarantee
    excess_risk_bound: float | None
    notes: tuple[str, ...] = ()
