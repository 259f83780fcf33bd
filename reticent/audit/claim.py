"""A plan claims more than one epsilon at one delta: it claims an epsilon at every delta.

All of them together are a trade-off curve, and testing that curve sees more than testing one of its points.
There is no assumption in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.tight_epsilon import upper_bound
from reticent.audit.guesses import check_scores, rules
from reticent.audit.tradeoff import Inverse, is_refuted
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.training.plan import Plan

_DELTAS = np.geomspace(1e-9, 0.3, 20)


def require_claim(plan: Plan) -> None:
    """
    Raises:
        InvalidArgument: the plan is a dry run without noise: it claims no epsilon that could be contradicted.
    """
    if not plan.is_private:
        raise InvalidArgument(
            "A plan without privacy claims nothing, so there is nothing to audit.",
            remedy="Audit a plan from Plan.for_budget. To see what a model without noise gives away, attack "
            "it: rt.attacks.",
        )


def curve_of(plan: Plan, steps: int | None = None) -> Inverse:
    """The inverse of the curve that a plan, or its first steps, claims: its upper bounds at many deltas.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=100, sampling="full", steps=5, max_norm=1.0
        ... )
        >>> curve = curve_of(plan)
        >>> curve(np.array([0.5])).round(2).tolist()
        [0.39]
    """
    require_claim(plan)
    event = plan.event if steps is None else plan.event_after(steps)
    return curve_of_event(event, plan.delta, plan.adjacency)


def curve_of_event(event: Event, delta: float, adjacency: Adjacency) -> Inverse:
    """The inverse of the curve that an event claims.

    Args:
        delta: at which it has to be right, beside others.
    """
    deltas = np.append(_DELTAS, delta)
    epsilons = np.array([upper_bound(event, float(one), Neighbours(adjacency)) for one in deltas])
    deltas, epsilons = deltas[np.isfinite(epsilons)], epsilons[np.isfinite(epsilons)]
    smaller, larger = np.exp(-epsilons), np.exp(np.minimum(epsilons, 500.0))

    def inverse(chance: np.ndarray) -> np.ndarray:
        chance = np.asarray(chance)[:, None]
        least = np.maximum((chance - deltas) * smaller, 1 - deltas - (1 - chance) * larger)
        return np.max(least, axis=1, initial=0.0)

    return inverse


def refutes(scores: Any, included: Any, curve: Inverse, *, confidence: float = 0.95) -> bool:
    """Whether the guesses of one run are too good for a claimed curve.

    The same guesses as those of `one_run`, which share the error. A bound above the claimed epsilon at the
    same confidence implies it, since that is one point of the curve: looking at both costs no confidence.

    Guarantee:
        Training that keeps the claim is refuted with probability at most 1 - confidence.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=100, sampling="full", steps=5, max_norm=1.0
        ... )
        >>> included = np.arange(200) % 2 == 1
        >>> (
        ...     refutes(included * 1.0, included, curve_of(plan)),
        ...     refutes(np.zeros(200), included, curve_of(plan)),
        ... )
        (True, False)
    """
    checks.inside_unit(confidence=confidence)
    scores, included = check_scores(scores, included)
    order = np.argsort(scores, kind="stable")
    tried = rules(len(scores))
    error = (1 - confidence) / len(tried)
    right = [(rule, rule.correct(order, included)) for rule in tried]
    return any(
        bool(is_refuted(curve, canaries=len(scores), guesses=rule.guesses, correct=correct, error=error)[0])
        for rule, correct in right
        if 2 * correct > rule.guesses
    )
