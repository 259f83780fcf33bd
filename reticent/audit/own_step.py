"""The step of `train`, to be taken by hand: on these rows, with this seed, and nothing after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.audit.claim import require_claim
from reticent.core import trees
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.core.trees import ArrayTree
from reticent.data.sampling import Batch
from reticent.training.contributions import Contribution, DeviceRows, Several, user_table
from reticent.training.devices.memory import examples_at_once
from reticent.training.gradients import LossFunction, Strategy, clipped_gradient_sum
from reticent.training.plan import Plan
from reticent.training.programs import quick_options
from reticent.training.step import Blocks, Roots, TrainState, private_step

_ROOM, _MOST_BYTES = 128, 1 << 21  # rows that are there, whoever is in the batch, if not all that may be

_COUNT = "reticent rows of a user"

_STREAMS = (Stream.SAMPLING, Stream.NOISE, Stream.VIEWS)

_KEEPING = optax.GradientTransformation(  # keeps the noisy mean, to the last bit, and moves nothing
    lambda params: jax.tree.map(jnp.zeros_like, params),
    lambda updates, state, params=None: (jax.tree.map(jnp.zeros_like, updates), updates),
)


def own_step(
    loss: LossFunction, params: ArrayTree, plan: Plan, *, strategy: Strategy = "auto"
) -> Callable[[dict[str, np.ndarray], int, int], Any]:
    """The step that `train` takes under a plan, compiled with the options of a run, as `replay` takes it.

    Returns:
        A function of a batch, a seed and the number of the step. It returns the noisy sum over the plan's
        batch size, as the optimizer is given it.
    """
    params = jax.tree.map(jnp.asarray, params)
    gradient_sum = clipped_gradient_sum(loss, clipping=plan.clipping, strategy=strategy)
    zeros = jax.tree.map(jnp.zeros_like, params)
    max_norm = jnp.float32(plan.clipping.sensitivity)
    compiled: dict[str, Any] = {}

    def compile_for(batch: Mapping[str, np.ndarray]) -> tuple[Blocks, Callable[..., Any]]:
        """The blocks of a batch, and the compiled step: both depend on what an example is."""
        if not compiled:
            example = {
                key: jnp.asarray(np.zeros(array.shape[1:], array.dtype)) for key, array in batch.items()
            }
            blocks = Blocks.of(plan, examples_at_once(loss, params, example, strategy))
            step = private_step(
                gradient_sum,
                plan,
                _KEEPING,
                None,
                lambda average, params, at: average,
                contribution=Contribution(),
                blocks=blocks,
            )
            work = trees.size(params) * plan.sampler.batch_size * plan.steps
            compiled.update(blocks=blocks, step=jax.jit(step, compiler_options=quick_options(work)))
        return compiled["blocks"], compiled["step"]

    def take(batch: dict[str, np.ndarray], seed: int, at: int) -> Any:
        blocks, step = compile_for(batch)
        rows = len(next(iter(batch.values())))
        if rows > blocks.places:
            raise InvalidArgument(
                f"{rows} rows are more than a batch of this plan can hold.", remedy="Replay fewer rows."
            )
        places = jnp.arange(blocks.places)
        is_real = places < rows
        keys = Keys.seeded(seed)
        sampling, noise, views = (keys.take(stream, steps=range(at, at + 1)) for stream in _STREAMS)
        roots = Roots(sampling, noise, views)
        state = TrainState(jnp.int32(at), params, zeros, max_norm, zeros)
        source = DeviceRows(
            {key: jnp.asarray(array) for key, array in _pad_batch(batch, blocks.places).items()}
        )
        moved, _ = step(state, source, Batch(jnp.where(is_real, places, 0), is_real), roots)
        return moved.opt_state

    return take


def by_unit(
    loss: LossFunction, rows: Mapping[str, np.ndarray], users: np.ndarray | None, plan: Plan
) -> tuple[LossFunction, Mapping[str, np.ndarray], Plan]:
    """A plan for users as one for records that hold all rows of a user, filled up with the first one.

    The loss of such a record is that of `train`: the mean over the rows that count. A step of the plan for
    users clips and adds the same gradients.
    """
    if users is None or plan.rows_per_user is None:
        return loss, rows, plan
    places, is_row = user_table(users, plan.rows_per_user)
    of_user = Contribution(rows=plan.rows_per_user).loss(loss)

    def of_record(params: Any, record: Any) -> jax.Array:
        counts = jnp.arange(plan.rows_per_user or 1) < record[_COUNT]
        return of_user(params, Several({key: record[key] for key in rows}, counts))

    own = {key: np.asarray(array)[places] for key, array in rows.items()}
    counted = {_COUNT: is_row.sum(axis=1).astype(np.int32)}
    return of_record, {**own, **counted}, replace(plan, unit="record", rows_per_user=None)


def _pad_batch(batch: Mapping[str, np.ndarray], places: int) -> dict[str, np.ndarray]:
    """Pads a batch with rows of zeros that nobody draws: one shape for all batches, or for most of them."""
    rows = len(next(iter(batch.values())))
    size = sum(array.itemsize * math.prod(array.shape[1:]) for array in batch.values())
    room = places if places * size <= _MOST_BYTES else max(_ROOM, 2 ** math.ceil(math.log2(max(rows, 1))))
    return {
        key: np.concatenate([array, np.zeros((room - rows, *array.shape[1:]), array.dtype)])
        for key, array in batch.items()
    }


def require_replayable(plan: Plan) -> None:
    """
    Raises:
        InvalidArgument: what a step of this plan may do is not fixed beforehand, or it claims nothing.
    """
    require_claim(plan)
    if plan.adaptive is not None or plan.unit != "record":
        raise InvalidArgument(
            "A replay covers plans for records with a fixed clipping norm.",
            remedy="Replay the plan without its adaptive norm, and with unit='record'.",
        )
