"""The parts of private training for a loop of your own: batches, and noise as an optax transformation.

    gradient_sum = rt.clipped_gradient_sum(loss, clipping=plan.clipping)
    optimizer = optax.chain(rt.training.private_noise(plan, keys=keys), optax.adam(1e-3))
    state = optimizer.init(params)
    for rows, is_real in rt.training.private_batches(data, plan, keys=keys):
        total, _ = gradient_sum(params, rows, is_real)
        updates, state = optimizer.update(total, state, params)
        params = optax.apply_updates(params, updates)
    plan.guarantee(assumptions=(*keys.assumptions, rt.training.OWN_LOOP), numbers=...)

`rt.train` does the same and more: it checks, charges a budget, resumes, and uses several devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Bool, Int

from reticent.core import trees
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset, RowSource, as_dataset
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.gaussian import add_gaussian_noise
from reticent.training.contributions import require_unit
from reticent.training.places import places_for, require_declared
from reticent.training.plan import Plan
from reticent.training.plan_noise import is_correlated

OWN_LOOP = "the training loop uses each batch for one clipped sum and each sum for one step"

_DRAWN_AT_ONCE = 64  # batches


class PrivateBatch(NamedTuple):
    """The rows of one batch, and which of them count; the others are zeros."""

    rows: dict[str, np.ndarray]
    is_real: Bool[np.ndarray, " capacity"]


class NoiseState(NamedTuple):
    """How many steps have had their noise. Holds no key, so it is safe to save."""

    step: Int[Array, ""]


def private_batches(
    data: Dataset | Mapping[str, Any] | RowSource, plan: Plan, *, keys: Keys
) -> Iterator[PrivateBatch]:
    """Draws the batches of a plan, one for each step, all of one shape.

    Records lie in secret places, and `plan.sampler` draws places (see `reticent.training.places`), so that a
    record that is missing leaves every other record in the same row of the same batch.

    Raises:
        DataError: the data do not fit the plan.
        InvalidArgument: the plan protects users; use `rt.train`.
        KeyReuse: batches were drawn with these keys before.

    Example:
        >>> plan = Plan.for_budget(epsilon=1, delta=1e-5, examples=100, batch_size=10, steps=3, max_norm=1.0)
        >>> batches = private_batches({"x": np.ones((100, 4), np.float32)}, plan, keys=Keys.seeded(0))
        >>> [batch.rows["x"].shape[1] for batch in batches]
        [4, 4, 4]
    """
    _require_plain(plan)
    dataset = as_dataset(data, "data")
    require_unit(dataset, plan)
    require_declared(plan, len(dataset))
    places = places_for(plan, len(dataset), keys.place_key())
    root = keys.take(Stream.SAMPLING, steps=range(plan.steps))
    return _draw_batches(dataset, plan, places.unit_at(), root)


def _draw_batches(
    dataset: Dataset, plan: Plan, unit_at: Int[np.ndarray, " places"], root: jax.Array
) -> Iterator[PrivateBatch]:
    for start in range(0, plan.steps, _DRAWN_AT_ONCE):
        steps = np.arange(start, min(start + _DRAWN_AT_ONCE, plan.steps), dtype=np.int32)
        drawn = plan.sampler.draw(root, jnp.asarray(steps), len(unit_at))
        for indices, is_drawn in zip(np.asarray(drawn.indices), np.asarray(drawn.is_real), strict=True):
            units = unit_at[indices]  # (capacity,)
            is_real = is_drawn & (units >= 0)
            found = dataset.read(units[is_real])
            yield PrivateBatch({key: _lay(rows, is_real) for key, rows in found.items()}, is_real)


def _lay(rows: np.ndarray, is_real: np.ndarray) -> np.ndarray:
    """Rows of a batch at their places: (capacity, ...); zeros where nobody is."""
    found = np.zeros((len(is_real), *rows.shape[1:]), rows.dtype)
    found[is_real] = rows
    return found


def private_noise(plan: Plan, *, keys: Keys) -> optax.GradientTransformation:
    """Turns the clipped sum of a batch into a private mean gradient, as the first link of an optax chain.

    It adds the plan's noise, in whole numbers on a public grid, with a fresh key for every step, and divides
    by the plan's batch size: the expected one, since the drawn one is private.

    What you have to ensure:
        - The sum comes from `rt.clipped_gradient_sum(loss, clipping=plan.clipping)`: no other function is
          known to keep the bound, as computed.
        - Its batch comes from `private_batches(data, plan, keys=keys)`, and each is used once.
        - `update` is called once with each state: the noise of a step is decided by the state.
        - Nothing else that was computed from the data is released, such as the losses beside the sum.

    | edge | what happens |
    |---|---|
    | a batch with nobody in it | noise alone |
    | a sum that holds NaN or infinity | those numbers count as 0 |
    | a step after the plan's last | an error; inside `jax.jit`, an update of zeros without data or noise |
    | `init` called twice | KeyReuse: the second run would repeat the noise of the first |
    | a clipping norm of 0, infinity or NaN | `Plan` refuses it |

    Guarantee:
        The updates of all steps cost `plan.event`. `plan.guarantee(assumptions=(*keys.assumptions, OWN_LOOP),
        numbers=the number of parameters)` says it in words.

    Raises:
        InvalidArgument: the plan has an adaptive norm or protects users; use `rt.train`.

    Example:
        >>> plan = Plan.for_budget(epsilon=1, delta=1e-5, examples=100, batch_size=10, steps=3, max_norm=1.0)
        >>> optimizer = optax.chain(private_noise(plan, keys=Keys.seeded(0)), optax.sgd(0.1))
        >>> state = optimizer.init(jnp.zeros(2))
        >>> updates, state = optimizer.update(jnp.ones(2), state)
        >>> int(state[0].step)
        1
    """
    _require_plain(plan)
    event = Gaussian(noise_multiplier=plan.noise_multiplier)
    roots: list[np.ndarray] = []  # plain numbers, taken by `init`

    def init(params: ArrayTree) -> NoiseState:
        with jax.ensure_compile_time_eval():
            root = keys.take(Stream.NOISE, steps=range(plan.steps))
            roots.append(np.asarray(jax.random.key_data(root)))
        return NoiseState(jnp.int32(0))

    def update(updates: ArrayTree, state: ArrayTree, params: ArrayTree = None) -> tuple[Any, NoiseState]:
        if not roots:
            raise InvalidArgument("No keys were taken.", remedy="Call init of the optimizer first.")
        _require_step_left(plan, state)
        key = step_key(jax.random.wrap_key_data(jnp.asarray(roots[0]), impl="rbg"), state.step)
        noisy = add_gaussian_noise(key, plan.clipping.bounded_sum(updates), event)
        mean = trees.scale(noisy, 1 / plan.sampler.batch_size)
        is_left = state.step < plan.steps
        mean = jax.tree.map(lambda leaf: jnp.where(is_left, leaf, 0), mean)
        if params is not None:
            mean = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), mean, params)
        return mean, NoiseState(state.step + 1)

    return optax.GradientTransformation(init, update)


def _require_step_left(plan: Plan, state: NoiseState) -> None:
    if not isinstance(state.step, Tracer) and int(state.step) >= plan.steps:
        raise InvalidArgument(
            f"All {plan.steps} steps of the plan have been taken.",
            remedy="Make a plan with more steps: another one is not covered by its guarantee.",
        )


def _require_plain(plan: Plan) -> None:
    if not plan.is_private:
        raise InvalidArgument(
            "A plan without privacy has no noise to add in a loop of your own.",
            remedy="Use rt.train for a dry run, or make a plan with Plan.for_budget.",
        )
    if is_correlated(plan.noise, plan.steps):
        raise InvalidArgument(
            "A loop of your own adds independent noise, and the noise of this plan is correlated.",
            remedy="Use rt.train, or make the plan with noise=rt.noise.independent().",
        )
    if plan.adaptive is not None or plan.unit != "record":
        raise InvalidArgument(
            "A loop of your own takes plans for records, with a fixed clipping norm.",
            remedy="Use rt.train for users and for adaptive norms.",
        )
