"""The simulator: federated learning on one machine, or on one mesh, with the loop of `rt.train`.

Clients are worked on side by side in chunks, in one compiled program. Rows belong to clients by the `users`
of a dataset; a client with fewer rows than others takes steps with nobody, which change nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import optax

from reticent.accounting.budget import Budget
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset, RowSource
from reticent.federated.plan import FederatedPlan
from reticent.training.evaluation import Metric
from reticent.training.execution import Execution
from reticent.training.local_training import Tamper, as_unit_loss
from reticent.training.loop import Run
from reticent.training.loop import train as take_rounds
from reticent.training.loss_keys import AnyLoss


def train(
    loss: AnyLoss,
    params: ArrayTree,
    data: Dataset,
    plan: FederatedPlan,
    *,
    optimizer: optax.GradientTransformation | None = None,
    evaluate: Dataset | Mapping[str, Any] | RowSource | None = None,
    metrics: Mapping[str, Metric] | None = None,
    budget: Budget | None = None,
    keys: Keys | None = None,
    tamper: Tamper | None = None,
    execution: Execution | None = None,
    **more: Any,
) -> Run:
    """Trains a model over many clients under differential privacy, as the plan says.

    Args:
        loss: a scalar function of the parameters and one row, as in `rt.train`.
        data: rows with the client that each belongs to: `Dataset(arrays, users=clients)`.
        optimizer: of the server. It follows minus the noisy mean update; by default `optax.sgd(1.0)`, which
            adds the mean update to the model. Any other, such as `optax.adam`, is post-processing.
        evaluate: rows that no client trains on; their mean loss and metrics go into the history, unreleased.
            Clients report no metrics: whatever they report is a release.
        tamper: what a client sends instead of its update, for experiments with malicious clients. It is a
            function of the update, the parameters and the rows of one client, and is clipped like any other.
        budget, keys: as in `rt.train`.
        execution: devices, and how many clients are worked on at once (`microbatch`).
        more: other arguments of `rt.train`, whose steps are rounds: checkpoints, output, project,
            unreleased, progress, on_progress, progress_every, beside.

    Guarantee:
        Releasing the result costs `plan.event`, for a user with all the rows of one client, also if the run
        ends early. An update that is not finite counts as zero, and one of any other length moves the sum by
        at most the clipping norm, as computed.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nothing was computed.
        DataError, InvalidArgument: the data and the plan do not fit together.

    Example:
        >>> import numpy as np
        >>> from reticent.training.local_training import LocalTraining
        >>> plan = FederatedPlan.for_budget(
        ...     epsilon=8,
        ...     delta=1e-5,
        ...     clients=50,
        ...     rounds=5,
        ...     sampling="full",
        ...     max_norm=1.0,
        ...     rows_per_client=4,
        ...     local=LocalTraining(learning_rate=0.1, epochs=2, batch_size=2),
        ... )
        >>> rows = Dataset({"x": np.linspace(0, 2, 200)}, users=np.arange(200) % 50)
        >>> run = train(lambda w, row: (w - row["x"]) ** 2, np.float32(0), rows, plan)
        >>> run.is_complete, run.guarantee.unit
        (True, 'user')
    """
    _require_plan(plan)
    execution = dataclasses.replace(execution or Execution(), strategy="vmap")
    run = take_rounds(
        as_unit_loss(loss, plan.local, tamper),
        params,
        data,
        plan.server,
        optimizer=optax.sgd(1.0) if optimizer is None else optimizer,
        evaluate=evaluate,
        metrics=metrics,
        budget=budget,
        keys=keys,
        execution=execution,
        **more,
    )
    said = (*run.guarantee.assumptions, *plan.own_assumptions)
    return dataclasses.replace(run, guarantee=dataclasses.replace(run.guarantee, assumptions=said))


def _require_plan(plan: Any) -> None:
    if not isinstance(plan, FederatedPlan):
        raise InvalidArgument(
            f"plan must be a FederatedPlan, got {type(plan).__name__}.",
            remedy="Make one with rt.federated.FederatedPlan.for_budget.",
        )
