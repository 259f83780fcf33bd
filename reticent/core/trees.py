"""Arithmetic on trees of arrays: parameters, gradients and noise are all such trees."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


def add(left: Tree, right: Tree) -> Tree:
    return jax.tree.map(jnp.add, left, right)


def subtract(left: Tree, right: Tree) -> Tree:
    return jax.tree.map(jnp.subtract, left, right)


def scale(tree: Tree, factor: jax.typing.ArrayLike) -> Tree:
    return jax.tree.map(lambda leaf: leaf * jnp.asarray(factor, leaf.dtype), tree)


def zeros_like(tree: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, tree)


def dot(left: Tree, right: Tree) -> jax.Array:
    """The inner product over all leaves, accumulated in float32."""
    products = jax.tree.map(lambda a, b: jnp.vdot(_wide(a), _wide(b)), left, right)
    return jnp.sum(jnp.stack([jnp.float32(0), *jax.tree.leaves(products)]))


def norm(tree: object) -> jax.Array:
    """The Euclidean norm over all leaves.

    Divides by the largest entry before it squares, so that entries of 1e30 do not overflow and
    entries of 1e-30 do not vanish: a norm that under-reports would let an example through unclipped.
    NaN and infinity give NaN and infinity.
    """
    leaves = [_wide(leaf) for leaf in jax.tree.leaves(tree) if leaf.size]
    if not leaves:
        return jnp.float32(0)
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in leaves]))
    unit = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1.0)
    return unit * jnp.sqrt(sum(jnp.sum(jnp.square(leaf / unit)) for leaf in leaves))


def is_finite(tree: object) -> jax.Array:
    """True when no leaf holds a NaN or an infinity."""
    leaves = jax.tree.leaves(tree)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves])) if leaves else jnp.bool_(True)


def size(tree: object) -> int:
    """How many numbers the tree holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def _wide(leaf: jax.Array) -> jax.Array:
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
