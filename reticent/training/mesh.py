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
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.dataset import Dataset
from reticent.data.sampling import Batch
from reticent.distributed import together
from reticent.distributed.agreement import by_all
from reticent.training.contributions import Members, Source, require_unit, source_of, user_table
from reticent.training.exchange import ALONE, Divided, Exchange, Replicated
from reticent.training.plan import Plan
from reticent.training.step import TrainState


def chosen_mesh(mesh: Mesh | None, batch_size: int) -> Mesh | None:
    """The mesh that was asked for, or all devices; None where one device works alone.

    Raises:
        InvalidArgument: it leaves out a process, or has more devices than a batch has records.
    """
    if mesh is None:
        devices = jax.devices()
        if together.count() == 1:
            devices = devices[:batch_size]
        mesh = Mesh(np.array(devices), ("records",))
    present = {device.process_index for device in mesh.devices.flat}
    if missing := set(range(together.count())) - present:
        raise InvalidArgument(
            f"The mesh has no device of process {min(missing)}, which would wait for ever.",
            remedy="Make it of jax.devices(), which are those of all processes.",
        )
    if mesh.size > batch_size:
        raise InvalidArgument(
            f"A mesh of {mesh.size} devices is too large for batches of {batch_size}: some would be idle.",
            remedy=f"Take at most {batch_size} devices, or a larger batch_size.",
        )
    return None if mesh.size == 1 and together.count() == 1 else mesh


class Range(NamedTuple):
    """The units that a device holds, counted over all processes."""

    low: int
    high: int


class Layout:
    """How parameters and records lie on the devices, and how a function of both runs there.

    Args:
        mesh: None for one device alone.
        is_divided: keep only a part of the parameters, the optimizer's state and the noise on each device.
    """

    def __init__(self, mesh: Mesh | None, params: Any, *, is_divided: bool = False) -> None:
        self.mesh = mesh
        self.devices = 1 if mesh is None else mesh.size
        self._axes = () if mesh is None else tuple(mesh.axis_names)
        self._divides = is_divided and mesh is not None
        self.exchange = self._exchange(params)

    def _exchange(self, params: Any) -> Exchange:
        if self.mesh is None:
            return ALONE
        if not self._divides:
            return Replicated(self._axes)
        leaves = jax.tree.leaves(params)
        return Divided(
            self._axes, tuple(leaf.size for leaf in leaves), tuple(self._is_cut(leaf) for leaf in leaves)
        )

    def _is_cut(self, leaf: Any) -> bool:
        return self._divides and np.ndim(leaf) > 0 and np.shape(leaf)[0] % self.devices == 0

    def _spec(self, leaf: Any) -> PartitionSpec:
        return PartitionSpec(self._axes) if self._is_cut(leaf) else PartitionSpec()

    @property
    def is_spread_out(self) -> bool:
        """Whether no process has all of the parameters."""
        return self._divides and together.count() > 1

    @property
    def local(self) -> list[Any]:
        """The devices of this process, in the order of the mesh."""
        assert self.mesh is not None
        return [device for device in self.mesh.devices.flat if device.process_index == together.number()]

    def compiled(self, function: Callable[..., Any], state: TrainState) -> Callable[..., Any]:
        """`function(state, held, stop, roots)` on every device, each with what it holds."""
        if self.mesh is None:
            return jax.jit(function)
        specs = jax.tree.map(self._spec, state)
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

    def placed(self, state: TrainState) -> TrainState:
        """The state on the devices; every process has the same one."""
        if self.mesh is None:
            return state
        mesh = self.mesh

        def one(leaf: Any) -> jax.Array:
            host = np.asarray(leaf)
            sharding = NamedSharding(mesh, self._spec(leaf))
            return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

        return jax.tree.map(one, state)

    def fetched(self, tree: Any) -> Any:
        """A tree as arrays of one device, or as it is where it may be too large for one."""
        if self.mesh is None or self._divides:
            return tree
        return jax.tree.map(jnp.asarray, together.copied(tree))

    def copied(self, tree: Any) -> Any:
        """A tree that this process alone may compute with."""
        return tree if self.mesh is None else together.copied(tree)

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

    def ranges(self, units: int) -> list[Range]:
        """What each device of the mesh holds, given how many units this process brings."""
        assert self.mesh is not None
        counts = together.everyones(np.int64(units))
        starts = np.concatenate([[0], np.cumsum(counts)])
        owners = [device.process_index for device in self.mesh.devices.flat]
        found = []
        for at, owner in enumerate(owners):
            rank, of = owners[:at].count(owner), owners.count(owner)
            cuts = [starts[owner] + counts[owner] * part // of for part in (rank, rank + 1)]
            found.append(Range(*map(int, cuts)))
        return found

    def own_ranges(self, units: int) -> list[Range]:
        """What each device of this process holds, given how many units this process brings."""
        assert self.mesh is not None
        each = zip(self.ranges(units), self.mesh.devices.flat, strict=True)
        return [part for part, device in each if device.process_index == together.number()]


class Held(NamedTuple):
    """What a device holds: some of the units, and which ones."""

    source: Source
    range: jax.Array  # (1, 2) int32 on each device


def held_source(layout: Layout, dataset: Dataset, plan: Plan) -> tuple[Source | Held, int]:
    """The data on the device or devices, and how many units they hold in all."""
    require_unit(dataset, plan)
    if layout.mesh is None:
        return source_of(dataset, plan)
    units, members = len(dataset), None
    if dataset.users is not None and plan.rows_a_user is not None:
        users, rows_a_user = dataset.users, plan.rows_a_user
        members = by_all(lambda: user_table(users, rows_a_user))
        _check_users_apart(dataset)
        units = len(members[0])
    everyones, own = layout.ranges(units), layout.own_ranges(units)
    largest = max(1, *(part.high - part.low for part in everyones))
    start = own[0].low
    pieces = [
        Held(
            _piece(dataset, members, slice(part.low - start, part.high - start), largest),
            np.array([part], np.int32),  # type: ignore[arg-type]  # on the device a moment later
        )
        for part in own
    ]
    return layout.in_pieces(pieces), max(part.high for part in everyones)


def _piece(dataset: Dataset, members: tuple[np.ndarray, np.ndarray] | None, part: slice, largest: int) -> Any:
    """The rows of some units, filled up to as many as any device has."""

    def filled(rows: np.ndarray, to: int) -> np.ndarray:
        return np.concatenate([rows, np.zeros((to - len(rows), *rows.shape[1:]), rows.dtype)])

    if members is None:
        rows: dict[str, Any] = {key: filled(np.asarray(dataset[key][part]), largest) for key in dataset}
        return Source(rows)
    table, is_member = members[0][part], members[1][part]
    rows = {key: filled(dataset[key][table.ravel()], largest * table.shape[1]) for key in dataset}
    places = np.arange(largest * table.shape[1], dtype=np.int32).reshape(largest, -1)
    return Source(rows, Members(places, filled(is_member, largest)))  # type: ignore[arg-type]


def _check_users_apart(dataset: Dataset) -> None:
    """
    Raises:
        DataError: two processes have rows of one user; each would let that user count once.
    """
    import hashlib

    names = {str(user) for user in np.unique(np.asarray(dataset.users))}
    own = [hashlib.blake2b(name.encode(), digest_size=8).hexdigest() for name in sorted(names)]
    if together.count() == 1:
        return
    seen: set[str] = set()
    for process, theirs in enumerate(together.everyones_json(own)):
        if seen & set(theirs):
            raise DataError(
                f"Process {process} has rows of a user whom an earlier process has too.",
                remedy="Give all rows of a user to one process.",
            )
        seen |= set(theirs)


def own_part(batch: Batch, held: jax.Array) -> Batch:
    """The rows of a batch that this device holds, counted from its first."""
    low, high = held[0, 0], held[0, 1]
    is_own = batch.is_real & (batch.indices >= low) & (batch.indices < high)
    places = jnp.flatnonzero(is_own, size=is_own.shape[0], fill_value=0).astype(jnp.int32)
    is_real = jnp.arange(is_own.shape[0]) < jnp.sum(is_own)
    return Batch(jnp.where(is_real, batch.indices[places] - low, 0), is_real, places)


def require_elementwise(optimizer: optax.GradientTransformation) -> None:
    """
    Raises:
        InvalidArgument: an update of one parameter depends on others, so parts cannot be updated apart.
    """
    start = np.linspace(-1, 1, 8, dtype=np.float32)
    gradients = [np.cos(np.arange(8, dtype=np.float32) * number) for number in (1, 2, 3)]

    def after(part: slice) -> np.ndarray:
        params = jnp.asarray(start[part])
        state = optimizer.init(params)
        for gradient in gradients:
            updates, state = optimizer.update(jnp.asarray(gradient[part]), state, params)
            params = optax.apply_updates(params, updates)
        return np.asarray(params)

    apart = np.concatenate([after(slice(0, 4)), after(slice(4, 8))])
    if not np.allclose(apart, after(slice(0, 8)), rtol=1e-6, atol=0):
        raise InvalidArgument(
            "This optimizer looks at all parameters at once, and divided parameters are updated apart.",
            remedy="Take one that treats each number by itself (sgd, momentum, adam), or do not divide.",
        )
