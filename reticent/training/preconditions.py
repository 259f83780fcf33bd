"""What has to hold before a run is paid for: arguments of the right kind, and processes that agree."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import optax

from reticent.accounting.budget import Budget
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.data.cyclic import CyclicPoisson
from reticent.data.dataset import Dataset, have_rows_in_common
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all, require_same
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.checkpoint import Checkpoints
from reticent.training.plan import Plan

_MISSING = re.compile(r"missing \d+ required .*?arguments?: (.*)")


def require_kinds(plan: Any, keys: Any, optimizer: Any) -> None:
    """
    Raises:
        InvalidArgument: a plan, keys or an optimizer of another kind.
    """
    if not isinstance(plan, Plan):
        raise InvalidArgument(
            f"plan must be a Plan, got {type(plan).__name__}.", remedy="Make one with rt.Plan.for_budget."
        )
    if keys is not None and not isinstance(keys, Keys):
        raise InvalidArgument(
            f"keys must be rt.Keys, got {type(keys).__name__}.",
            remedy="Leave them out, or pass rt.Keys.seeded(0) in a test.",
        )
    if not (callable(getattr(optimizer, "init", None)) and callable(getattr(optimizer, "update", None))):
        raise InvalidArgument(
            f"optimizer must be an optax optimizer, got {getattr(optimizer, '__name__', optimizer)!r}.",
            remedy="Call the function that makes it, for example optimizer=optax.sgd(0.1).",
        )


def require_gradient_alone(optimizer: optax.GradientTransformation, params: ArrayTree) -> None:
    """
    Raises:
        InvalidArgument: the optimizer needs the loss, or another value that no guarantee covers.
    """

    def update(params: ArrayTree) -> Any:
        return optimizer.update(params, optimizer.init(params), params)

    try:
        jax.eval_shape(update, params)
    except TypeError as error:
        found = _MISSING.search(str(error))
        if found is None:  # what else is wrong shows, in its own words, when steps are compiled
            return
        raise InvalidArgument(
            f"This optimizer needs more than a gradient: {found[1]}. The loss on the training data is "
            "private, and nothing here releases it.",
            remedy="Use an optimizer that follows gradients alone, such as optax.sgd or optax.adam. For a "
            "learning rate that falls, use a schedule of optax, which counts steps.",
        ) from error


def as_checkpoints(given: Checkpoints | str | Path | None) -> Checkpoints | None:
    """Checkpoints as they are, or those in the file of this name."""
    return Checkpoints(path=Path(given)) if isinstance(given, str | Path) else given


def agree(
    data: Dataset,
    evaluate: Dataset | None,
    plan: Plan,
    checkpoints: Checkpoints | None,
    budget: Budget | None,
    **options: Any,
) -> None:
    """
    Raises:
        DataError, InvalidArgument: on every process, if the rows of one are not in order, or if they
            differ in more than their rows: they would compute different things, or wait for each other.
    """
    by_all(lambda: _check_apart(data, evaluate))
    by_all(lambda: _require_parts_stay(plan))
    by_all(lambda: _require_budget_of_first(budget, is_there=collectives.broadcast_json(budget is not None)))
    facts = {
        "plan": {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)},
        "kind of rows": _kind(data),
        "kind of rows to evaluate on": None if evaluate is None else _kind(evaluate),
        "opinion on checkpoints": "none are kept" if checkpoints is None else checkpoints.mark,
        **options,
    }
    require_same({name: str(value) for name, value in facts.items()})


def _require_parts_stay(plan: Plan) -> None:
    """Several processes keep records in the order they came: one less would move others to other parts."""
    has_parts = isinstance(plan.sampler, CyclicPoisson) and plan.sampler.parts > 1
    if has_parts and collectives.count() > 1 and plan.adjacency is Adjacency.ADD_OR_REMOVE:
        raise InvalidArgument(
            "Several processes cannot keep records in their parts while one is added or removed.",
            remedy="Make the plan with adjacency=rt.Adjacency.ZERO_OUT, or train in one process.",
        )


def _require_budget_of_first(budget: Budget | None, *, is_there: bool) -> None:
    if budget is not None and not is_there:
        raise InvalidArgument(
            "This process was given a budget, and the first one, which pays for all, was not.",
            remedy="Give it to every process, or to process 0.",
        )


def _kind(rows: Dataset) -> str:
    """Everything about a dataset but its rows."""
    columns = (f"{key}: {rows[key].dtype}{list(rows[key].shape[1:])}" for key in sorted(rows))
    return f"{', '.join(columns)}, of a {rows.unit}"


def _check_apart(data: Dataset, evaluate: Dataset | None) -> None:
    if evaluate is None:
        return
    for key in data:
        if key in evaluate.arrays and have_rows_in_common(data[key], evaluate[key]):
            raise DataError(
                f"The rows to evaluate on share their array '{key}' with the training data.",
                remedy="Hold out rows before training: a metric on training rows would tell about them.",
            )
