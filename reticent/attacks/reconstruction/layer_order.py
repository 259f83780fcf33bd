"""Parameters in the order of their layers."""

from __future__ import annotations

import re
from typing import Any

import jax


def in_layer_order(tree: Any) -> list[Any]:
    """The leaves of a tree by their names, where dense2 comes before dense10.

    >>> in_layer_order({"dense10": {"w": 3}, "dense2": {"b": 1, "w": 2}})
    [1, 2, 3]
    """
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]

    def place(path: Any) -> list[Any]:
        parts = re.split(r"(\d+)", jax.tree_util.keystr(path))  # words and numbers in turn
        return [int(part) if part.isdigit() else part for part in parts]

    return [leaf for _, leaf in sorted(paths, key=lambda pair: place(pair[0]))]
