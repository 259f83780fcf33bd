"""Large files made for a measurement: written in blocks, never in memory, and gone whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np

_BLOCK = 1 << 26  # bytes
_GROUP = 1 << 16  # rows of a group of Parquet


@contextmanager
def folder_with_room(parent: Path, bytes_needed: int) -> Iterator[Path]:
    """A new folder below `parent`, removed at the end, after an error, and if the benchmark is told to stop.

    Raises:
        SystemExit: there is not enough room.
    """
    free = shutil.disk_usage(parent).free
    if free < bytes_needed:
        raise SystemExit(
            f"{parent} has {free / 1e9:.1f} GB left, and the files take {bytes_needed / 1e9:.1f} GB. "
            "Name another place with --folder, or try it out with --quick."
        )

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)  # so that what is open is closed, and this folder removed

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(prefix="reticent-bench-scale-", dir=parent) as folder:
            yield Path(folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def arrays(folder: Path, rows: int, width: int) -> Iterator[dict[str, str]]:
    """`x` (float32) and `y` in NumPy's format, on the disk and not in the kernel's cache; removed after."""
    draw = np.random.default_rng(0)
    x, y = folder / "x.npy", folder / "y.npy"
    at_once = max(_BLOCK // (4 * width), 1)
    block = draw.random((at_once, width), np.float32)
    try:
        with x.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_2_0(file, header)
            for first in range(0, rows, at_once):
                block += np.float32(first / rows)  # no two blocks are alike
                np.remainder(block, np.float32(1), out=block)
                file.write(block[: rows - first].data)
            _forget(file.fileno())
        np.save(y, draw.integers(0, 10, rows, np.int32))
        yield {"x": str(x), "y": str(y)}
    finally:
        x.unlink(missing_ok=True)
        y.unlink(missing_ok=True)


def forget(path: str) -> None:
    """Takes a file out of the kernel's cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _forget(descriptor)
    finally:
        os.close(descriptor)


def _forget(descriptor: int) -> None:
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def parquet(folder: Path, rows: int, width: int) -> Iterator[dict[str, str]]:
    """A table of numbers between 0 and 1 with a label, and what is public about it; both removed after."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(0)
    table, domain = folder / "table.parquet", folder / "table.toml"
    names = [f"x{number}" for number in range(width)]
    kinds = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.string())])
    bounded = "".join(f'[columns.{name}]\nkind = "number"\nbounds = [0, 1]\n\n' for name in names)
    domain.write_text(
        f'version = 1\ntarget = "y"\n\n{bounded}[columns.y]\nkind = "label"\nvalues = ["no", "yes"]\n'
    )
    try:
        with pq.ParquetWriter(table, kinds, compression="NONE", use_dictionary=False) as writer:
            for first in range(0, rows, _GROUP):
                count = min(_GROUP, rows - first)
                columns = list(draw.random((width, count), np.float32))
                labels = np.where(columns[0] + columns[1] > draw.random(count) * 2, "yes", "no")
                writer.write_table(pa.table([*columns, labels], schema=kinds), row_group_size=_GROUP)
        yield {"table": str(table), "domain": str(domain)}
    finally:
        table.unlink(missing_ok=True)
        domain.unlink(missing_ok=True)
