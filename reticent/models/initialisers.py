"""Initial parameters: the shape and the spread of every array, drawn all at once.

A model says how each of its arrays starts, as data. One draw then makes them all: a draw for each array
would take a quarter of a second each to compile, longer than the first epoch of a small network.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Start(NamedTuple):
    """How one array starts: a constant, or normal with this deviation around it.

    Example:
        >>> Start((3, 2), deviation=0.1).size
        6
    """

    shape: tuple[int, ...]
    deviation: float = 0.0
    mean: float = 0.0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def he(*shape: int) -> Start:
    """Keeps the scale of activations through relu; the last axis counts outputs.

    Example:
        >>> round(he(8, 4).deviation, 3)
        0.5

    Reference:
        He, Zhang, Ren and Sun (2015), Equation 10, arXiv:1502.01852v1.
    """
    return Start(shape, math.sqrt(2 / math.prod(shape[:-1])))


def glorot(*shape: int) -> Start:
    """Keeps the scale through tanh or a linear layer, forwards and backwards.

    Example:
        >>> round(glorot(8, 8).deviation, 3)
        0.354

    Reference:
        Glorot and Bengio (2010), Equation 12.
    """
    inputs, outputs = math.prod(shape[:-1]), math.prod(shape[:-2]) * shape[-1]
    return Start(shape, math.sqrt(2 / (inputs + outputs)))


def zeros(*shape: int) -> Start:
    """An array of zeros.

    Example:
        >>> zeros(3)
        Start(shape=(3,), deviation=0.0, mean=0.0)
    """
    return Start(shape)


def ones(*shape: int) -> Start:
    """An array of ones.

    Example:
        >>> ones(3).mean
        1.0
    """
    return Start(shape, mean=1.0)


def leaves_of(starts: Any) -> list[Start]:
    """The starts in a tree of them, in the order of its leaves.

    Example:
        >>> [start.shape for start in leaves_of({"b": zeros(3), "w": he(2, 3)})]
        [(3,), (2, 3)]
    """
    return jax.tree.leaves(starts, is_leaf=_is_start)


def draw(key: jax.Array, starts: Any) -> Any:
    """A tree of fresh float32 arrays, in the shape of a tree of starts.

    Example:
        >>> draw(jax.random.key(0), {"b": zeros(3), "w": he(2, 3)})["b"].tolist()
        [0.0, 0.0, 0.0]
    """
    leaves, structure = jax.tree.flatten(starts, is_leaf=_is_start)
    return jax.tree.unflatten(structure, _draw(key, tuple(leaves)))


@partial(jax.jit, static_argnames="starts")
def _draw(key: jax.Array, starts: tuple[Start, ...]) -> list[jax.Array]:
    is_random = [start.deviation > 0 for start in starts]
    needed = sum(start.size for start, random in zip(starts, is_random, strict=True) if random)
    normals = jax.random.normal(key, (needed,))
    arrays, used = [], 0
    for start, random in zip(starts, is_random, strict=True):
        if random:
            part = normals[used : used + start.size].reshape(start.shape)
            arrays.append(start.mean + start.deviation * part)
            used += start.size
        else:
            arrays.append(jnp.full(start.shape, start.mean, jnp.float32))
    return arrays


def _is_start(node: Any) -> bool:
    return isinstance(node, Start)
