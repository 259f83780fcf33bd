"""Trees of arrays as Flower's records, and back: of the shapes that are expected, or not at all."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import jax
import numpy as np
from numpy.lib import format as npy

from reticent.core.errors import DataError
from reticent.core.printable import printable
from reticent.core.trees import ArrayTree
from reticent.federated.flower.library import app
from reticent.training.clipping import paths_of

_HEADER = 1024  # bytes, more than that of any array here


def to_record(tree: ArrayTree) -> Any:
    """An `ArrayRecord` with an entry for every leaf, named by its place and path."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return app.ArrayRecord(
        {name: app.Array(leaf) for name, leaf in zip(_names(tree), leaves, strict=True)}, keep_input=True
    )


def from_record(record: Any, like: ArrayTree, sender: str) -> Any:
    """The tree of a record, with the structure of `like`.

    Nothing that the sender says decides how much memory is taken: sizes are those of `like`.

    Raises:
        DataError: a leaf is missing, has another shape or type, or is not an array.
    """
    leaves, structure = jax.tree.flatten(like)
    names = _names(like)
    if set(record) != set(names):
        other = sorted(set(record) ^ set(names))[0]
        raise DataError(
            f"{sender} sent another model: parameter '{printable((other[5:] or other)[:80])}' is in one of "
            "them only.",
            remedy="It was left out of the round.",
        )
    found = [_numbers(record[name], leaf, name, sender) for name, leaf in zip(names, leaves, strict=True)]
    return jax.tree.unflatten(structure, found)


def _names(tree: ArrayTree) -> list[str]:
    return [f"{at:04d} {path}" for at, path in enumerate(paths_of(tree))]


def _numbers(array: Any, like: ArrayTree, name: str, sender: str) -> np.ndarray:
    shape, kind = np.shape(like), np.dtype(like.dtype)
    size = int(np.prod(shape)) * kind.itemsize
    try:
        if len(array.data) > size + _HEADER:
            raise ValueError(f"{len(array.data)} bytes")
        stream = BytesIO(array.data)
        npy.read_magic(stream)
        found_shape, is_fortran, found_kind = npy.read_array_header_1_0(stream)
        if (found_shape, found_kind) != (shape, kind):
            raise ValueError(f"{found_kind}{list(found_shape)}")
        numbers = np.frombuffer(stream.read(), kind)
        return numbers.reshape(shape, order="F" if is_fortran else "C")
    except Exception as error:  # noqa: BLE001  # whatever a header makes its reader raise
        raise DataError(
            f"{sender} sent something else for parameter '{name[5:]}', which is {kind}{list(shape)}: "
            f"{printable(' '.join(str(error).split())[:100])}.",
            remedy="It was left out of the round.",
        ) from None
