"""Tables in NumPy's NPZ and NPY files: one array per column, or one matrix per group of columns.

Arrays are read in slices, all of them in step, so a file larger than memory can be scanned.
Pickled objects are never loaded: they could run any code.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.data.arrow_cells import compute
from reticent.data.files.dialect import Dialect
from reticent.data.files.shards import cut_error, row_cuts
from reticent.data.files.table import Table, check_names, check_width, damage_error, report_damage
from reticent.data.kinds import quote

NPZ_MAGIC = b"PK\x03\x04"
NPY_MAGIC = b"\x93NUMPY"

_SLICE = 8 << 20  # bytes of one array at once


class _Member(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    is_fortran: bool
    header: int | None = None  # of a shard: the byte of the archive at which its local header begins

    @property
    def columns(self) -> list[str]:
        if len(self.shape) == 1:
            return [self.name]
        return [f"{self.name}_{i}" for i in range(1, self.shape[1] + 1)]


class ArraysTable(Table):
    """The arrays of an NPZ file, or the one of an NPY file, side by side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with report_damage(path, "NumPy arrays"), ExitStack() as opened:
            arrays = _Arrays(path, opened)
            self._members = [_describe(path, name, arrays.open(name)) for name in arrays.names]
        check_width(path, sum(math.prod(member.shape[1:]) for member in self._members))
        lengths = {member.name: member.shape[0] for member in self._members}
        if not lengths or not max(lengths.values()):
            raise DataError(f"{path} has no rows.", remedy="Give arrays with at least one row.")
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name}: {rows}" for name, rows in list(lengths.items())[:8])
            raise DataError(
                f"{path}: its arrays differ in length ({said}).",
                remedy="Give every array one row per record.",
            )
        self.names = tuple(name for member in self._members for name in member.columns)
        check_names(path, self.names or ("",))
        self.dialect = Dialect(format="npz")
        self.unsupported = {
            name: str(member.dtype) for member in self._members if member.dtype.kind not in "biufUS"
            for name in member.columns
        }  # fmt: skip
        self._row_count = max(lengths.values())

    def shard(self, number: int, count: int) -> ArraysTable:
        cuts = row_cuts([self.row_count], count)
        shard = copy(self)
        with report_damage(self.path, "NumPy arrays"):
            if zipfile.is_zipfile(self.path):
                with zipfile.ZipFile(self.path) as archive:
                    shard._members = [
                        m._replace(header=self._header_of(m, archive.getinfo(f"{m.name}.npy")))
                        for m in self._members
                    ]
        shard._first_row = self._first_row + cuts[number]
        shard._row_count = cuts[number + 1] - cuts[number]
        return shard

    def _header_of(self, member: _Member, info: zipfile.ZipInfo) -> int:
        """Where an array lies in an archive so that going to a row does not read all before it."""
        if info.compress_type != zipfile.ZIP_STORED:
            raise cut_error(self, "a packed NPZ file")
        if info.file_size < int(np.prod(member.shape, dtype=object)) * member.dtype.itemsize:
            raise damage_error(self.path, "NumPy arrays", EOFError())
        return info.header_offset

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        wanted = set(columns)
        used = [member for member in self._members if not wanted.isdisjoint(member.columns)]
        widest = max((member.dtype.itemsize * int(np.prod(member.shape[1:])) for member in used), default=1)
        step = max(1, _SLICE // max(1, widest))
        total = self.row_count
        with report_damage(self.path, "NumPy arrays"), ExitStack() as opened:
            arrays = _Arrays(self.path, opened)
            slices = [_slices(self.path, member, self._first_row, total, step, arrays) for member in used]
            for first, blocks in zip(range(0, total, step), zip(*slices, strict=True), strict=True):
                found: dict[str, pa.Array] = {}
                for member, block in zip(used, blocks, strict=True):
                    parts = block.reshape(len(block), -1).T
                    found |= {n: _plain(c) for n, c in zip(member.columns, parts, strict=True) if n in wanted}
                batch = pa.RecordBatch.from_arrays([found[name] for name in columns], names=list(columns))
                yield batch, (first + batch.num_rows) / total


class _Arrays:
    """The arrays of a file, opened through one look at its table of contents; closed with the stack.

    Raises:
        DataError: it is an archive of other things.
    """

    def __init__(self, path: Path, opened: ExitStack) -> None:
        self._path, self._opened = path, opened
        with open(path, "rb") as file:
            is_alone = file.read(len(NPY_MAGIC)) == NPY_MAGIC
        self._archive = None if is_alone else opened.enter_context(zipfile.ZipFile(path))
        names = ["column.npy"] if self._archive is None else self._archive.namelist()
        if not all(name.endswith(".npy") for name in names):
            raise DataError(f"{path} is a ZIP archive that holds no NumPy arrays.", remedy="Give a CSV file.")
        self.names = [name.removesuffix(".npy") for name in names]
        check_width(path, len(names))

    def open(self, name: str, header: int | None = None) -> IO[bytes]:
        """One of them, from its first byte."""
        if self._archive is None:
            return self._opened.enter_context(open(self._path, "rb"))
        if header is not None:
            return self._opened.enter_context(_open_unpacked(self._path, header))
        try:
            return self._opened.enter_context(self._archive.open(f"{name}.npy"))
        except (RuntimeError, NotImplementedError, KeyError):  # encrypted, or packed in an unknown way
            raise damage_error(self._path, "NumPy arrays") from None


def _open_unpacked(path: Path, header: int) -> IO[bytes]:
    """A file at the first byte of a member whose local header in the archive begins at byte `header`."""
    with ExitStack() as opened:
        file = opened.enter_context(open(path, "rb"))
        file.seek(header + 26)  # the lengths of the name and of the extra field, which come next
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(name + extra, io.SEEK_CUR)
        opened.pop_all()
        return file


def _describe(path: Path, name: str, file: IO[bytes]) -> _Member:
    with file:
        shape, is_fortran, dtype = _header(path, name, file)
    where = f"{path}, array {quote(name)}"
    if dtype.hasobject:
        raise DataError(
            f"{where} holds pickled Python objects, which are never loaded: they could run any code.",
            remedy="Save it as numbers or as text (dtype 'U').",
        )
    if len(shape) not in (1, 2):
        raise DataError(
            f"{where} has {len(shape)} axes where a table has one or two.",
            remedy="Reshape it to one row per record: array.reshape(len(array), -1).",
        )
    return _Member(name, shape, dtype, is_fortran)


def _header(path: Path, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, dtype = read(file)
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError
    except Exception:  # noqa: BLE001 - NumPy reads a header as Python source, and anything may come of that
        raise DataError(
            f"{path}, array {quote(name)} does not start like a NumPy array.",
            remedy="Save it again with numpy.savez.",
        ) from None
    return shape, is_fortran, dtype


def _slices(
    path: Path, member: _Member, begin: int, rows: int, step: int, arrays: _Arrays
) -> Iterator[np.ndarray]:
    """Yields rows of an array from row `begin`, `step` rows at a time."""
    file = arrays.open(member.name, member.header)
    _header(path, member.name, file)
    size, rest = member.dtype.itemsize, member.shape[1:]
    if member.is_fortran and rest:  # its rows are scattered over the whole of it
        columns = np.empty((rest[0], rows), dtype=member.dtype)
        for column in columns:
            file.seek(begin * size, io.SEEK_CUR)
            column[:] = _values(path, file, member.dtype, (rows,))
            file.seek((member.shape[0] - begin - rows) * size, io.SEEK_CUR)
        yield from (columns.T[first : first + step] for first in range(0, rows, step))
        return
    file.seek(begin * size * int(np.prod(rest)), io.SEEK_CUR)
    for first in range(0, rows, step):
        yield _values(path, file, member.dtype, (min(step, rows - first), *rest))


def _values(path: Path, file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    content = file.read(size)
    if len(content) != size:
        raise damage_error(path, "NumPy arrays", EOFError())
    return np.frombuffer(content, dtype=dtype).reshape(shape) if size else np.zeros(shape, dtype=dtype)


def _plain(column: np.ndarray) -> pa.Array:
    kind: Any = column.dtype.kind
    if kind == "b":
        return pa.array(column.astype(np.uint8))
    if kind in "US":
        if kind == "S":
            column = np.char.decode(column, "utf-8", errors="replace")
        return compute.ascii_trim_whitespace(pa.array(column.astype(object), type=pa.string()))
    wide = (
        np.float64
        if column.dtype.itemsize > 8 or column.dtype == np.float16
        else column.dtype.newbyteorder("=")
    )
    return pa.array(np.ascontiguousarray(column, dtype=wide))
