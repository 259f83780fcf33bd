"""Private training as one function of a key and a mask, so that many models can be trained at once.

For measurements only: a threefry key holds 64 bits, and nothing here is charged to a budget. What is
released comes from `train`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.data.sampling import Batch
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.gradients import Strategy, clipped_gradient_sum
from reticent.training.loss_keys import AnyLoss, key_use, of_keyed_example
from reticent.training.noise_streams import begin
from reticent.training.plan import Plan
from reticent.training.step import (
    Blocks,
    Remembering,
    Roots,
    TrainState,
    private_step,
    safe_state,
)
from reticent.training.step_noise import noise_stream


def private_recipe(
    loss: AnyLoss,
    init: Callable[[jax.Array], Any],
    plan: Plan,
    *,
    optimizer: optax.GradientTransformation,
    strategy: Strategy = "auto",
) -> Callable[[jax.Array, jax.Array, jax.Array, jax.Array], Any]:
    """The steps of a plan as a function (key, x, y, mask) -> params, which may be vectorised.

    Batches, clipping and noise are those of `train` under the same plan: the same `private_step` takes them.

    Args:
        init: fresh parameters from a key.
        plan: for as many examples as a mask selects, or one more.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=8, delta=1e-3, examples=20, batch_size=10, steps=2, max_norm=1.0
        ... )
        >>> recipe = private_recipe(
        ...     lambda w, row: (w - row["x"]) ** 2,
        ...     lambda key: jnp.zeros(()),
        ...     plan,
        ...     optimizer=optax.sgd(0.1),
        ... )
        >>> jax.eval_shape(
        ...     recipe, jax.random.key(0), jnp.ones(40), jnp.zeros(40, int), jnp.arange(40) < 20
        ... ).shape
        ()
    """
    if plan.unit != "record":
        raise InvalidArgument(
            "Models on masks are trained on records, not on users.", remedy="Make a plan with unit='record'."
        )
    examples, takes_key = plan.sampler.examples, key_use(loss) != "never"
    unit_loss = of_keyed_example(loss) if takes_key else loss
    step = private_step(
        clipped_gradient_sum(unit_loss, clipping=plan.clipping, strategy=strategy),
        plan,
        optimizer,
        None,
        lambda average, params, step: average,
        contribution=Contribution(takes_key=takes_key),
        blocks=Blocks.of(plan),
    )

    def recipe(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
        _check_kind(key)
        init_key, *streams = jax.random.split(key, 4)
        roots = Roots(*streams, loss=jax.random.fold_in(key, 4) if takes_key else None)
        params = init(init_key)
        members = jnp.flatnonzero(mask, size=examples, fill_value=0)
        is_member = jnp.arange(examples) < jnp.sum(mask)

        def one(state: ArrayTree, number: jax.Array) -> tuple[Any, None]:
            drawn = plan.sampler.draw(roots.sampling, number[None], examples)
            places, is_real = drawn.indices[0], drawn.is_real[0] & is_member[drawn.indices[0]]
            end = jnp.sum(drawn.is_real[0])
            batch = Batch(members[places].astype(jnp.int32), is_real, end=end)
            return step(state, DeviceRows({"x": x, "y": y}), batch, roots)[0], None

        max_norm = jnp.float32(plan.clipping.sensitivity)
        start = TrainState(jnp.int32(0), params, optimizer.init(params), max_norm, average=())
        stream = noise_stream(plan)
        first = start if stream is None else Remembering(start, begin(stream, params, 0))
        return safe_state(jax.lax.scan(one, first, jnp.arange(plan.steps))[0]).params

    return recipe


def _check_kind(key: jax.Array) -> None:
    if "rbg" in str(jax.random.key_impl(key)):
        raise InvalidArgument(
            "Keys of the rbg kind give every vectorised model the same noise.",
            remedy='Make them with jax.random.key(seed, impl="threefry2x32").',
        )
