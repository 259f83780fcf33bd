"""Where a run is computed: on one device, or on the devices of a mesh, each with some of the records.

A batch is drawn by every device, the same one from the same key; each works on those of its rows that it
holds. So who is in a batch does not depend on the number of devices, and neither does the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from reticent.core.errors import DataError, InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset
from reticent.data.sampling import Batch
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all
from reticent.training.contributions import DeviceRows, Members, require_unit, user_table
from reticent.training.devices.exchange import ALONE, DividedExchange, Exchange, Replicated
from reticent.training.places import Places
from reticent.training.plan import Plan
from reticent.training.step import Remembering


def chosen_mesh(mesh: Mesh | None, batch_size: int) -> Mesh | None:
    """The mesh that was asked for, or all devices; None where one device works alone.

    Raises:
        InvalidArgument: it leaves out a process, or has more devices than a batch has records.
    """
    if mesh is None:
        devices = jax.devices()
        if collectives.count() == 1:
            devices = devices[:batch_size]
        mesh = Mesh(np.array(devices), ("records",))
    present = {device.process_index for device in mesh.devices.flat}
    if missing := set(range(collectives.count())) - present:
        raise InvalidArgument(
            f"The mesh has no device of process {min(missing)}, which would wait for ever.",
            remedy="Make it of jax.devices(), which are those of all processes.",
        )
    if mesh.size > batch_size:
        raise InvalidArgument(
            f"A mesh of {mesh.size} devices is too large for batches of {batch_size}: some would be idle.",
            remedy=f"Take at most {batch_size} devices, or a larger batch_size.",
        )
    return None if mesh.size == 1 and collectives.count() == 1 else mesh


class Range(NamedTuple):
    """The places that a device holds, counted over all processes."""

    low: int
    high: int


class Layout:
    """How parameters and records lie on the devices, and how a function of both runs there.

    Args:
        mesh: None for one device alone.
        is_divided: keep only a part of the parameters, the optimizer's state and the noise on each device.
    """

    def __init__(self, mesh: Mesh | None, params: ArrayTree, *, is_divided: bool = False) -> None:
        self.mesh = mesh
        self.devices = 1 if mesh is None else mesh.size
        self._axes = () if mesh is None else tuple(mesh.axis_names)
        self._divides = is_divided and mesh is not None
        self.exchange = self._exchange(params)

    def _exchange(self, params: ArrayTree) -> Exchange:
        if self.mesh is None:
            return ALONE
        if not self._divides:
            return Replicated(self._axes, self.devices)
        leaves = jax.tree.leaves(params)
        sizes, is_cut = [leaf.size for leaf in leaves], [self._is_cut(leaf) for leaf in leaves]
        return DividedExchange(self._axes, self.devices, tuple(sizes), tuple(is_cut))

    def _is_cut(self, leaf: Any) -> bool:
        return self._divides and np.ndim(leaf) > 0 and np.shape(leaf)[0] % self.devices == 0

    def _spec(self, leaf: Any) -> PartitionSpec:
        return PartitionSpec(self._axes) if self._is_cut(leaf) else PartitionSpec()

    def _specs(self, state: ArrayTree) -> Any:
        """How each leaf of a state is cut: what is kept of noise as its parameter is."""

        def kept(leaf: Any) -> PartitionSpec:
            is_cut = np.ndim(leaf) > 0 and self._is_cut(leaf[0])
            return PartitionSpec(None, self._axes) if is_cut else PartitionSpec()

        if not isinstance(state, Remembering):
            return jax.tree.map(self._spec, state)
        own, memory = state
        kept_specs = jax.tree.map(kept, memory.kept)
        return Remembering(
            jax.tree.map(self._spec, own), memory._replace(begun=PartitionSpec(), kept=kept_specs)
        )

    @property
    def is_spread_out(self) -> bool:
        """Whether no process has all of the parameters."""
        return self._divides and collectives.count() > 1

    @property
    def local(self) -> list[Any]:
        """The devices of this process, in the order of the mesh."""
        assert self.mesh is not None
        return [device for device in self.mesh.devices.flat if device.process_index == collectives.number()]

    def compiled(self, function: Callable[..., Any], state: ArrayTree) -> Callable[..., Any]:
        """`function(state, held, stop, roots)` on every device, each with what it holds."""
        if self.mesh is None:
            return jax.jit(function)
        specs = self._specs(state)
        whole, held = PartitionSpec(), PartitionSpec(self._axes)
        return jax.jit(
            jax.shard_map(
                function,
                mesh=self.mesh,
                in_specs=(specs, held, whole, whole),
                out_specs=(specs, whole),
                check_vma=False,
            )
        )

    def placed(self, state: ArrayTree) -> Any:
        """The state on the devices; every process has the same one."""
        if self.mesh is None:
            return state
        mesh = self.mesh

        def one(leaf: Any, spec: PartitionSpec) -> jax.Array:
            host = np.asarray(leaf)
            return jax.make_array_from_callback(
                host.shape, NamedSharding(mesh, spec), lambda index: host[index]
            )

        return jax.tree.map(one, state, self._specs(state))

    def fetched(self, tree: ArrayTree) -> Any:
        """A tree as arrays of one device, or as it is where it may be too large for one."""
        if self.mesh is None or self._divides:
            return tree
        return jax.tree.map(jnp.asarray, collectives.copy_to_host(tree))

    def copied(self, tree: ArrayTree) -> Any:
        """A tree that this process alone may compute with."""
        return tree if self.mesh is None else collectives.copy_to_host(tree)

    def in_pieces(self, pieces: list[Any]) -> Any:
        """One tree of arrays over all devices, from a tree of NumPy arrays for each of this process's own."""
        sharding = NamedSharding(self.mesh, PartitionSpec(self._axes))  # type: ignore[arg-type]

        def joined(*leaves: np.ndarray) -> jax.Array:
            shape = (self.devices * leaves[0].shape[0], *leaves[0].shape[1:])
            on_devices = [
                jax.device_put(leaf, device) for leaf, device in zip(leaves, self.local, strict=True)
            ]
            return jax.make_array_from_single_device_arrays(shape, sharding, on_devices)

        return jax.tree.map(joined, *pieces)

    def ranges(self, places: int) -> list[Range]:
        """Which places each device of the mesh holds, given how many this process has."""
        assert self.mesh is not None
        counts = collectives.gather_arrays(np.int64(places))
        starts = np.concatenate([[0], np.cumsum(counts)])
        owners = [device.process_index for device in self.mesh.devices.flat]
        found = []
        for at, owner in enumerate(owners):
            rank, of = owners[:at].count(owner), owners.count(owner)
            cuts = [starts[owner] + counts[owner] * part // of for part in (rank, rank + 1)]
            found.append(Range(*map(int, cuts)))
        return found

    def own_ranges(self, places: int) -> list[Range]:
        """Which places each device of this process holds, given how many this process has."""
        assert self.mesh is not None
        each = zip(self.ranges(places), self.mesh.devices.flat, strict=True)
        return [part for part, device in each if device.process_index == collectives.number()]


class Held(NamedTuple):
    """What a device holds: some of the places, and which ones."""

    source: DeviceRows
    range: jax.Array  # (1, 2) int32 on each device


class Brought(NamedTuple):
    """What this process brings: the rows of each unit, and how many units all processes bring."""

    members: tuple[np.ndarray, np.ndarray] | None  # of users: see `user_table`
    own: int
    units: int


def brought(layout: Layout, dataset: Dataset, plan: Plan) -> Brought:
    """
    Raises:
        DataError: the plan protects another unit than the data have, or users are not named well.
    """
    require_unit(dataset, plan)
    own, members = len(dataset), None
    if dataset.users is not None and plan.rows_per_user is not None:
        users, rows_per_user = dataset.users, plan.rows_per_user
        members = by_all(lambda: user_table(users, rows_per_user))
        _check_users_apart(dataset)
        own = len(members[0])
    everyones = [own] if layout.mesh is None else collectives.gather_arrays(np.int64(own))
    return Brought(members, own, int(np.sum(everyones)))


def held_source(layout: Layout, dataset: Dataset, given: Brought, places: Places) -> DeviceRows | Held:
    """The data on the device or devices, each unit at its place."""
    if layout.mesh is None:
        whole = _piece(dataset, given.members, places, Range(0, places.total), places.total)
        return jax.tree.map(jnp.asarray, whole)
    everyones, own = layout.ranges(places.total), layout.own_ranges(places.total)
    largest = max(1, *(part.high - part.low for part in everyones))
    start = own[0].low
    pieces = [
        Held(
            _piece(dataset, given.members, places, Range(part.low - start, part.high - start), largest),
            np.array([part], np.int32),  # type: ignore[arg-type]  # on the device a moment later
        )
        for part in own
    ]
    return layout.in_pieces(pieces)


def _piece(
    dataset: Dataset,
    members: tuple[np.ndarray, np.ndarray] | None,
    places: Places,
    part: Range,
    size: int,
) -> Any:
    """The rows of the units in some places, filled up with zeros to `size` places.

    So shapes say how many places there are, which is public, and not how many units.
    """
    is_inside = (places.of_units >= part.low) & (places.of_units < part.high)
    units = np.flatnonzero(is_inside)
    here = Places(size, places.of_units[is_inside] - part.low)
    if members is None:
        rows: dict[str, Any] = {key: here.lay(_taken(dataset[key], units)) for key in dataset}
        return DeviceRows(rows, None, here.is_taken())  # type: ignore[arg-type]
    table, is_member = members[0][units], members[1][units]
    a_unit = table.shape[1]
    rows = {}
    for key in dataset:
        found = _taken(dataset[key], table.ravel())
        by_unit = found.reshape(len(units), a_unit, *found.shape[1:])
        rows[key] = here.lay(by_unit).reshape(size * a_unit, *found.shape[1:])
    numbers = np.arange(size * a_unit, dtype=np.int32).reshape(size, -1)
    own = Members(numbers, here.lay(is_member))  # type: ignore[arg-type]
    return DeviceRows(rows, own, here.is_taken())  # type: ignore[arg-type]


def _taken(rows: Any, units: np.ndarray) -> np.ndarray:
    """Some of the rows; all of them without a copy."""
    is_all = len(units) == len(rows) and bool(np.all(units == np.arange(len(units))))
    return np.asarray(rows) if is_all else np.asarray(rows)[units]


def _check_users_apart(dataset: Dataset) -> None:
    """
    Raises:
        DataError: on every process. Two of them have rows of one user, and each would let that user count
            once; or they name users in different ways, and nobody can tell.
    """
    import hashlib

    if collectives.count() == 1:
        return
    kind, names = by_all(lambda: user_names(np.asarray(dataset.users)))
    own = [hashlib.blake2b(name, digest_size=8).hexdigest() for name in sorted(names)]
    everyones = collectives.gather_json((kind, own))
    first_kind, seen = everyones[0][0], set[str]()
    for process, (their_kind, theirs) in enumerate(everyones):
        if their_kind != first_kind:
            raise DataError(
                f"Process {process} names users by {their_kind}, and process 0 by {first_kind}: one user may "
                "have rows in both, and count twice.",
                remedy="Name users in one way everywhere, for example by whole numbers.",
            )
        if seen & set(theirs):
            raise DataError(
                f"Process {process} has rows of a user whom an earlier process has too.",
                remedy="Give all rows of a user to one process.",
            )
        seen |= set(theirs)


_NAMED_BY = {"b": "truth values", "S": "bytes", "U": "text", "T": "text"}
_NAMED_BY |= {"i": "whole numbers", "u": "whole numbers"}


def user_names(users: np.ndarray) -> tuple[str, set[bytes]]:
    """What users are named by, and the name of each: among users of one kind, equal ones have equal names.

    Text is taken as it stands, spaces and all, as it is within one process.

    >>> user_names(np.array([7, 8, 7], np.uint8)) == user_names(np.array([8, 7], object))
    True

    Raises:
        DataError: users of several kinds, or of one whose names may differ where the users do not.
    """
    kind = users.dtype.kind
    if kind == "O":
        kinds = {_named_by(user) for user in users.flat}
    else:
        kinds = {_NAMED_BY.get(kind, users.dtype.name)}
    if kind in "cV" or len(kinds) > 1 or (kind == "O" and not kinds <= {*_NAMED_BY.values()}):
        raise DataError(
            f"Users are named by {' and '.join(sorted(kinds))}, which processes cannot compare for certain.",
            remedy="Name all of them by whole numbers, or all by text.",
        )
    found = np.unique(users + 0 if kind == "f" else users)  # 0 and -0 are one user, and written differently
    return "".join(kinds), {_name(user) for user in found}


def _named_by(user: Any) -> str:
    kinds = ((bool | np.bool_, "b"), (int | np.integer, "i"), (str, "U"), (bytes, "S"))
    code = next((code for types, code in kinds if isinstance(user, types)), None)
    return type(user).__name__ if code is None else _NAMED_BY[code]


def _name(user: Any) -> bytes:
    if isinstance(user, bytes):
        return user
    # By their values: a subclass may write itself in words of its own.
    if isinstance(user, int | np.integer | np.bool_):
        user = str(int(user))
    return (user if isinstance(user, str) else str(user)).encode(errors="surrogatepass")


def own_part(batch: Batch, held: jax.Array) -> Batch:
    """The places of a batch that this device holds, counted from its first."""
    low, high = held[0, 0], held[0, 1]
    is_own = batch.is_real & (batch.indices >= low) & (batch.indices < high)
    places = jnp.flatnonzero(is_own, size=is_own.shape[0], fill_value=0).astype(jnp.int32)
    count = jnp.sum(is_own, dtype=jnp.int32)
    is_real = jnp.arange(is_own.shape[0], dtype=jnp.int32) < count
    return Batch(jnp.where(is_real, batch.indices[places] - low, 0), is_real, places)


def without_empty(batch: Batch, is_taken: jax.Array | None) -> Batch:
    """A batch of places in which those without a unit do not count, and keep their slots all the same."""
    if is_taken is None:
        return batch
    return batch._replace(is_real=batch.is_real & is_taken[batch.indices], end=batch.drawn)
