"""Audits of the way a run was trained: the same recipe on the same rows, with canaries, or one step of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.additive.plan import AdditivePlan
from reticent.audit.additive import AdditiveAudit, AdditiveRows, audit_additive
from reticent.audit.arithmetic import Arithmetic
from reticent.audit.arithmetic_additive import arithmetic_additive
from reticent.audit.arithmetic_training import arithmetic_plan
from reticent.audit.canary_training import Audit, train_with_canaries
from reticent.audit.own_step import by_unit
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.data.dataset import Dataset
from reticent.runs.methods import table
from reticent.runs.methods.additive import Additive
from reticent.runs.methods.descent import Descent
from reticent.runs.reopen import Again
from reticent.runs.users import several_rows


def audit_run(
    again: Again,
    *,
    canaries: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    keys: Keys | None = None,
) -> Audit | AdditiveAudit:
    """Trains as a run was trained, with canaries, and tries to contradict its epsilon.

    A run that protects users is audited with users: each canary has as many rows as a user may have.

    What comes out is for whoever holds the data: the model of an audit is thrown away, and neither it nor
    the verdict is covered by the run's guarantee.

    Args:
        inputs: of a run that was trained in steps, made-up records as its model takes them: each joins by a
            coin of its own.

    Raises:
        InvalidArgument: the run was not trained in steps.
    """
    if (fitted := _additive(again)) is not None:
        plan, rows = fitted
        return audit_additive(
            rows,
            plan,
            delta=again.record.request.delta,
            examples=again.problem.rows,
            canaries=canaries,
            confidence=confidence,
            keys=keys,
        )
    recipe = _descent(again, "for a canary to join")
    keys = Keys.from_os() if keys is None else keys
    return train_with_canaries(
        again.learner.loss,
        again.learner.model.init(keys.take(Stream.INITIALISATION)),
        Dataset(again.train_on, users=_users(again)),
        recipe.plan,
        optimizer=recipe.optimizer,
        canaries=canaries,
        inputs=inputs,
        confidence=confidence,
        keys=keys,
    )


def audit_run_arithmetic(again: Again, *, confidence: float = 0.95, seed: int = 0) -> Arithmetic:
    """Replays a step of a run on its own rows and on records that no table holds, and looks at the bits.

    Raises:
        InvalidArgument: the run was not trained in steps.
    """
    if (fitted := _additive(again)) is not None:
        plan, rows = fitted
        return arithmetic_additive(rows, plan, confidence=confidence, seed=seed)
    recipe = _descent(again, "to be replayed")
    loss, rows, plan = by_unit(again.learner.loss, again.train_on, _users(again), recipe.plan)
    return arithmetic_plan(loss, again.params, rows, plan, confidence=confidence, seed=seed)


def _descent(again: Again, what_for: str) -> Descent:
    recipe = table.read(again.record.recipe)
    if not isinstance(recipe, Descent):
        raise InvalidArgument(
            f"The method '{again.record.recipe.method}' has no steps {what_for}.",
            remedy="Audit a run that was trained with sgd, gd or additive.",
        )
    return recipe


def _additive(again: Again) -> tuple[AdditivePlan, AdditiveRows] | None:
    """The plan and the rows of an additive model; None for any other."""
    recipe = table.read(again.record.recipe)
    if not isinstance(recipe, Additive):
        return None
    rows = AdditiveRows(
        *recipe.inputs_of(again.problem, again.train_on),
        users=_users(again),
        rows_per_user=again.record.request.rows_per_user or 1,
    )
    return recipe.fitted, rows


def _users(again: Again) -> np.ndarray | None:
    """Whose each row to train on is, where users may have several."""
    if again.users is None or several_rows(again.record.request.rows_per_user) is None:
        return None
    return again.users.train_on
