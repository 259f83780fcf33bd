"""Rows that are too many for the memory: written as a model takes them, once, and trained on from there.

They are private, so they lie in a folder that nobody else may read, and go with the process. One that is
killed leaves them behind, under a name that begins with `reticent-rows-`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from reticent.core.errors import DataError
from reticent.core.files import open_new
from reticent.core.observer import Observer
from reticent.data.domain import Domain, Label
from reticent.data.encoding import Encoder, feature_names, has_target
from reticent.data.files import Table
from reticent.runs.learners import Learner
from reticent.runs.unclipped import Unclipped
from reticent.runs.users import RowSplit
from reticent.training.devices.memory import memory_of_device

Arrays = dict[str, np.ndarray]

_SHARE = 8  # a table larger than this part of the memory stays on disk
_SCORED = 1 << 16  # held-out rows that a process keeps to score a model with


def is_too_large(table: Table, domain: Domain) -> bool:
    """Whether the rows would take more than an eighth of the memory."""
    return 4 * table.row_count * len(feature_names(domain)) > memory_of_device() // _SHARE


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for private rows, gone at the end.

    Raises:
        DataError: none can be made.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="reticent-rows-")
    except OSError as error:
        raise DataError(
            f"Cannot make a folder for the rows: {error.strerror}.",
            remedy="Set TMPDIR to a place with room for them.",
        ) from error
    with folder as path:
        yield Path(path)


def write_rows(
    table: Table,
    domain: Domain,
    split: RowSplit,
    *,
    first: int,
    learn: Learner,
    into: Path,
    observer: Observer,
    unclipped: Unclipped,
    take_in: Callable[[Arrays, int], None],
) -> tuple[Arrays, Arrays]:
    """Rows to train on, memory-mapped, and some of those held out, in memory: both as the learner takes them.

    A batch of the table is in memory at a time. Of the held-out rows an even selection is kept, and their
    targets as they are in the table, if those are numbers, under `unclipped`.

    Args:
        take_in: is shown every batch before it is divided, and the number of its first row.

    Raises:
        DataError: a row is not what the domain says, or the disk is full.
    """
    encoder = Encoder(domain, on_numbers=unclipped.see)
    rows = split.count_trained_on(first, table.row_count)
    keep = max(-(-(table.row_count - rows) // _SCORED), 1)  # every so many
    kind = np.int32 if isinstance(domain.columns[domain.target or ""], Label) else np.float32
    held_out: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    passed = 0
    paths = {"x": into / "x.npy", "y": into / "y.npy"}
    with ExitStack() as stack, observer.watch("encoding to disk") as on_progress:
        outputs: dict[str, BinaryIO] = {}
        for batch in table.batches(encoder.columns):
            count = batch.batch.num_rows
            x, y = np.zeros((count, len(encoder.feature_names)), np.float32), np.zeros(count, kind)
            encoder.fill(batch, table, x, y)
            take_in({"x": x, "y": y}, first + batch.first)
            inputs = learn.inputs(x)
            is_held_out = split.is_held_out(first + batch.first, count)
            with _report_disk_errors(into):
                for key, array in (("x", inputs[~is_held_out]), ("y", y[~is_held_out])):
                    if key not in outputs:
                        file = stack.enter_context(open_new(paths[key], is_private=True))
                        outputs[key] = _begin_file(file, (rows, *array.shape[1:]), array.dtype)
                    outputs[key].write(np.ascontiguousarray(array).data)
            places = np.flatnonzero(is_held_out)
            is_kept = (passed + np.arange(len(places))) % keep == 0
            places, targets = places[is_kept], unclipped.take_targets()
            passed += int(is_held_out.sum())
            held_out.append((inputs[places], y[places], y[places] if targets is None else targets[is_kept]))
            on_progress(batch.done)
    names = ("x", "y", "unclipped")
    kept = {key: np.concatenate(part) for key, part in zip(names, zip(*held_out, strict=True), strict=True)}
    known = has_target(kept["y"])
    mapped = {key: np.load(path, mmap_mode="r") for key, path in paths.items()}
    return mapped, {key: array[known] for key, array in kept.items()}


def _begin_file(file: BinaryIO, shape: tuple[int, ...], dtype: Any) -> BinaryIO:
    """A file in NumPy's format whose rows are still to come."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, header)
    return file


@contextmanager
def _report_disk_errors(into: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"Cannot write rows to {into}: {error.strerror}.",
            remedy="Free some space there, or set TMPDIR to a place that has it.",
        ) from error
