"""What the devices that take a step together tell each other: one sum of gradients, and nothing else.

Each holds some of the records and adds up what those put into the batch. The sums meet, and noise is added
once, after that: every device draws the same noise from the same key, each for the parameters it keeps.
Parameters are kept whole by every device, or divided over all: then a device draws the noise of its own
part alone, and no device ever holds all of it.

    replicated    parameters P bytes a device; a step moves one gradient (an all-reduce)
    divided       P / devices for parameters, optimizer and noise; the same bytes, as a reduce-scatter
                  of the gradient and an all-gather of the parameters
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.core.whole_normals import DrawPart

Tree = TypeVar("Tree")

_PLACES = 2**32  # where a number of divided parameters stands among all of them is said in 32 bits


class Exchange(Protocol):
    """How a step's sums and parameters come together."""

    def whole(self, params: ArrayTree) -> Any:
        """All parameters, from those that this device keeps."""
        ...

    def total(self, sums: ArrayTree, counts: Tree) -> tuple[Any, Tree]:
        """The sum over all devices, of the parameters that this device keeps, and of a few numbers.

        Sums are whole numbers, so that it does not matter who adds them up in which order. Counts are exact
        up to 2^24.
        """
        ...

    def parts(self, total: ArrayTree) -> Sequence[DrawPart] | None:
        """Which part of the noise each leaf gets; None where all of it is drawn."""
        ...

    def own_key(self, key: jax.Array) -> jax.Array:
        """A key for coins that each device throws for itself."""
        ...

    @property
    def devices(self) -> int: ...


class _Alone:
    """One device, which has nobody to tell."""

    def whole(self, params: ArrayTree) -> Any:
        return params

    def total(self, sums: ArrayTree, counts: Tree) -> tuple[Any, Tree]:
        return sums, counts

    def parts(self, total: ArrayTree) -> None:
        return None

    def own_key(self, key: jax.Array) -> jax.Array:
        return key

    @property
    def devices(self) -> int:
        return 1


ALONE = _Alone()


@dataclass(frozen=True)
class Replicated:
    """Every device keeps all parameters.

    Args:
        axes: the names of the mesh's axes; records are divided over all of them.
        devices: how many there are.
    """

    axes: tuple[str, ...]
    devices: int

    def whole(self, params: ArrayTree) -> Any:
        return params

    def total(self, sums: ArrayTree, counts: Tree) -> tuple[Any, Tree]:
        return _sum(sums, self.axes), _like(counts, _sum(_as_floats(counts), self.axes))

    def parts(self, total: ArrayTree) -> None:
        return None

    def own_key(self, key: jax.Array) -> jax.Array:
        return _own_key(key, self.axes)


@dataclass(frozen=True)
class DividedExchange:
    """A device keeps its part of every leaf whose first axis the devices divide, and all of the others.

    Args:
        sizes: how many numbers each whole leaf has, in the order of the tree.
        is_divided: which leaves are.

    Raises:
        InvalidArgument: there are more numbers than 32 bits count: two of them would get the same noise.
    """

    axes: tuple[str, ...]
    devices: int
    sizes: tuple[int, ...]
    is_divided: tuple[bool, ...]

    def __post_init__(self) -> None:
        if (count := sum(self.sizes)) >= _PLACES:
            raise InvalidArgument(
                f"The parameters are {count} numbers, the largest leaf {max(self.sizes)}, and noise for "
                f"divided ones has places for fewer than {_PLACES}.",
                remedy="Leave out divide_params, or train fewer parameters.",
            )

    def whole(self, params: ArrayTree) -> Any:
        gathered = [
            jax.lax.all_gather(leaf, self.axes, tiled=True) if is_cut else leaf
            for leaf, is_cut in self._leaves(params)
        ]
        return jax.tree.unflatten(jax.tree.structure(params), gathered)

    def total(self, sums: ArrayTree, counts: Tree) -> tuple[Any, Tree]:
        whole = iter(_sum([leaf for leaf, is_cut in self._leaves(sums) if not is_cut], self.axes))
        own = [
            jax.lax.psum_scatter(leaf, self.axes, tiled=True) if is_cut else next(whole)
            for leaf, is_cut in self._leaves(sums)
        ]
        found = _sum(_as_floats(counts), self.axes)
        return jax.tree.unflatten(jax.tree.structure(sums), own), _like(counts, found)

    def parts(self, total: ArrayTree) -> Sequence[DrawPart]:
        *starts, end = np.cumsum([0, *self.sizes]).tolist()
        own = jax.lax.axis_index(self.axes).astype(jnp.uint32)
        return [
            DrawPart(jnp.uint32(start) + (own * jnp.uint32(leaf.size) if is_divided else 0), end)
            for start, leaf, is_divided in zip(starts, jax.tree.leaves(total), self.is_divided, strict=True)
        ]

    def own_key(self, key: jax.Array) -> jax.Array:
        return _own_key(key, self.axes)

    def _leaves(self, tree: ArrayTree) -> list[tuple[jax.Array, bool]]:
        return list(zip(jax.tree.leaves(tree), self.is_divided, strict=True))


def _own_key(key: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    return jax.random.fold_in(key, jax.lax.axis_index(axes))


def _sum(tree: Tree, axes: tuple[str, ...]) -> Tree:
    """The sum over devices, as one message: many small arrays would wait for the network once for each."""
    if not jax.tree.leaves(tree):
        return tree
    flat, as_tree = ravel_pytree(tree)
    return as_tree(jax.lax.psum(flat, axes))


def _as_floats(counts: Any) -> list[jax.Array]:
    return [jnp.asarray(count, jnp.float32) for count in jax.tree.leaves(counts)]


def _like(counts: Tree, found: list[jax.Array]) -> Tree:
    leaves, structure = jax.tree.flatten(counts)
    return jax.tree.unflatten(
        structure, [new.astype(old.dtype) for old, new in zip(leaves, found, strict=True)]
    )
