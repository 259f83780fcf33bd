"""What a client sent, as the leaves of the model, if that is what it is."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import jax
import numpy as np

from reticent.core.errors import DataError
from reticent.core.printable import printable
from reticent.core.trees import ArrayTree
from reticent.training.clipping import paths_of

_Kind = tuple[tuple[int, ...], np.dtype]


def leaves_of(client: str, update: Any, like: ArrayTree) -> list[np.ndarray]:
    """The leaves of an update in the order of the model's.

    Raises:
        DataError: it has other leaves, in another order, or of another shape or type.
    """
    expected = _describe("the server", like)[1]
    leaves, found = _describe(client, update)
    for ours, theirs in zip_longest(expected, found, fillvalue=("", None)):
        if ours != theirs:
            name = ours[0] or theirs[0]
            sent = theirs[1] if theirs[0] == name else None
            raise DataError(
                f"Client '{client}' sent {_in_words(sent)} for parameter '{printable(name[:80])}', and the "
                f"model has {_in_words(ours[1])}.",
                remedy="It has another model, and was left out of the round.",
            )
    return leaves


def _describe(client: str, tree: ArrayTree) -> tuple[list[np.ndarray], list[tuple[str, _Kind | None]]]:
    try:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        kinds: list[_Kind | None] = [(leaf.shape, leaf.dtype) for leaf in leaves]
        return leaves, list(zip(paths_of(tree), kinds, strict=True))
    except Exception as error:  # whatever a client made up, the server goes on
        raise DataError(
            f"Client '{client}' sent something that is not a tree of arrays ({type(error).__name__}).",
            remedy="It was left out of the round.",
        ) from error


def _in_words(kind: _Kind | None) -> str:
    return "nothing" if kind is None else f"{kind[1]}{list(kind[0])}"
