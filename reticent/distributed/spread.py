"""Many models at once, divided over all devices of all processes.

Models that are trained side by side do not know each other, so nothing is sent while they are trained: each
device gets some of the models, and only what comes out is collected.

    spread = Spread()                                   # every device there is
    train = spread.over(jax.vmap(recipe, in_axes=(0, 0, None)), shared=1)
    params = train(keys, masks, x)                      # NumPy, one row per model, on every process

On one device this is `jax.jit` of the same function. Where there are several processes, all of them run the
same program, with the same arguments, up to the same point; whatever depends on a clock or on a disk they
agree about with `collectives.gather_arrays` and `consensus.by_first`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree

_MODELS = PartitionSpec("models")  # the rows are divided
_ALL = PartitionSpec()  # every device has everything

Many = Callable[..., Any]


class Spread:
    """Devices that share the work on many models.

    Args:
        devices: those of all processes unless given; one that was chosen by `jax.default_device` alone.

    Guarantee:
        A model is the same on any number of devices, up to rounding, and on one device it is computed by the
        same program as without this class.
    """

    def __init__(self, devices: Sequence[Any] | None = None) -> None:
        chosen = list(_usual_devices() if devices is None else devices)
        if not chosen:
            raise InvalidArgument("No device was given.", remedy="Name one of jax.devices().")
        self.count = len(chosen)
        is_plain = devices is None and self.count == 1
        self._mesh = None if is_plain else Mesh(np.array(chosen), ("models",))

    def room_for(self, models: int) -> int:
        """The number of models, rounded up so that every device gets equally many."""
        return -(-models // self.count) * self.count

    def over(self, many: Many, *, shared: int = 0) -> Many:
        """Divides the models of `many` over the devices; the result is NumPy.

        Args:
            many: takes trees of arrays with one row per model, and answers with one. Any number of rows will
                do: some models are computed twice where the devices would not have equally many.
            shared: how many of its arguments, the last ones, are the same for all models.
        """
        program = jax.jit(self.divide(many, shared=shared))

        def compute(*arguments: Any) -> Any:
            own, common = arguments[: len(arguments) - shared], arguments[len(arguments) - shared :]
            models = jax.tree.leaves(own)[0].shape[0]
            if self.room_for(models) > models:
                places = np.minimum(np.arange(self.room_for(models)), models - 1)
                own = jax.tree.map(lambda leaf: leaf[places], own)
            found = self.gather(program(*self.place(own), *self.replicate(common)))
            return jax.tree.map(lambda leaf: leaf[:models], found)

        return compute

    # The parts of it, to compile ahead of time

    def divide(self, many: Many, *, shared: int = 0) -> Many:
        """`many` for placed and replicated arrays; each device computes its own models."""
        mesh = self._mesh
        if mesh is None:
            return many

        def on_each_device(*arguments: Any) -> Any:
            kinds = (_MODELS,) * (len(arguments) - shared) + (_ALL,) * shared
            alone = jax.shard_map(many, mesh=mesh, in_specs=kinds, out_specs=_MODELS, check_vma=False)
            return alone(*arguments)

        return on_each_device

    def place(self, tree: ArrayTree) -> Any:
        """Places rows on the devices that compute their models; there must be `room_for` many.

        Raises:
            InvalidArgument: keys of the `rbg` kind, from which vectorised models all draw the same.
        """
        for leaf in jax.tree.leaves(tree):
            if _is_key(leaf) and "rbg" in str(jax.random.key_impl(leaf)):
                raise InvalidArgument(
                    "Keys of the rbg kind give every vectorised model the same noise.",
                    remedy='Make them with jax.random.key(seed, impl="threefry2x32").',
                )
        return jax.tree.map(lambda leaf: self._put(leaf, _MODELS), tree)

    def replicate(self, tree: ArrayTree) -> Any:
        """Copies the same arrays to every device, unless they are there already."""
        return jax.tree.map(lambda leaf: self._put(leaf, _ALL), tree)

    def gather(self, tree: ArrayTree) -> Any:
        """Collects the results as NumPy on every process."""
        return jax.tree.map(_gather_array, tree)

    def _put(self, array: Any, spec: PartitionSpec) -> Any:
        if self._mesh is None:
            return array
        sharding = NamedSharding(self._mesh, spec)
        if isinstance(array, jax.Array) and array.sharding == sharding:
            return array
        if _is_key(array):
            words = self._put(jax.random.key_data(array), spec)
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(array))
        host = np.asarray(array)
        host = host.astype(jax.dtypes.canonicalize_dtype(host.dtype), copy=False)
        return jax.make_array_from_callback(host.shape, sharding, lambda place: host[place])


def _usual_devices() -> Sequence[Any]:
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]  # an option: made at run time
    if chosen is None:
        return jax.devices()
    return jax.devices(chosen) if isinstance(chosen, str) else [chosen]


def _is_key(array: Any) -> bool:
    return isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _gather_array(array: jax.Array) -> np.ndarray:
    if array.is_fully_addressable:
        return np.asarray(array)
    from jax.experimental.multihost_utils import process_allgather

    return process_allgather(array, tiled=True)
