"""What a person who watches a run is told, and when."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.data.dataset import Dataset, as_dataset
from reticent.distributed import collectives
from reticent.mechanisms.events import Event
from reticent.training.averages import Average
from reticent.training.gradients import Loss
from reticent.training.plan import Plan
from reticent.training.programs import kept
from reticent.training.step import TrainState, Unreleased

Metric = Callable[[Any, Any], jax.Array]


class Moment(NamedTuple):
    """Where a run stands after some steps: what a person watching wants to know.

    Args:
        epsilon: a bound on what the steps so far cost, with what was released beside them, if their number
            was fixed in advance. Who stops here because of what they saw has spent the whole plan.
        held_out: metrics on rows that were not trained on. Unreleased: no noise is on them, and the guarantee
            does not cover them.
        unreleased: about the rows that are trained on, and only when asked for.
    """

    step: int
    epoch: float
    epsilon: float
    held_out: Mapping[str, float]
    unreleased: Mapping[str, float]


def observer(
    plan: Plan,
    held_out: Callable[[Any], dict[str, float]],
    average: Average,
    on_progress: Callable[[Moment], None] | None,
    unreleased: bool,
    beside: Event | None = None,
) -> Callable[[int, TrainState, Unreleased], Moment]:
    """Says where a run stands, and tells whoever wants to know."""

    def look(done: int, state: TrainState, private: Unreleased) -> Moment:
        scores = held_out(average.choose(state.params, state.average))
        moment = _moment(plan, done, beside, scores, private if unreleased else None)
        if on_progress is not None:
            on_progress(moment)
        return moment

    return look


def _moment(
    plan: Plan, done: int, beside: Event | None, held_out: dict[str, float], private: Unreleased | None
) -> Moment:
    return Moment(
        step=done,
        epoch=done * plan.sampler.batch_size / plan.sampler.examples,
        epsilon=plan.epsilon_after(done, beside),
        held_out=held_out,
        unreleased={} if private is None else _private_facts(private),
    )


def evaluator(
    loss: Loss,
    evaluate: Dataset | Mapping[str, Any] | None,
    metrics: Mapping[str, Metric],
    program: Hashable | None = None,
) -> Callable[[Any], dict[str, float]]:
    """The mean loss and metrics of parameters on held-out rows; for `program` see `Execution`."""
    if evaluate is None and collectives.count() == 1:
        return lambda params: {}
    held = None if evaluate is None else as_dataset(evaluate, "evaluate")
    arrays = {} if held is None else {key: jnp.asarray(np.asarray(held[key])) for key in held}
    rows = 0 if held is None else len(held)
    named: dict[str, Metric] = {"loss": loss, **metrics}

    key = None if program is None else ("metrics", program, tuple(named))
    values = kept(key, lambda: jax.jit(partial(_values, named)))

    def means(params: Any) -> dict[str, float]:
        """Over the rows of all processes; nothing if there are none."""
        found = values(params, arrays) if rows else dict.fromkeys(named, np.zeros(0))
        own = [np.asarray(found[name], np.float64).sum() for name in named]
        *sums, count = collectives.total(np.array([*own, rows], np.float64)).tolist()
        return {name: value / count for name, value in zip(named, sums, strict=True)} if count else {}

    return means


def _values(named: Mapping[str, Metric], params: Any, arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    def one(example: Any) -> dict[str, jax.Array]:
        return {name: jnp.float32(metric(params, example)) for name, metric in named.items()}

    rows = len(next(iter(arrays.values())))
    return jax.lax.map(one, arrays, batch_size=min(1024, rows))


def _private_facts(private: Unreleased) -> dict[str, float]:
    taken = np.asarray(private.size) > 0
    if not taken.any():
        return {}
    return {
        "unreleased training loss": float(np.mean(np.asarray(private.loss)[taken])),
        "unreleased clipped share": float(np.mean(np.asarray(private.clipped)[taken])),
    }
