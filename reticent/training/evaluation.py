"""What a person who watches a run is told, and when."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset, as_dataset
from reticent.distributed import collectives
from reticent.mechanisms.events import Event
from reticent.training.averages import Average
from reticent.training.given import explain_errors
from reticent.training.loss_keys import AnyLoss, on_held_out_row
from reticent.training.plan import Plan
from reticent.training.programs import kept, with_constants_apart
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

    Example:
        >>> now = Moment(step=20, epoch=1.0, epsilon=0.7, held_out={"accuracy": 0.9}, unreleased={})
        >>> now.epoch, now.held_out["accuracy"]
        (1.0, 0.9)
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
    tell: Callable[[Moment], str | None],
    unreleased: bool,
    beside: Event | None = None,
) -> Callable[[int, TrainState, Unreleased], tuple[Moment, str | None]]:
    """Says where a run stands, tells whoever wants to know, and returns why it should stop, if it should."""

    def look(done: int, state: TrainState, private: Unreleased) -> tuple[Moment, str | None]:
        scores = held_out(average.choose(state.params, state.average))
        moment = _moment(plan, done, beside, scores, private if unreleased else None)
        reasons = [reason for reason in collectives.gather_json(tell(moment)) if reason is not None]
        return moment, reasons[0] if reasons else None

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
    loss: AnyLoss,
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
    named = {name: on_held_out_row(metric) for name, metric in {"loss": loss, **metrics}.items()}

    key = None if program is None else ("metrics", program, tuple(named))
    values = kept(key, lambda: with_constants_apart(partial(_values, named)))

    def means(params: ArrayTree) -> dict[str, float]:
        """Over the rows of all processes; nothing if there are none."""
        found = values(params, arrays) if rows else dict.fromkeys(named, np.zeros(0))
        own = [np.asarray(found[name], np.float64).sum() for name in named]
        *sums, count = collectives.total(np.array([*own, rows], np.float64)).tolist()
        return {name: value / count for name, value in zip(named, sums, strict=True)} if count else {}

    return means


def require_scalars(
    loss: AnyLoss, params: ArrayTree, evaluate: Dataset | None, metrics: Mapping[str, Metric]
) -> None:
    """
    Raises:
        InvalidArgument: there are metrics and no rows for them, or one of them is not one number.
    """
    if evaluate is None and metrics:
        raise InvalidArgument(
            f"Metrics ({', '.join(metrics)}) are averages over held-out rows, and there are none.",
            remedy="Pass evaluate=, rows that are not trained on, or leave out metrics.",
        )
    if evaluate is None or not len(evaluate):
        return
    row = {key: jax.ShapeDtypeStruct(evaluate[key].shape[1:], _dtype(evaluate[key])) for key in evaluate}
    for name, metric in {"loss": loss, **metrics}.items():
        with explain_errors(f"{name}(params, example) on a row to evaluate on", params=params, example=row):
            found = jax.eval_shape(on_held_out_row(metric), params, row, jax.ShapeDtypeStruct((), jnp.int32))
        if not isinstance(found, jax.ShapeDtypeStruct) or found.shape != ():
            shape = getattr(found, "shape", jax.tree.structure(found))
            raise InvalidArgument(
                f"The metric '{name}' of one example must be one number, got {shape}.",
                remedy="Sum or average inside the metric; it is given one example, not a batch.",
            )


def _dtype(column: Any) -> Any:
    return jnp.asarray(np.asarray(column[:1])).dtype


def _values(
    named: Mapping[str, Callable[[Any, Any, jax.Array], Any]], params: ArrayTree, arrays: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    def one(numbered: tuple[Any, jax.Array]) -> dict[str, jax.Array]:
        example, number = numbered
        return {
            name: jnp.asarray(metric(params, example, number)).astype(jnp.float32)
            for name, metric in named.items()
        }

    rows = len(next(iter(arrays.values())))
    return jax.lax.map(one, (arrays, jnp.arange(rows, dtype=jnp.int32)), batch_size=min(1024, rows))


def _private_facts(private: Unreleased) -> dict[str, float]:
    taken = np.asarray(private.size) > 0
    if not taken.any():
        return {}
    return {
        "unreleased training loss": float(np.mean(np.asarray(private.loss)[taken])),
        "unreleased clipped share": float(np.mean(np.asarray(private.clipped)[taken])),
    }
