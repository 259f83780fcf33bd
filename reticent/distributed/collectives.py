"""Collective operations between processes outside of training, for small values.

Every function here is called by every process, in the same order. With one process each is the identity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from reticent.core.errors import ProcessLost
from reticent.core.trees import ArrayTree

# How JAX begins the message about a failed operation; for small ones it raises a ValueError.
_STATUS = re.compile("(UNKNOWN|UNAVAILABLE|INTERNAL|ABORTED|CANCELLED|DEADLINE_EXCEEDED): ")


def count() -> int:
    """The number of processes that work together."""
    return jax.process_count()


def number() -> int:
    """The number of this process, from 0."""
    return jax.process_index()


def is_first() -> bool:
    """Whether this is process 0, which writes and pays."""
    return number() == 0


def gather_arrays(values: ArrayLike) -> np.ndarray:
    """Gathers an array of the same shape from each process: (processes, ...)."""
    values = np.asarray(values)
    if count() == 1:
        return values[None]
    from jax.experimental import multihost_utils

    # As bytes: JAX would round 64 bits to 32.
    raw = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    with watch_peers():
        found = np.asarray(multihost_utils.process_allgather(raw))
    return np.stack([np.frombuffer(row.tobytes(), values.dtype).reshape(values.shape) for row in found])


def gather_json(value: Any) -> list[Any]:
    """Gathers a JSON value from each process."""
    text = json.dumps(value, sort_keys=True, allow_nan=False).encode()
    lengths = gather_arrays(np.int64(len(text)))
    room = np.zeros(int(lengths.max()), np.uint8)
    room[: len(text)] = np.frombuffer(text, np.uint8)
    found = gather_arrays(room)
    return [json.loads(row[:length].tobytes()) for row, length in zip(found, lengths, strict=True)]


def broadcast_json(value: Any) -> Any:
    """Returns the JSON value of the first process; values of the others are ignored."""
    return value if count() == 1 else gather_json(value if is_first() else None)[0]


def total(values: ArrayLike) -> np.ndarray:
    """The sum over the processes, exactly: whole numbers stay whole."""
    return gather_arrays(values).sum(axis=0)


def gather_rows(rows: np.ndarray) -> np.ndarray:
    """Joins the rows of all processes in order; each may have a different number of them."""
    if count() == 1:
        return rows
    lengths = gather_arrays(np.int64(len(rows)))
    room = np.zeros((int(lengths.max()), *rows.shape[1:]), rows.dtype)
    room[: len(rows)] = rows
    return np.concatenate([part[:length] for part, length in zip(gather_arrays(room), lengths, strict=True)])


def share(rows: int) -> slice:
    """The slice of so many rows that this process handles, where every process could read all."""
    return slice(rows * number() // count(), rows * (number() + 1) // count())


def copy_to_host(tree: ArrayTree) -> Any:
    """Copies a tree of arrays on several devices into NumPy arrays on every process."""
    from jax.experimental import multihost_utils

    def one(leaf: Any) -> np.ndarray:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
            return np.asarray(leaf)
        with watch_peers():
            return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))

    return jax.tree.map(one, tree)


@contextmanager
def watch_peers() -> Iterator[None]:
    """Reports a failed collective operation as the loss of another process."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if count() == 1 or not _STATUS.match(str(error)):
            raise
        raise ProcessLost(
            f"Process {number()} lost another process of this run: {_first_line(error)}",
            remedy="Start all processes again; with a checkpoint they resume.",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160]
