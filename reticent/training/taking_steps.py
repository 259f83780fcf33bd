"""The steps of a plan, one compiled call after the other, with looks and checkpoints in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from reticent.accounting.rounding import at_most
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.training.checkpoint import Checkpoints
from reticent.training.data_warnings import warn_of_bad_losses
from reticent.training.devices.feeding import Feed
from reticent.training.devices.mesh import Layout
from reticent.training.evaluation import Moment
from reticent.training.plan import Plan
from reticent.training.reporting import Pace
from reticent.training.step import TrainState, Unreleased, safe_state

KEYBOARD = "the keyboard"

Look = Callable[[int, TrainState, Unreleased], tuple[Moment, str | None]]


class Taken(NamedTuple):
    """Where a run came to.

    Args:
        state: with what is kept of correlated noise, as long as the run goes on.
        stopped_by: who ended it before the last step; empty if nobody did.
    """

    state: Any
    history: list[Moment]
    stopped_by: str


class Keep(Protocol):
    """What is written between two calls; see `keeping`."""

    def state(
        self, state: TrainState, *, force: bool = False, is_looked_at: bool = False, alone: bool = False
    ) -> None: ...

    def history(self, history: list[Moment]) -> None: ...


def take_steps(
    many: Callable[..., Any],
    start: Taken,
    feed: Feed,
    plan: Plan,
    layout: Layout,
    pace: Pace,
    look: Look,
    keep: Keep,
    shown: AbstractContextManager[Callable[[int, str], None]],
) -> Taken:
    """Takes the steps of the plan that are left, or fewer if somebody stops them."""
    state, history, _ = start
    is_first = True
    coming = pace.call_from(int(state.step))
    try:
        keep.state(safe_state(state), force=True)
        with collectives.watch_peers(), shown as advance:
            while len(coming):
                steps, coming = coming, pace.call_from(coming.stop)
                served, roots = feed.serve(steps, coming)
                state, private = jax.block_until_ready(many(state, served, np.int32(steps.stop), roots))
                if is_first and collectives.is_first():
                    warn_of_bad_losses(private)
                is_first = False
                is_due = pace.is_due(steps)
                keep.state(safe_state(state), force=steps.stop == plan.steps, is_looked_at=is_due)
                if is_due:
                    moment, stopped_by = look(steps.stop, layout.copied(safe_state(state)), private)
                    history.append(moment)
                    keep.history(history)
                    if stopped_by is not None and steps.stop < plan.steps:
                        keep.state(safe_state(state), force=True)
                        return Taken(layout.fetched(safe_state(state)), history, stopped_by)
                advance(steps.stop, _worth_saying(plan, history))
    except KeyboardInterrupt:
        if not layout.is_spread_out:  # the others may not be interrupted, and would not bring their part
            keep.state(safe_state(state), force=True, alone=True)
        return Taken(layout.fetched(safe_state(state)), history, KEYBOARD)
    return Taken(layout.fetched(safe_state(state)), history, "")


def _worth_saying(plan: Plan, history: list[Moment]) -> str:
    if not plan.is_private:
        return "no privacy"
    return f"epsilon {at_most(history[-1].epsilon)}" if history else ""


class _Nothing:
    def state(self, state: TrainState, **how: bool) -> None: ...

    def history(self, history: list[Moment]) -> None: ...


class _Kept:
    def __init__(self, checkpoints: Checkpoints, layout: Layout, is_told: bool) -> None:
        self._checkpoints, self._layout, self._is_told = checkpoints, layout, is_told

    def state(
        self, state: TrainState, *, force: bool = False, is_looked_at: bool = False, alone: bool = False
    ) -> None:
        force = force or (is_looked_at and self._is_told)
        if self._layout.is_spread_out:  # no process has all of it, and all have to bring theirs together
            state, force = collectives.copy_to_host(state), True
        if not alone:
            by_first(lambda: self._checkpoints.save(state, force=force))  # where it cannot, nobody goes on
        elif collectives.is_first():
            self._checkpoints.save(state, force=force)

    def history(self, history: list[Moment]) -> None:
        by_first(lambda: self._checkpoints.save_history([_to_json(moment) for moment in history]))


def keeping(checkpoints: Checkpoints | None, layout: Layout, *, is_told: bool) -> Keep:
    """Saves a run as the first process sees it; the others have nothing to write.

    What a callback is told is saved first: after a crash it would be drawn, and told, a second time.
    """
    is_told = bool(collectives.gather_arrays(is_told).any())
    return _Nothing() if checkpoints is None else _Kept(checkpoints, layout, is_told)


def earlier_history(checkpoints: Checkpoints | None, step: int) -> list[Moment]:
    """What was seen before a run was interrupted, up to the step that it is resumed from."""
    if checkpoints is None:
        return []
    found = collectives.broadcast_json(checkpoints.load_history() if collectives.is_first() else None)
    moments = [_from_json(moment) for moment in found]
    return [moment for moment in moments if moment.step <= step]


def _to_json(moment: Moment) -> dict[str, Any]:
    """Real numbers as text: JSON has no infinity."""
    return {
        "step": moment.step,
        "epoch": repr(float(moment.epoch)),
        "epsilon": repr(float(moment.epsilon)),
        "held_out": {name: repr(float(value)) for name, value in moment.held_out.items()},
        "unreleased": {name: repr(float(value)) for name, value in moment.unreleased.items()},
    }


def _from_json(value: dict[str, Any]) -> Moment:
    numbers = ({name: float(each) for name, each in value[key].items()} for key in ("held_out", "unreleased"))
    return Moment(int(value["step"]), float(value["epoch"]), float(value["epsilon"]), *numbers)
