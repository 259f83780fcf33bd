"""`fit`: one word chooses the method, and every method keeps the same promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee
from reticent.convex.losses import Loss
from reticent.core import checks
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

METHODS = ("output", "objective", "exponential", "input", "descent")


@dataclass(frozen=True, kw_only=True)
class Unreleased:
    """Private facts about a fit, for the holder of the data alone: never part of a guarantee.

    Args:
        risk: the mean loss of the released weights on the rows that they were fitted to.
        clipped_rows: how many rows were longer than the declared norm.
    """

    risk: float
    clipped_rows: int


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A linear model that may be published under its guarantee: scores are x @ coefficients + intercept.

    Args:
        coefficients: (features, outputs), for rows in the user's own units.
        intercept: (outputs,); zeros without one.
        excess_risk_bound: a theorem's bound on the expected excess of the mean loss over its least value
            among the weights within the radius; none where no theorem covers the run.
        method: the one used.
        unreleased: private facts; none unless asked for.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    event: Event
    guarantee: Guarantee
    excess_risk_bound: float | None
    method: str
    notes: tuple[str, ...] = ()
    unreleased: Unreleased | None = None

    @property
    def achieved_risk(self) -> float | None:
        """The mean loss on the training rows: private, and none unless asked for."""
        return None if self.unreleased is None else self.unreleased.risk

    def scores(self, x: Any) -> np.ndarray:
        """(rows, outputs), for an array or a sparse matrix."""
        return np.asarray(x @ self.coefficients) + self.intercept


def fit(
    loss: Loss,
    x: Any,
    y: Any,
    *,
    method: str = "auto",
    epsilon: float,
    delta: float | None = None,
    norm: float,
    adjacency: Adjacency = Adjacency.REPLACE,
    intercept: bool = True,
    regularisation: float | None = None,
    radius: float | None = None,
    keys: Keys | None = None,
    budget: Budget | None = None,
    purpose: str = "convex fit",
    unreleased: bool = False,
) -> Fit:
    """Fits a linear model under differential privacy."""
    checks.one_of(("auto", *METHODS), method=method)
    raise NotImplementedError
