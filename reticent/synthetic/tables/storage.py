"""A table model in a file: tensors in safetensors, the rest in its header as JSON; never a pickle.

What is written was released: noisy counts, and a plan. There is no seed and no key in it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.files import ANY_SIZE, read_inside, write_whole
from reticent.synthetic.tables.graphical import GraphicalModel
from reticent.synthetic.tables.junction import JunctionTree
from reticent.synthetic.tables.merging import Merging
from reticent.synthetic.tables.planning import TablePlan

_VERSION = "reticent table model 1"


def write(path: str | os.PathLike[str], plan: TablePlan, model: GraphicalModel, merging: Merging) -> None:
    """Writes a model atomically: a crash leaves the old file, or the new one."""
    from safetensors.numpy import save

    tensors = {f"potential {at}": np.ascontiguousarray(p) for at, p in enumerate(model.potentials)}
    tensors |= {f"groups {at}": group.astype(np.int32) for at, group in enumerate(merging.groups)}
    tensors |= {f"shares {at}": share for at, share in enumerate(merging.shares)}
    tree = {"nodes": model.tree.nodes, "parents": model.tree.parents}
    metadata = {"version": _VERSION, "plan": plan.to_json(), "tree": json.dumps(tree)}
    write_whole(Path(path), save(tensors, metadata=metadata))


def read(path: str | os.PathLike[str]) -> tuple[TablePlan, GraphicalModel, Merging]:
    """What `write` wrote. Everything is checked: the file may not be trusted.

    Raises:
        DataError: there is no such file.
        IntegrityError: it is damaged, or holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        payload = read_inside(Path(path).parent, Path(path).name, most=ANY_SIZE)
    except OSError as error:
        raise DataError(
            f"Cannot read the model {path}: {error.strerror}.", remedy="Check that it is there."
        ) from error
    try:
        tensors = load(payload)
        header = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])["__metadata__"]
        if header["version"] != _VERSION:
            raise ValueError("another version")
        plan = TablePlan.read(header["plan"])
        return plan, *_assemble(plan, json.loads(header["tree"]), tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError, InvalidArgument) as error:
        raise IntegrityError(
            f"{path} is not a model of a synthetic table, or is damaged.", remedy="Restore it from a copy."
        ) from error


def _assemble(
    plan: TablePlan, tree: dict[str, Any], tensors: dict[str, np.ndarray]
) -> tuple[GraphicalModel, Merging]:
    columns = range(len(plan.sizes))
    merging = Merging(
        tuple(tensors[f"groups {at}"] for at in columns), tuple(tensors[f"shares {at}"] for at in columns)
    )
    for at, (group, share) in enumerate(zip(merging.groups, merging.shares, strict=True)):
        _require(group.shape == share.shape == (plan.sizes[at],))
        _require(group.min() >= 0 and np.all(np.isfinite(share)) and np.all(share >= 0))
        _require(np.allclose(np.bincount(group, weights=share), 1))  # no group is empty
    nodes = tuple(tuple(int(column) for column in node) for node in tree["nodes"])
    found = JunctionTree(merging.sizes, nodes, tuple(int(parent) for parent in tree["parents"]))
    _require(len(found.parents) == len(nodes) and {c for node in nodes for c in node} == set(columns))
    _require(all(-1 <= parent < at for at, parent in enumerate(found.parents)))
    _require(all(parent >= 0 for parent in found.parents[1:]))
    potentials = [tensors[f"potential {at}"] for at in range(len(nodes))]
    for node, potential in zip(nodes, potentials, strict=True):
        _require(potential.shape == found.shape(node) and bool(np.isfinite(potential).all()))
    return GraphicalModel(found, potentials), merging


def _require(holds: Any) -> None:
    if not holds:
        raise ValueError("the parts do not fit together")
