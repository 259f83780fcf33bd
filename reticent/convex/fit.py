"""`fit`: one argument chooses the method; every method gives the same kind of guarantee.

Edge cases:
    no rows                      allowed if `examples` is declared: the weights are noise; else DataError
    one class, constant column   a model like any other: nothing about the data decides an error
    NaN or infinity              DataError
    a row longer than `norm`     shortened to it; a target beyond the loss's bound is clipped to it
    a label outside the classes  DataError
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee
from reticent.convex import descent, exponential, objective, output, statistics
from reticent.convex.losses import Loss
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import ConvexTerms, ReleasedWeights
from reticent.core import checks
from reticent.core.keys import Keys
from reticent.distributed.consensus import require_alone
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_CLEAR = 2000.0  # examples * epsilon / root of the parameters, above which "auto" minimises once
_QUIET = 0.02  # the noise on the sums, over the number of records, up to which they are worth releasing

ConvexMethod = Callable[[ConvexProblem, ConvexTerms], ReleasedWeights]

METHODS: dict[str, ConvexMethod] = {
    "output": output.release,
    "objective": objective.release,
    "exponential": exponential.release,
    "input": statistics.release,
    "local": statistics.release_local,
    "descent": descent.release,
}


@dataclass(frozen=True, kw_only=True)
class UnreleasedFit:
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
            among the weights within the radius, where there are as many rows as declared; None where no
            theorem covers the run.
        method: the one used.
        unreleased: private facts; None unless asked for.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    event: Event
    guarantee: Guarantee
    excess_risk_bound: float | None
    method: str
    notes: tuple[str, ...] = ()
    unreleased: UnreleasedFit | None = None

    @property
    def achieved_risk(self) -> float | None:
        """The mean loss on the training rows: private, and None unless asked for."""
        return None if self.unreleased is None else self.unreleased.risk

    def scores(self, x: Any) -> np.ndarray:
        """Scores (rows, outputs) of an array or a sparse matrix (rows, features)."""
        return np.asarray(x @ self.coefficients) + self.intercept


def fit(
    loss: Loss,
    x: Any,
    y: ArrayLike,
    *,
    method: str = "auto",
    epsilon: float,
    delta: float | None = None,
    norm: float,
    examples: int | None = None,
    adjacency: Adjacency | str = Adjacency.ADD_OR_REMOVE,
    intercept: bool = True,
    regularisation: float | None = None,
    radius: float | None = None,
    keys: Keys | None = None,
    budget: Budget | None = None,
    purpose: str = "convex fit",
    unreleased: bool = False,
) -> Fit:
    """Fits a linear model under differential privacy.

    Args:
        loss: from `reticent.convex.losses`.
        x: (rows, features), an array or a sparse matrix.
        y: (rows,), a label or target for each row, as the loss needs them.
        method: one of `METHODS`; "auto" picks one by the loss, the sizes and the budget, never by the data.
        epsilon, delta: what may be spent. No delta means pure differential privacy.
        norm: the declared length of the longest row; longer ones are shortened to it.
        examples: the declared, public number of records, by which sums over rows are divided. There may be
            fewer rows, even none, or more. Unless given, it is the number of rows, which the guarantee then
            assumes to be public. Better pass one that does not depend on who is there.
        adjacency: what a neighbour may do to one record: "add-or-remove", "zero-out", or "replace", which
            removes one record and adds another, and takes about twice the noise.
        intercept: learn a constant as well. It is part of the proof.
        regularisation: mu of mu/2 |w|^2, on weights for rows of norm 1; chosen by a rule unless given.
        radius: of a ball in which a good solution is expected, for rows of norm 1; public knowledge.
        budget: charged before any noise is drawn.
        unreleased: also compute the risk on the training rows and how many were shortened. They are private.

    Guarantee:
        Publishing the result costs `Fit.event`: at most (epsilon, delta) under `adjacency`, for neighbours
        for which the same `examples` is declared. `Fit.unreleased` is not covered.

    Raises:
        InvalidArgument: the loss lacks what the method's proof needs, or an argument is out of range.
        DataError: NaN, infinity, shapes that do not fit, labels outside the declared classes; by descent, far
            more rows than declared (beyond what coins leave once in 1e25 draws).
        BudgetExceeded: the budget does not cover it; nothing was computed.

    Example:
        >>> import numpy as np
        >>> from reticent.convex import fit, losses
        >>> x = np.random.default_rng(0).uniform(-1, 1, (2000, 2))  # (rows, features)
        >>> model = fit(losses.logistic(), x, (x[:, 0] > 0).astype(int), epsilon=1.0, norm=1.5)
        >>> model.coefficients.shape, model.guarantee.epsilon, model.method
        ((2, 1), 1.0, 'objective')
    """
    require_alone("A convex fit")
    checks.one_of(("auto", *METHODS), method=method)
    checks.one_of([item.value for item in Adjacency], adjacency=adjacency)
    near = Adjacency(adjacency)
    problem = ConvexProblem.of(loss, x, y, norm=norm, intercept=intercept, examples=examples)
    terms = ConvexTerms(
        epsilon=epsilon,
        delta=delta,
        adjacency=near,
        keys=keys or Keys.from_os(),
        pay=_payment(budget, near, purpose),
        regularisation=regularisation,
        radius=radius,
    )
    chosen = choose_method(loss, problem, terms) if method == "auto" else method
    return _in_users_units(problem, chosen, METHODS[chosen](problem, terms), unreleased=unreleased)


def _payment(budget: Budget | None, adjacency: Adjacency, purpose: str) -> Callable[[Event], None]:
    """Charges the budget, if there is one."""

    def pay(event: Event) -> None:
        if budget is not None:
            budget.charge(event, adjacency=adjacency, purpose=purpose, unit="record")

    return pay


def _in_users_units(problem: ConvexProblem, method: str, found: ReleasedWeights, *, unreleased: bool) -> Fit:
    coefficients, constant = problem.in_users_units(found.weights)
    private = None
    if unreleased:
        private = UnreleasedFit(risk=problem.risk(found.weights), clipped_rows=problem.clipped)
    return Fit(
        coefficients=coefficients,
        intercept=constant,
        event=found.event,
        guarantee=found.guarantee,
        excess_risk_bound=found.excess_risk_bound,
        method=method,
        notes=(f"rows longer than {problem.norm:g} were shortened to it", *found.notes),
        unreleased=private,
    )


def choose_method(loss: Loss, problem: ConvexProblem, terms: ConvexTerms) -> str:
    """Chooses the method for "auto" from the loss, the sizes and the budget: never from the data."""
    if loss.name == "squared" and statistics.noise_share(problem, terms) < _QUIET:
        return "input"
    if terms.delta is None:
        return "objective" if loss.is_smooth else "exponential"
    # Where noise decides, many small steps lose least. Where it does not, one exact minimum is as good, and
    # far faster.
    signal = problem.examples * terms.epsilon / math.sqrt(problem.parameters)
    return "objective" if loss.is_smooth and signal > _CLEAR else "descent"
