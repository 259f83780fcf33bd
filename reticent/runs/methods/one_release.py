"""What methods with a single release share: a linear model, from one noisy sum over everybody."""

from __future__ import annotations

from reticent.core.errors import InvalidArgument
from reticent.runs.method import Terms, require_enough
from reticent.training.plan import Plan


def plan_one_release(method: str, terms: Terms) -> Plan:
    """A single step on all records, clipped to 1, for the whole budget.

    Raises:
        InvalidArgument: the model is not a linear one. CannotMeet: the rows are too few.
    """
    require_enough(terms)
    if terms.model != "linear":
        raise InvalidArgument(
            f"The method '{method}' makes linear models, and this is '{terms.model}'.",
            remedy="Pass --model linear, or --method sgd.",
        )
    return Plan.for_budget(
        epsilon=terms.epsilon,
        delta=terms.delta,
        examples=terms.records,
        batch_size=None,
        sampling="full",
        steps=1,
        max_norm=1.0,
        unit="record" if terms.rows_per_user is None else "user",
        rows_per_user=terms.rows_per_user,
        beside=terms.beside,
    )
