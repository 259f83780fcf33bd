"""Who is told how a run goes, how often, and what they may answer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.distributed import collectives
from reticent.training.evaluation import Moment
from reticent.training.plan import Plan

Callback = Callable[[Moment], Any]
Every = int | timedelta


class Stop(Exception):
    """Ends a run after the steps that were just taken. Return it from `on_progress`, or raise it there.

    Guarantee:
        The result is covered by the guarantee of the whole plan, whatever the decision was made from.

    Example:
        >>> patient = lambda moment: Stop("good enough") if moment.step >= 10 else None
        >>> now = Moment(step=20, epoch=1.0, epsilon=0.7, held_out={}, unreleased={})
        >>> str(patient(now))
        'good enough'
    """


def teller(callbacks: Callback | Sequence[Callback] | None) -> Callable[[Moment], str | None]:
    """Tells everybody who wants to know where a run stands; returns why one of them wants it to stop.

    A callback that raises is not called again. The run continues: it was paid for.
    """
    left = as_callbacks(callbacks)

    def tell(moment: Moment) -> str | None:
        reasons = []
        for callback in tuple(left):
            try:
                answer = callback(moment)
            except Stop as stop:
                answer = stop
            except Exception as error:  # noqa: BLE001  # whatever it is, training does not depend on it
                left.remove(callback)
                _warn_of_failure(callback, moment, error)
                continue
            if answer is Stop or isinstance(answer, Stop):
                reasons.append(str(answer) if isinstance(answer, Stop) and str(answer) else "on_progress")
        return reasons[0] if reasons else None

    return tell


def as_callbacks(callbacks: Callback | Sequence[Callback] | None) -> list[Callback]:
    """
    Raises:
        InvalidArgument: something among them cannot be called.
    """
    if callbacks is None:
        return []
    given = list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]
    for callback in given:
        if not callable(callback):
            raise InvalidArgument(
                f"on_progress must be a function of a Moment, got {type(callback).__name__}.",
                remedy="Pass for example on_progress=print, or a list of functions.",
            )
    return given


def _warn_of_failure(callback: Callback, moment: Moment, error: Exception) -> None:
    name = getattr(callback, "__name__", type(callback).__name__)
    warnings.warn(
        f"{name} raised {type(error).__name__} after step {moment.step}: {error}. It is not called again; "
        "the run continues.",
        RuntimeWarning,
        stacklevel=2,
    )


class Pace:
    """Which steps are taken in one call, and after which of them somebody looks.

    Args:
        every: so many steps or so much time; None for once an epoch.
        at_once: the most steps in one call.
    """

    def __init__(self, plan: Plan, every: Every | None, at_once: int) -> None:
        self._steps, self._at_once = plan.steps, at_once
        self._per_epoch = -(-plan.sampler.examples // plan.sampler.batch_size)
        self._every = None if isinstance(every, timedelta) else every
        self._seconds = every.total_seconds() if isinstance(every, timedelta) else None
        self._looked = self._called = time.monotonic()
        self._most = at_once if self._seconds is None else 1  # until it is known how long a step takes

    def call_from(self, start: int) -> range:
        """The steps of the call that begins here."""
        stop = min(start + self._most, self._steps)
        if self._every is not None:
            stop = min(stop, (start // self._every + 1) * self._every)
        return range(start, stop)

    def is_due(self, taken: range) -> bool:
        """Whether somebody looks after these steps. Of several processes, the first one's clock decides."""
        if self._seconds is not None:
            return self._is_time(taken, self._seconds) or taken.stop >= self._steps
        every = self._every or self._per_epoch
        return taken.stop >= self._steps or taken.stop // every > taken.start // every

    def _is_time(self, taken: range, seconds: float) -> bool:
        now = time.monotonic()
        fitting = int(seconds * len(taken) / max(now - self._called, 1e-9))
        is_time, self._most = collectives.broadcast_json(
            [now - self._looked >= seconds, min(max(fitting, 1), self._at_once)]
        )
        self._called = now
        if is_time:
            self._looked = now
        return bool(is_time)


def require_every(every: Every | None) -> None:
    """
    Raises:
        InvalidArgument: it is neither a number of steps nor an amount of time, both above zero.
    """
    if isinstance(every, timedelta):
        checks.positive(progress_every=every.total_seconds())
    elif every is not None:
        checks.count(progress_every=every)


def most_steps(every: Every | None, limit: int) -> int | None:
    """How many steps one call should take at most: calls of one size, the last of which ends in a report.

    None if nobody counts steps.

    >>> most_steps(100, 64), most_steps(5, 64), most_steps(None, 64)
    (50, 5, None)
    """
    if every is None or isinstance(every, timedelta):
        return None
    calls = -(-every // limit)
    return -(-every // calls)
