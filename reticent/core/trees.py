"""Arithmetic on trees of arrays: parameters, gradients and noise are all such trees."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

Tree = TypeVar("Tree")
_Leaf = Array | np.ndarray | np.generic | float | jax.ShapeDtypeStruct  # an array, or its shape alone
ArrayTree = PyTree[Shaped[_Leaf, "..."]]

_SMALLEST = 2.0**-126  # the smallest normal float32; its reciprocal is normal too


def add(left: Tree, right: Tree) -> Tree:
    return jax.tree.map(jnp.add, left, right)


def subtract(left: Tree, right: Tree) -> Tree:
    return jax.tree.map(jnp.subtract, left, right)


def scale(tree: Tree, factor: jax.typing.ArrayLike) -> Tree:
    """The tree times a number, multiplied in float32 at least and rounded once, to each leaf's own type.

    A factor rounded to bfloat16 first could be larger than the one that was asked for, and a clipped
    gradient longer than its bound. Leaves of whole numbers become float32.
    """

    def scaled(leaf: jax.Array) -> jax.Array:
        product = _wide(leaf) * factor
        return product.astype(leaf.dtype) if jnp.issubdtype(leaf.dtype, jnp.inexact) else product

    return jax.tree.map(scaled, tree)


def zeros_like(tree: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, tree)


def dot(left: Tree, right: Tree) -> Float[Array, ""]:
    """The inner product over all leaves, accumulated in float32.

    Example:
        >>> float(dot({"w": jnp.array([1.0, 2.0])}, {"w": jnp.array([3.0, 4.0])}))
        11.0
    """
    products = jax.tree.map(lambda a, b: jnp.vdot(_wide(a), _wide(b)), left, right)
    return jnp.sum(jnp.stack([jnp.float32(0), *jax.tree.leaves(products)]))


def norm(tree: object) -> Float[Array, ""]:
    """The Euclidean norm over all leaves.

    Divides by the largest entry before it squares, so that entries of 1e30 do not overflow and
    entries of 1e-30 do not vanish: a norm that under-reports would let an example through unclipped.
    NaN and infinity give NaN and infinity. Entries below 1.2e-38 (the subnormal ones) count as zero, as
    they do wherever XLA computes with them.

    Example:
        >>> float(norm({"w": jnp.array([3.0]), "b": jnp.array([4.0])}))
        5.0
    """
    leaves = [_wide(leaf) for leaf in jax.tree.leaves(tree) if leaf.size]
    if not leaves:
        return jnp.float32(0)
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in leaves]))
    # XLA may divide by multiplying with 1 / unit. Beyond 8.5e37 that is subnormal, hence zero, and so
    # would be the norm of the very longest gradients.
    unit = jnp.clip(largest, _SMALLEST, 1 / _SMALLEST)
    return unit * jnp.sqrt(sum(jnp.sum(jnp.square(leaf / unit)) for leaf in leaves))


def size(tree: object) -> int:
    """How many numbers the tree holds.

    Example:
        >>> size({"w": jnp.zeros((2, 3)), "b": jnp.zeros(3)})
        9
    """
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def _wide(leaf: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
