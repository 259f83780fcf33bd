"""What a client does in a round: some steps of its own on its own rows, and the difference that they make.

    delta, unreleased = client_update(loss, local, params, rows, is_real, seed)

`as_unit_loss` turns it into a loss whose gradient is minus that difference. So the loop of `rt.train` clips,
sums and noises updates of clients as it does gradients of records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from reticent.core import checks, trees
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.data.cyclic import Cyclic
from reticent.data.limited import Limited
from reticent.data.sampling import FullBatch, Sampler, Shuffled
from reticent.training.contributions import UnitLoss
from reticent.training.loss_keys import AnyLoss, call_with_key

Tamper = Callable[
    [Any, Any, Any], Any
]  # of a client's update, the parameters and its rows: what it sends instead

TRUSTED_SERVER = (
    "the server is trusted: it sees what each client sends and adds the noise, and shows nobody more than "
    "the model"
)
SECRET_COINS = "it draws the clients of a round in secret, and tells nobody who they are"
_NEAR = 2**22  # bytes of parameters that are at hand without a wait, or nearly so
_MOST_AT_ONCE = 256
_KIND = "threefry2x32"  # keys of the `rbg` kind give all clients the same bits under `vmap`


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Stochastic gradient descent on a client's own rows, the same for all clients.

    Args:
        learning_rate: of a client's steps; the server has its own.
        epochs: how often a client goes over its rows in a round, each time in a new random order.
        batch_size: rows per step, of which the last step of an epoch may have fewer. None takes all rows at
            once; with one epoch that is DP-FedSGD.
        proximal: draws a client back towards the model that it was sent (FedProx).

    Example:
        >>> LocalTraining(learning_rate=0.1, epochs=5, batch_size=20).steps_for(rows=65)
        20
        >>> LocalTraining(learning_rate=0.1).steps_for(rows=65)
        1

    Reference:
        McMahan, Moore, Ramage, Hampson and Aguera y Arcas (2017), Algorithm 1, arXiv:1602.05629v4.
        Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith (2020), equation 2 (proximal), arXiv:1812.06127v5.
    """

    learning_rate: float
    epochs: int = 1
    batch_size: int | None = None
    proximal: float = 0.0

    def __post_init__(self) -> None:
        checks.positive(learning_rate=self.learning_rate)
        checks.count(epochs=self.epochs)
        if self.batch_size is not None:
            checks.count(batch_size=self.batch_size)
        if not 0 <= self.proximal < float("inf"):
            raise InvalidArgument(
                f"proximal must be a number of at least 0, got {self.proximal}.",
                remedy="Leave it out, or pass for example 0.01.",
            )

    def steps_for(self, rows: int) -> int:
        """How many steps a client with so many rows takes in a round."""
        return self.epochs * -(-rows // self.rows_per_step(rows))

    def rows_per_step(self, rows: int) -> int:
        return min(self.batch_size or rows, rows)


class UnreleasedUpdate(NamedTuple):
    """What is known about one client's training, and private."""

    loss: Float[Array, ""]  # the mean over the rows of all steps, each before the step that it led to
    rows: Float[Array, ""]  # how many of them there were


class _Schedule(NamedTuple):
    """Which rows each step takes, and which of those count."""

    rows: jax.Array  # (steps, rows per step)
    is_real: jax.Array
    keys: jax.Array  # (steps,)


def client_update(
    loss: AnyLoss, local: LocalTraining, params: ArrayTree, rows: Any, is_real: jax.Array, seed: jax.Array
) -> tuple[Any, UnreleasedUpdate]:
    """The change of the parameters that one client's training makes.

    Args:
        loss: of the parameters and one row, as in `rt.train`.
        rows: a tree of arrays, all clients' of one length.
        is_real: which rows count; the others fill up.
        seed: two words of random bits, fresh for every client and round.

    Guarantee:
        The result depends on the client's own rows and seed alone. A client without rows changes nothing.
    """
    params, rows = jax.tree.map(jnp.asarray, (params, rows))
    is_real = jnp.asarray(is_real)
    schedule = _schedule(local, is_real, seed)
    per_epoch = schedule.rows.shape[0] // local.epochs
    taken = _steps_with_rows(local, is_real)

    def step(carry: _Local) -> _Local:
        # Steps with nobody are at the end of each epoch: they are passed over.
        at = carry.step // taken * per_epoch + carry.step % taken
        now = jax.tree.map(lambda leaf: leaf[at], schedule)
        batch = jax.tree.map(lambda leaf: leaf[now.rows], rows)
        count = jnp.sum(now.is_real, dtype=jnp.float32)

        def objective(delta: Any) -> tuple[jax.Array, jax.Array]:
            total = _total(loss, trees.add(params, delta), batch, now)
            return total / count.astype(total.dtype), total

        gradient, total = jax.grad(objective, has_aux=True)(carry.delta)
        rate, pull = local.learning_rate, local.proximal
        moved = jax.tree.map(lambda leaf, slope: leaf - rate * (slope + pull * leaf), carry.delta, gradient)
        return _Local(carry.step + 1, moved, carry.loss + total.astype(jnp.float32), carry.rows + count)

    nothing = _Local(jnp.int32(0), jax.tree.map(jnp.zeros_like, params), jnp.float32(0), jnp.float32(0))
    end = jax.lax.while_loop(lambda carry: carry.step < local.epochs * taken, step, nothing)
    return end.delta, UnreleasedUpdate(end.loss / jnp.maximum(end.rows, 1), end.rows)


class _Local(NamedTuple):
    """What a client knows between two steps."""

    step: jax.Array
    delta: Any
    loss: jax.Array
    rows: jax.Array


def _steps_with_rows(local: LocalTraining, is_real: jax.Array) -> jax.Array:
    """How many steps of an epoch have a row that counts."""
    size = local.rows_per_step(len(is_real))
    return -(-jnp.sum(is_real, dtype=jnp.int32) // size)


def _total(loss: AnyLoss, params: ArrayTree, batch: ArrayTree, now: _Schedule) -> jax.Array:
    """The sum of the losses of the rows that count."""
    keys = jax.random.split(now.keys, len(now.rows))
    losses = jax.vmap(lambda row, key: call_with_key(loss, params, row, key))(batch, keys)
    return jnp.sum(jnp.where(now.is_real, losses, 0))


def _schedule(local: LocalTraining, is_real: jax.Array, seed: jax.Array) -> _Schedule:
    """The rows that count come first, in an order of their own in every epoch; then steps with nobody."""
    rows = len(is_real)
    size = local.rows_per_step(rows)
    per_epoch = -(-rows // size)
    order_key, step_key = jax.random.split(jax.random.wrap_key_data(seed, impl=_KIND))
    filled = per_epoch * size - rows
    if per_epoch == 1:
        order = jnp.broadcast_to(jnp.arange(rows, dtype=jnp.int32), (local.epochs, rows))
        counts = jnp.broadcast_to(is_real, order.shape)
    else:
        bits = jax.random.bits(order_key, (local.epochs, rows), jnp.uint32)
        order = jax.vmap(lambda drawn: _shuffle(drawn, is_real))(bits)
        is_first = jnp.arange(rows) < jnp.sum(is_real, dtype=jnp.int32)
        counts = jnp.broadcast_to(is_first, order.shape)
    steps = local.epochs * per_epoch
    order, counts = (jnp.pad(each, ((0, 0), (0, filled))).reshape(steps, size) for each in (order, counts))
    return _Schedule(order, counts, jax.random.split(step_key, steps))


def _shuffle(bits: jax.Array, is_real: jax.Array) -> jax.Array:
    places = jnp.arange(len(bits), dtype=jnp.int32)
    return jax.lax.sort((~is_real, bits, places), num_keys=2)[2]


def as_unit_loss(loss: AnyLoss, local: LocalTraining, tamper: Tamper | None = None) -> UnitLoss:
    """A loss of all of a client's rows whose gradient is minus the client's update, as computed.

    Args:
        tamper: what a client sends instead of its update. It is clipped like any other.
    """

    def of_unit(params: ArrayTree, rows: Any, is_real: jax.Array, seed: jax.Array) -> jax.Array:
        fixed = jax.lax.stop_gradient(params)
        delta, seen = client_update(loss, local, fixed, rows, is_real, seed)
        if tamper is not None:
            delta = tamper(delta, fixed, rows)
        return _loss_with_update(params, seen.loss, delta)

    return UnitLoss(of_unit, loss, of_size=clients_at_once)


@jax.custom_vjp
def _loss_with_update(params: ArrayTree, loss: jax.Array, delta: Any) -> jax.Array:
    """The loss, with minus the update as its gradient."""
    return loss


def _forwards(params: ArrayTree, loss: jax.Array, delta: Any) -> tuple[jax.Array, Any]:
    return loss, delta


def _backwards(delta: Any, slope: jax.Array) -> tuple[Any, Any, Any]:
    update = jax.tree.map(lambda change: -slope.astype(change.dtype) * change, delta)
    return update, jnp.zeros_like(slope), jax.tree.map(jnp.zeros_like, delta)


_loss_with_update.defvjp(_forwards, _backwards)


def clients_at_once(numbers: int) -> int:
    """How many clients train side by side: as many as have room for their parameters near a processor.

    More would wait for memory, and all of a chunk take as many steps as the largest client among them.

    Example:
        >>> clients_at_once(100_000), clients_at_once(7850), clients_at_once(10**9)
        (10, 133, 1)
    """
    return min(max(_NEAR // (4 * numbers), 1), _MOST_AT_ONCE)


def trust_in_server(sampler: Sampler) -> tuple[str, ...]:
    """What a server is trusted with, whose rounds have the clients that this sampler draws."""
    is_public = isinstance(
        sampler, FullBatch | Shuffled | Cyclic | Limited
    )  # nothing is gained by who is in a round
    return (TRUSTED_SERVER,) if is_public else (TRUSTED_SERVER, SECRET_COINS)
