"""How many examples are worked on at once: as many as fit into a share of the memory.

On a CPU the share is small: what is computed for a block of examples is read again soon after, from a cache
or at least from pages that are there already. Blocks of a hundred megabytes are up to twice as fast as one
of a gigabyte, and no batch needs more memory than they do.

The choice changes rounding, never the law of a run, so no accountant knows about it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reticent.core.trees import ArrayTree
from reticent.training.gradients import LossFunction, Strategy
from reticent.training.gradients.choices import choices
from reticent.training.gradients.tracing import every_equation

_SHARE = 8  # an eighth of the memory
_BLOCK_ON_CPU = 96 * 2**20  # bytes
_SMALLEST = 16  # examples: with fewer at once, no product is worth its start
_HOLDS_GRADIENTS = ("vmap", "explicit", "product")
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def examples_at_once(loss: LossFunction, params: ArrayTree, example: ArrayTree, strategy: Strategy) -> int:
    """How many examples fit, if nothing that is computed for one of them were freed before the end.

    Args:
        example: the shapes of one example.
    """
    room = memory_of_device() // _SHARE
    if jax.default_backend() == "cpu":
        room = min(room, _BLOCK_ON_CPU)
    return max(room // _bytes_an_example(loss, params, example, strategy), _SMALLEST)


def memory_of_device() -> int:
    """Bytes on the device that computes: not what is free at the moment, so that runs can be repeated."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits_of_group()])


def _limits_of_group() -> Iterator[int]:
    """What a container may use, where one says so."""
    for name in _LIMITS:
        path = Path(name)
        if path.is_file() and (text := path.read_text(encoding="ascii").strip()).isdigit():
            yield int(text)


def _bytes_an_example(loss: LossFunction, params: ArrayTree, example: ArrayTree, strategy: Strategy) -> int:
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), params)
    traced = jax.make_jaxpr(loss)(shapes, example)
    computed = (value for equation in every_equation(traced.jaxpr) for value in equation.outvars)
    forward = sum(_size(value) for value in [*traced.jaxpr.invars, *computed])
    forward -= sum(_size(leaf) for leaf in jax.tree.leaves(shapes))
    if strategy == "vmap":
        held = sum(_size(leaf) for leaf in jax.tree.leaves(shapes))
    else:
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), example)
        found = choices(loss, params, zeros)
        held = sum(4 * int(np.prod(item.shape)) for item in found if item.rule in _HOLDS_GRADIENTS)
    # Each value, its cotangent, and what the rule for it makes of both; a gradient and its clipped copy.
    return max(3 * forward + 2 * held, 1)


def _size(value: Any) -> int:
    aval = getattr(value, "aval", value)
    return (
        int(np.prod(aval.shape)) * aval.dtype.itemsize if hasattr(aval, "dtype") else 0
    )  # keys have one too
