"""What several processes tell each other outside of training: small facts, all of them at once.

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

from reticent.core.errors import ProcessLost

# How JAX begins what it says of a failed operation; of small ones it says so with a ValueError.
_STATUS = re.compile("(UNKNOWN|UNAVAILABLE|INTERNAL|ABORTED|CANCELLED|DEADLINE_EXCEEDED): ")


def count() -> int:
    """How many processes work together."""
    return jax.process_count()


def number() -> int:
    """Which of them this one is, from 0."""
    return jax.process_index()


def is_first() -> bool:
    """Whether this is the process that writes and pays."""
    return number() == 0


def everyones(values: Any) -> np.ndarray:
    """An array of the same shape from each process: (processes, ...)."""
    values = np.asarray(values)
    if count() == 1:
        return values[None]
    from jax.experimental import multihost_utils

    # As bytes: JAX would round 64 bits to 32.
    raw = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    with peers_watched():
        found = np.asarray(multihost_utils.process_allgather(raw))
    return np.stack([np.frombuffer(row.tobytes(), values.dtype).reshape(values.shape) for row in found])


def everyones_json(value: Any) -> list[Any]:
    """Anything with a JSON form from each process."""
    text = json.dumps(value, sort_keys=True, allow_nan=False).encode()
    lengths = everyones(np.int64(len(text)))
    room = np.zeros(int(lengths.max()), np.uint8)
    room[: len(text)] = np.frombuffer(text, np.uint8)
    found = everyones(room)
    return [json.loads(row[:length].tobytes()) for row, length in zip(found, lengths, strict=True)]


def of_first(value: Any) -> Any:
    """What the first process has, in its JSON form; what the others pass is not looked at."""
    return value if count() == 1 else everyones_json(value if is_first() else None)[0]


def total(values: Any) -> np.ndarray:
    """The sum over the processes, exactly: whole numbers stay whole."""
    return everyones(values).sum(axis=0)


def joined(rows: np.ndarray) -> np.ndarray:
    """The rows of all processes, one process after the other; each may have another number of them."""
    if count() == 1:
        return rows
    lengths = everyones(np.int64(len(rows)))
    room = np.zeros((int(lengths.max()), *rows.shape[1:]), rows.dtype)
    room[: len(rows)] = rows
    return np.concatenate([part[:length] for part, length in zip(everyones(room), lengths, strict=True)])


def share(rows: int) -> slice:
    """Which of so many rows this process has, where all of them could have all."""
    return slice(rows * number() // count(), rows * (number() + 1) // count())


def copied(tree: Any) -> Any:
    """A tree of arrays that lie on several devices, as arrays of NumPy on every process."""
    from jax.experimental import multihost_utils

    def one(leaf: Any) -> np.ndarray:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
            return np.asarray(leaf)
        with peers_watched():
            return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))

    return jax.tree.map(one, tree)


@contextmanager
def peers_watched() -> Iterator[None]:
    """Says in plain words that another process is gone, where a collective operation fails."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if count() == 1 or not _STATUS.match(str(error)):
            raise
        raise ProcessLost(
            f"Process {number()} lost another process of this run: {_first_line(error)}",
            remedy="Start all processes again; with a checkpoint they go on where they were.",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160]
