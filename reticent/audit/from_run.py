"""Audits of the way a run was trained: the same recipe on the same rows, with canaries, or one step of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reticent.additive.plan import AdditivePlan
from reticent.audit.additive import AdditiveAudit, AdditiveRows, arithmetic_additive, audit_additive
from reticent.audit.arithmetic import Arithmetic
from reticent.audit.arithmetic_training import arithmetic_plan
from reticent.audit.canary_training import Audit, train_with_canaries
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.runs.methods import table
from reticent.runs.methods.additive import Additive
from reticent.runs.methods.descent import Descent
from reticent.runs.reopen import Again


def audit_run(
    again: Again,
    *,
    canaries: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    keys: Keys | None = None,
) -> Audit | AdditiveAudit:
    """Trains as a run was trained, with canaries, and tries to contradict its epsilon.

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
        again.train_on,
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
    return arithmetic_plan(
        again.learner.loss, again.params, again.train_on, recipe.plan, confidence=confidence, seed=seed
    )


def _descent(again: Again, what_for: str) -> Descent:
    recipe = table.read(again.record.recipe)
    if not isinstance(recipe, Descent):
        raise InvalidArgument(
            f"The method '{again.record.recipe.method}' has no steps {what_for}.",
            remedy="Audit a run that was trained with sgd, gd or additive.",
        )
    if recipe.plan.unit == "user":
        raise _about_users(recipe.plan.rows_per_user)
    return recipe


def _additive(again: Again) -> tuple[AdditivePlan, AdditiveRows] | None:
    """The plan and the rows of an additive model; None for any other."""
    recipe = table.read(again.record.recipe)
    if not isinstance(recipe, Additive):
        return None
    if (again.record.request.rows_per_user or 1) > 1:
        raise _about_users(again.record.request.rows_per_user)
    return recipe.fitted, AdditiveRows(*recipe.inputs_of(again.problem, again.train_on))


def _about_users(rows: int | None) -> InvalidArgument:
    return InvalidArgument(
        f"This run protects users with up to {rows} rows; audits are about rows.",
        remedy="Audit a run that was made with --rows-per-user 1, or without --user.",
    )
