"""A table model in a file: tensors in safetensors, the rest in its header as JSON; never a pickle.

What is written was released: noisy counts, and a plan. There is no seed and no key in it.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core import strict_json
from reticent.core import tensors as tensor_files
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import misfits_as, read_inside, write_whole
from reticent.synthetic.tables.graphical import GraphicalModel
from reticent.synthetic.tables.junction import JunctionTree
from reticent.synthetic.tables.merging import Merging
from reticent.synthetic.tables.planning import TablePlan

_VERSION = "reticent table model 1"
_LARGEST = 1 << 28  # bytes: 33 million cells, 500 times what a search may add up to

Counts = tuple[np.ndarray, ...] | None


def write(
    path: str | os.PathLike[str],
    plan: TablePlan,
    model: GraphicalModel,
    merging: Merging,
    counts: Counts = None,
) -> None:
    """Writes a model atomically: a crash leaves the old file, or the new one."""
    from safetensors.numpy import save

    tensors = {f"potential {at}": np.ascontiguousarray(p) for at, p in enumerate(model.potentials)}
    tensors |= {f"groups {at}": group.astype(np.int32) for at, group in enumerate(merging.groups)}
    tensors |= {f"shares {at}": share for at, share in enumerate(merging.shares)}
    tensors |= {f"counts {at}": np.ascontiguousarray(count) for at, count in enumerate(counts or ())}
    tree = {"nodes": model.tree.nodes, "parents": model.tree.parents}
    metadata = {"version": _VERSION, "plan": plan.to_json(), "tree": json.dumps(tree)}
    write_whole(Path(path), save(tensors, metadata=metadata))


def read(path: str | os.PathLike[str]) -> tuple[TablePlan, GraphicalModel, Merging, Counts]:
    """What `write` wrote. Everything is checked: the file may not be trusted.

    Raises:
        DataError: there is no such file.
        IntegrityError: it is damaged, or holds something else.
    """
    damage = IntegrityError(
        f"{path} is not a model of a synthetic table, or is damaged.", remedy="Restore it from a copy."
    )
    try:
        payload = read_inside(Path(path).parent, Path(path).name, most=_LARGEST)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise damage from error
        raise DataError(
            f"Cannot read the model {path}: {error.strerror}.", remedy="Check that it is there."
        ) from error
    with misfits_as(damage):
        tensors, texts = tensor_files.parse(payload)
        _require(texts["version"] == _VERSION)
        plan = TablePlan.read(texts["plan"])
        return plan, *_assemble(plan, strict_json.parse(texts["tree"]), tensors), _counts(plan, tensors)


def _assemble(
    plan: TablePlan, tree: dict[str, Any], tensors: dict[str, np.ndarray]
) -> tuple[GraphicalModel, Merging]:
    columns = range(len(plan.sizes))
    merging = Merging(
        tuple(tensors[f"groups {at}"] for at in columns), tuple(tensors[f"shares {at}"] for at in columns)
    )
    for at, (group, share) in enumerate(zip(merging.groups, merging.shares, strict=True)):
        _require(group.shape == share.shape == (plan.sizes[at],))
        _require(0 <= group.min() <= group.max() < len(group))  # before anything is as long as its largest
        _require(np.all(np.isfinite(share)) and np.all(share >= 0))
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


def _counts(plan: TablePlan, tensors: dict[str, np.ndarray]) -> Counts:
    """The noisy counts of each column, if the file has them."""
    if "counts 0" not in tensors:
        return None
    found = tuple(tensors[f"counts {at}"] for at in range(len(plan.sizes)))
    for size, counts in zip(plan.sizes, found, strict=True):
        _require(counts.shape == (size,) and counts.dtype == np.float64 and np.isfinite(counts).all())
    return found


def _require(holds: Any) -> None:
    if not holds:
        raise ValueError("the parts do not fit together")
