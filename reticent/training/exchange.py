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

from reticent.core.normals import Part

Tree = TypeVar("Tree")


class Exchange(Protocol):
    """How a step's sums and parameters come together."""

    def whole(self, params: Any) -> Any:
        """All parameters, from those that this device keeps."""
        ...

    def total(self, sums: Any) -> Any:
        """The sum over all devices, of the parameters that this device keeps."""
        ...

    def count(self, counts: Tree) -> Tree:
        """The sum over all devices of a few numbers."""
        ...

    def parts(self, total: Any) -> Sequence[Part] | None:
        """Which part of the noise each leaf gets; None where all of it is drawn."""
        ...


class _Alone:
    """One device, which has nobody to tell."""

    def whole(self, params: Any) -> Any:
        return params

    def total(self, sums: Any) -> Any:
        return sums

    def count(self, counts: Tree) -> Tree:
        return counts

    def parts(self, total: Any) -> None:
        return None


ALONE = _Alone()


@dataclass(frozen=True)
class Replicated:
    """Every device keeps all parameters.

    Args:
        axes: the names of the mesh's axes; records are divided over all of them.
    """

    axes: tuple[str, ...]

    def whole(self, params: Any) -> Any:
        return params

    def total(self, sums: Any) -> Any:
        return jax.lax.psum(sums, self.axes)

    def count(self, counts: Tree) -> Tree:
        return jax.lax.psum(counts, self.axes)

    def parts(self, total: Any) -> None:
        return None


@dataclass(frozen=True)
class Divided:
    """A device keeps its part of every leaf whose first axis the devices divide, and all of the others.

    Args:
        sizes: how many numbers each whole leaf has, in the order of the tree.
        is_divided: which leaves are.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    is_divided: tuple[bool, ...]

    def whole(self, params: Any) -> Any:
        return self._each(
            params, lambda leaf: jax.lax.all_gather(leaf, self.axes, tiled=True), lambda leaf: leaf
        )

    def total(self, sums: Any) -> Any:
        return self._each(
            sums,
            lambda leaf: jax.lax.psum_scatter(leaf, self.axes, tiled=True),
            lambda leaf: jax.lax.psum(leaf, self.axes),
        )

    def count(self, counts: Tree) -> Tree:
        return jax.lax.psum(counts, self.axes)

    def parts(self, total: Any) -> Sequence[Part]:
        *starts, end = np.cumsum([0, *self.sizes]).tolist()
        own = jax.lax.axis_index(self.axes)
        return [
            Part(jnp.uint32(start) + (own * leaf.size if is_divided else 0), end)
            for start, leaf, is_divided in zip(starts, jax.tree.leaves(total), self.is_divided, strict=True)
        ]

    def _each(self, tree: Any, divided: Any, kept: Any) -> Any:
        leaves, structure = jax.tree.flatten(tree)
        changed = [
            (divided if is_divided else kept)(leaf)
            for leaf, is_divided in zip(leaves, self.is_divided, strict=True)
        ]
        return jax.tree.unflatten(structure, changed)
