"""What one unit puts into a batch: a record, several random views of it, or all the rows of a user.

Whatever it is, it has one loss, the mean over its rows, and so one gradient, clipped once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.data.augmentation import Augment
from reticent.data.dataset import Dataset
from reticent.training.gradients import LossFunction
from reticent.training.loss_keys import AnyLoss, Keyed, of_keyed_example, on_held_out_row
from reticent.training.plan import Plan


class Members(NamedTuple):
    """The rows of each user, filled up with the user's own first one, and which of them count."""

    rows: jax.Array  # (users, rows a user)
    is_real: jax.Array


class DeviceRows(NamedTuple):
    """The data on the device; without members, every row is a unit of its own.

    Args:
        is_taken: which places have a unit; None where all have.
    """

    rows: dict[str, jax.Array]
    members: Members | None = None
    is_taken: jax.Array | None = None


class Several(NamedTuple):
    """The rows of one unit, and which of them count."""

    rows: Any
    is_real: jax.Array


@dataclass(frozen=True)
class UnitLoss:
    """A loss of all the rows of a unit at once, whose gradient is what the unit contributes.

    Args:
        of_unit: of the parameters, the rows, which of them count, and two words of random bits of its own.
        of_row: the loss of one row, which held-out rows are scored with.
        of_size: of the number of parameters, how many units are best worked on at once.
    """

    of_unit: Callable[[Any, Any, jax.Array, jax.Array], jax.Array]
    of_row: AnyLoss
    of_size: Callable[[int], int] | None = None

    def __call__(self, params: ArrayTree, example: ArrayTree) -> jax.Array:
        return on_held_out_row(self.of_row)(params, example, jnp.int32(0))


class Seeds(NamedTuple):
    """Random bits for every place of a batch, two words for each row and view."""

    views: jax.Array  # (places, rows * views, 2) uint32; no columns where nothing is augmented
    loss: jax.Array  # the same for losses that take a key


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """How the rows of one unit become one example of the loss.

    Args:
        rows: the most rows a unit has.
        augment: changes one row at random; its key is fresh for every row, view and step.
        views: how many changed copies of a row are averaged before clipping.
        takes_key: whether the loss draws at random; its key is fresh for every row, view and step.
        takes_unit: whether the loss is a `UnitLoss`; it has one key for all rows.

    Guarantee:
        A unit's example depends on its own rows and on randomness of its own, on nobody else's rows.

    Reference:
        De, Berrada, Hayes, Smith and Balle (2022), section 3.2 (views), arXiv:2204.13650v2.
    """

    rows: int = 1
    augment: Augment | None = None
    views: int = 1
    takes_key: bool = False
    takes_unit: bool = False

    def __post_init__(self) -> None:
        checks.count(rows=self.rows, views=self.views)
        if self.augment is None and self.views > 1:
            raise InvalidArgument(
                f"{self.views} views of an example were asked for, and nothing that would make them differ.",
                remedy="Pass augment, a function of a key and one example.",
            )

    @property
    def is_one_row(self) -> bool:
        return self.rows == 1 and self.augment is None and not self.takes_unit

    def loss(self, loss: AnyLoss) -> LossFunction:
        """The loss of a unit as `fetch` returns it."""
        if isinstance(loss, UnitLoss):
            of_unit = loss.of_unit
            return lambda params, unit: of_unit(params, unit.rows.row, unit.is_real, unit.rows.seed[0])
        of_row = of_keyed_example(loss) if self.takes_key else loss
        if self.is_one_row:
            return of_row

        def mean(params: ArrayTree, unit: Several) -> jax.Array:
            losses = jax.vmap(of_row, in_axes=(None, 0))(params, unit.rows)
            counted = jnp.where(unit.is_real, losses, 0)
            return jnp.sum(counted) / jnp.sum(unit.is_real).astype(losses.dtype)

        return mean

    def seeds(self, key: jax.Array, places: int, loss_key: jax.Array | None = None) -> Seeds:
        """Random bits for every place of a batch: what its views are made with, and what its loss draws."""
        if self.takes_key and loss_key is None:
            raise AssertionError("a loss that takes a key was given none")
        count = self.rows * self.views
        views = jax.random.bits(key, (places, 0 if self.augment is None else count, 2), jnp.uint32)
        if loss_key is None or not self.takes_key:
            return Seeds(views, jnp.zeros((places, 0, 2), jnp.uint32))
        draws = 1 if self.takes_unit else count
        return Seeds(views, jax.random.bits(loss_key, (places, draws, 2), jnp.uint32))

    def fetch(self, source: DeviceRows, places: jax.Array, seeds: Seeds) -> Any:
        """The units at these places, as examples of `loss`."""
        if self.is_one_row:
            rows = places if source.members is None else source.members.rows[places, 0]
            found = jax.tree.map(lambda leaf: leaf[rows], source.rows)
            return Keyed(found, seeds.loss[:, 0]) if self.takes_key else found
        if source.members is None:
            rows, is_real = places[:, None], jnp.ones((len(places), 1), bool)
        else:
            rows, is_real = source.members.rows[places], source.members.is_real[places]
        rows, is_real = (jnp.repeat(array, self.views, axis=1) for array in (rows, is_real))
        found = jax.tree.map(lambda leaf: leaf[rows], source.rows)
        if self.augment is not None:
            # Threefry keys: those of the `rbg` kind give all rows the same bits under `vmap`.
            keys = jax.random.wrap_key_data(seeds.views, impl="threefry2x32")
            found = jax.vmap(jax.vmap(self.augment))(keys, found)
        return Several(Keyed(found, seeds.loss) if self.takes_key else found, is_real)


def require_unit(dataset: Dataset, plan: Plan) -> None:
    """
    Raises:
        DataError: the plan protects users and the data name none, or the other way round.
    """
    if dataset.unit != plan.unit:
        raise DataError(
            f"The plan protects a {plan.unit}, and dataset '{dataset.name}' "
            f"{'names no users' if dataset.users is None else 'names the user of each row'}.",
            remedy="Give the dataset its users and the plan unit='user' with rows_per_user, or neither.",
        )


def first_unit(dataset: Dataset, plan: Plan) -> DeviceRows:
    """A source with the first row alone, which stands for the shape of all others."""
    rows = {key: jnp.asarray(np.asarray(dataset[key][:1])) for key in dataset}
    if dataset.users is None or plan.rows_per_user is None:
        return DeviceRows(rows)
    return DeviceRows(
        rows, Members(*(jnp.zeros((1, plan.rows_per_user), kind) for kind in (jnp.int32, bool)))
    )


def user_table(users: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `most` rows of each user, and which places hold one; the rest repeat the user's first row.

    >>> members, is_member = user_table(np.array(["ann", "bob", "ann", "ann"]), 2)
    >>> members.tolist(), is_member.tolist()
    ([[0, 2], [1, 1]], [[True, True], [True, False]])
    """
    users = np.asarray(users)
    require_named(users)
    _, owner = np.unique(users, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner)
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = np.arange(min(most, int(counts.max())))
    is_member = places < counts[:, None]
    members = order[firsts[:, None] + np.where(is_member, places, 0)]
    filled = most - members.shape[1]  # one shape, whatever the largest user has
    members = np.concatenate([members, np.repeat(members[:, :1], filled, axis=1)], axis=1)
    return members.astype(np.int32), np.pad(is_member, ((0, 0), (0, filled)))


def require_named(users: np.ndarray) -> None:
    """
    Raises:
        DataError: a row belongs to nobody, or users are named in several ways.
    """
    if not len(users):
        raise DataError("There is no row, and so no user.", remedy="Give each process rows of at least one.")
    if (is_missing := _is_missing(users)).any():
        raise DataError(
            f"Row {int(np.flatnonzero(is_missing)[0])} belongs to no user.",
            remedy="Give every row its user, or leave such rows out.",
        )
    if users.dtype.kind == "O" and len(kinds := {type(user).__name__ for user in users.tolist()}) > 1:
        raise DataError(
            f"Users are named in several ways, and one might count as two: {', '.join(sorted(kinds))}.",
            remedy="Name all of them by text, or all by whole numbers.",
        )


def _is_missing(users: np.ndarray) -> np.ndarray:
    if users.dtype.kind == "O":
        return np.array([user is None or user != user for user in users])  # NaN is not itself
    if users.dtype.kind in "mM":
        return np.isnat(users)
    return np.isnan(users) if users.dtype.kind == "f" else np.zeros(len(users), bool)
