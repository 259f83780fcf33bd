"""What a method is asked for, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import NEARLY_EXACT, left_of
from reticent.core import checks
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

OFF = 2.0**-60  # no number that is drawn is further from its law, in total variation


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
        """What of delta a proof about real noise may use, where so many numbers are drawn by machine."""
        if self.delta is None:
            raise AssertionError("a pure release uses no delta")
        return left_of(self.delta, numbers * OFF)

    def assumed(self, examples: int, *, is_pure: bool) -> tuple[str, ...]:
        """What a guarantee under these terms takes for granted."""
        exact = (NEARLY_EXACT,) if is_pure else ()  # with a delta, that is paid for
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
