"""Rows that are encoded once, in memory or into a file of their own, whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from reticent.core.errors import DataError
from reticent.core.files import open_new
from reticent.data.files import Table


def blank_rows(
    table: Table, shape: tuple[int, ...], kind: type, into: object, name: str, unfinished: ExitStack
) -> np.ndarray | RowsInFile:
    """Zeros in memory, or an unfinished file that is removed if anything fails."""
    try:
        if into is None:
            return np.zeros(shape, dtype=kind)
        path = Path(str(into)) / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        output = RowsInFile(path, shape, kind)
        unfinished.callback(output.discard)
        return output
    except (MemoryError, OSError, ValueError) as error:
        size = int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize
        raise DataError(
            f"{table.label} needs {size / 1e9:.3g} GB once it is encoded, and does not fit.",
            remedy="Encode it into a folder on a larger disk (into=...), or ignore some columns.",
        ) from error


class RowsInFile:
    """An array that is written into a file from its first row to its last.

    It is written and not mapped: the pages of a map would count as this process's memory, and a disk that
    is full would end the process with a signal.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], kind: type) -> None:
        self._path, self._partial = path, path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        self._shape, self._kind = shape, kind
        self._file = open_new(self._partial)
        header = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Zeros for these rows, to be filled and written."""
        return np.zeros((rows.stop - rows.start, *self._shape[1:]), dtype=self._kind)

    def write(self, rows: np.ndarray) -> None:
        with self._report_failure():
            self._file.write(rows.data)

    def finish(self) -> None:
        with self._report_failure():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        with suppress(OSError):  # what could not be written cannot be written at closing either
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def publish(self) -> np.ndarray:
        os.replace(self._partial, self._path)
        return np.load(self._path, mmap_mode="r")

    @contextmanager
    def _report_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"Cannot write {self._path}: {error.strerror}.",
                remedy="Encode into a folder on another disk.",
            ) from error
