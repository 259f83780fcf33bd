"""Unfinished training in a file: how many steps were taken, and all numbers that the next one needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import tensors
from reticent.core.errors import IntegrityError
from reticent.core.files import read_inside, write_whole

Tree = TypeVar("Tree")

_MOST = 1 << 31  # bytes


def write_progress(path: Path, what: str, steps: int, tree: Any) -> None:
    """Writes the state after so many steps, whole or not at all.

    Args:
        what: the training that it belongs to, in words.
    """
    from safetensors.numpy import save

    arrays = {str(at): np.asarray(leaf) for at, leaf in enumerate(jax.tree.leaves(tree))}
    write_whole(path, save(arrays, metadata={"what": what, "steps": str(steps)}))


def read_progress(path: Path | None, what: str, like: Tree) -> tuple[int, Tree]:
    """How many steps were taken, and the state after them; none and `like` if nothing was kept.

    Raises:
        IntegrityError: the file is damaged, or of another training.
    """
    if path is None or not path.exists():
        return 0, like
    try:
        found = tensors.parse(read_inside(path.parent, path.name, most=_MOST))
        if found.texts["what"] != what:
            raise ValueError("another training")
        leaves, structure = jax.tree.flatten(like)
        arrays = [found.tensors[str(at)] for at in range(len(leaves))]
        if [each.shape for each in arrays] != [np.shape(leaf) for leaf in leaves]:
            raise ValueError("another network")
        return int(found.texts["steps"]), jax.tree.unflatten(structure, map(jnp.asarray, arrays))
    except (ValueError, KeyError) as error:
        raise IntegrityError(
            f"{path} does not hold the progress of this training.",
            remedy="Remove it to start over, or pass the data and settings that it was started with.",
        ) from error
