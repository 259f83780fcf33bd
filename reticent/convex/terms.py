"""What a method is asked for, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import (
    NEARLY_EXACT,
    ROOM,
    USUAL,
    beyond_ends,
    ends_show,
    is_paid,
    left_of,
    owed,
)
from reticent.accounting.reserve import OFF as OFF
from reticent.core import checks
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The privacy wanted, and what the caller decided about the problem.

    Args:
        delta: none at all means pure differential privacy.
        regularisation: mu of mu/2 |w|^2, added to the mean loss of rows of norm 1; a rule's, unless given.
        radius: within which a good solution is thought to lie, in the same units; public knowledge.
        pay: to be called with the event before any noise is drawn.
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
        """What of delta a proof about real noise may use, where so many numbers are drawn by machine.

        Raises:
            CannotMeet: samplers owe more than half of delta, at this epsilon.
        """
        if self.delta is None:
            raise AssertionError("a pure release uses no delta")
        if ends_show(owed(OFF, self.epsilon), self.delta):
            raise beyond_ends(self.epsilon, self.delta)
        if not is_paid(self.epsilon, self.delta):
            return left_of(self.delta)  # and `assumed` says so
        return left_of(self.delta, ROOM * owed(max(numbers * OFF, USUAL), self.epsilon))

    def assumed(self, examples: int, *, is_pure: bool) -> tuple[str, ...]:
        """What a guarantee under these terms takes for granted."""
        is_said = is_pure or (self.delta is not None and not is_paid(self.epsilon, self.delta))
        exact = (NEARLY_EXACT,) if is_said else ()  # else delta pays for it
        return (f"the number of records, {examples}, is public", *exact, *self.keys.assumptions)


@dataclass(frozen=True, kw_only=True)
class Release:
    """What may be published: weights for rows of norm 1, (features, outputs), and what they cost.

    Args:
        excess_risk_bound: a theorem's bound on the expected excess of the mean loss over its least value
            within the radius; none where no theorem covers the run.
    """

    weights: np.ndarray
    event: Event
    guarantee: Guarantee
    excess_risk_bound: float | None
    notes: tuple[str, ...] = ()
