"""Rows of arrays that lie on disk, by their numbers.

Training draws rows from all over a file that may be larger than memory. A memory map would give them too, but
each page that was touched stays on the process's account, and a file that shrinks or a disk that fails ends
the process with a signal. So rows are read with `pread` from the file behind the map: sorted, near ones
together, by several threads, with the kernel told not to read ahead. What was read stays in the kernel's
cache as long as there is room for it, and nothing of it stays in this process.

A map stays with its file, and a path does not: the file that is opened must be the mapped one, and must not
change from then on.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, IntegrityError, InvalidArgument, suggest
from reticent.data.lazy_rows import LazyColumn, read_rows

SCRATCH = 1 << 20  # bytes that a thread reads before it hands its rows out, or one row if that is longer

_NEAR = 4096  # bytes; rows that begin closer than this are read together, with what lies between them
_ROWS = 64  # for fewer, another thread is not worth its while
_MAPS = "/proc/self/maps"  # which file lies at which address; not every system has it

# Size and time of the last change of a file, when rows of a map of it were opened first.
_FIRST_SEEN: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


def is_on_disk(array: Any) -> bool:
    """Whether this is a `numpy.memmap`, or a view of one."""
    return _memory_map_of(array) is not None


class DiskRows:
    """Rows of memory-mapped arrays by their numbers; resident memory does not grow with the files.

    Arrays in memory may be among them, and are taken from as they are; so may columns that are read when
    asked for, by the calling thread: not every source can be asked by several at once. Each thread holds at
    most twice `SCRATCH` bytes, or twice a row if that is more, besides the numbers of rows and the output.

    Args:
        arrays: one row per record, all of one length.
        threads: that read at once; a disk answers many questions in the time of one.

    Raises:
        InvalidArgument: the arrays differ in length, or the rows of one do not lie one after the other in
            its file (Fortran order, or a view turned around).
        DataError: a file is no longer there, or was cut short.
        IntegrityError: another file has taken its place, or it changed since rows of this map were first
            opened. (A change between mapping and that is seen by the map itself too.)
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, threads: int = 4) -> None:
        checks.count(threads=threads)
        lengths = {key: len(array) for key, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            listed = ", ".join(f"{key}: {rows}" for key, rows in lengths.items()) or "none given"
            raise InvalidArgument(
                f"The arrays differ in length ({listed}).", remedy="Give arrays with one row per record."
            )
        self._length = next(iter(lengths.values()))
        self._arrays = dict(arrays)
        self._threads = threads
        self._lazy = {key: array for key, array in arrays.items() if isinstance(array, LazyColumn)}
        with ExitStack() as opened:
            self._places = {
                key: _open_file(key, array, opened)
                for key, array in arrays.items()
                if is_on_disk(array) and array.size
            }
            self._pool = opened.enter_context(ThreadPoolExecutor(threads, "disk-rows"))
            self._close = weakref.finalize(self, opened.pop_all().close)

    def __len__(self) -> int:
        return self._length

    def take(self, rows: np.ndarray, into: Mapping[str, np.ndarray]) -> None:
        """Writes `into[key][i] = arrays[key][rows[i]]` for every key of `into`.

        Rows may come in any order and more than once. What stands in `into` beyond them is left alone.

        Raises:
            InvalidArgument: a row is out of range, or an output has not the shape or kind of its array.
            DataError: a file has shrunk, or the disk does not answer. `into` may be half filled then.
            IntegrityError: a file has changed; what stands in `into` may be anything.
        """
        if not self._close.alive:
            raise InvalidArgument("These rows are closed.", remedy="Take before closing, or open them again.")
        rows = self._check_rows(rows)
        for key, out in into.items():
            self._check_output(key, out, len(rows))
        order = np.argsort(rows, kind="stable")
        ranked = rows[order]
        parts = min(self._threads, -(-len(rows) // _ROWS))
        cuts = [len(rows) * part // parts for part in range(parts + 1)] if parts else [0]
        reading = [
            self._pool.submit(_read, self._places[key], ranked[low:high], order[low:high], out)
            for key, out in into.items()
            if key in self._places
            for low, high in pairwise(cuts)
        ]
        for key, out in into.items():
            if key not in self._places and key not in self._lazy:
                _copy(self._arrays[key], rows, out[: len(rows)])
        for key, found in read_rows(
            {key: self._lazy[key] for key in into if key in self._lazy}, rows
        ).items():
            into[key][: len(rows)] = found
        wait(reading)  # all of them, even if one fails: they write into what belongs to the caller
        for one in reading:
            one.result()
        for key in into:
            if key in self._places:
                _require_unchanged(self._places[key])  # now: what was read before is then in order too

    def close(self) -> None:
        """Closes the files and stops the threads. The arrays themselves stay as they are."""
        self._close()

    def __enter__(self) -> DiskRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_rows(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and len(rows)):
            raise InvalidArgument(
                f"Rows are {rows.dtype}{list(rows.shape)}, not a list of whole numbers.",
                remedy="Pass the rows' numbers, counted from 0.",
            )
        if len(rows) and (rows.min() < 0 or rows.max() >= self._length):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise InvalidArgument(
                f"Row {wrong} was asked for, but there are only {self._length} rows.",
                remedy="Pass numbers from 0 to one less than that.",
            )
        return rows.astype(np.int64)

    def _check_output(self, key: str, out: np.ndarray, count: int) -> None:
        if key not in self._arrays:
            raise InvalidArgument(f"There is no array '{key}'.", remedy=suggest(key, self._arrays))
        array = self._arrays[key]
        if len(out) < count or out.shape[1:] != array.shape[1:]:
            raise InvalidArgument(
                f"{count} rows of '{key}' do not fit into {list(out.shape)}.",
                remedy=f"Pass an output of shape {[count, *array.shape[1:]]}.",
            )
        if not np.can_cast(array.dtype, out.dtype, casting="same_kind"):
            raise InvalidArgument(
                f"Array '{key}' is {array.dtype}, its output {out.dtype}.",
                remedy=f"Pass an output of {array.dtype}.",
            )


class _Place(NamedTuple):
    """Where the rows of an array lie: row i has `extent` bytes, from byte `offset + i * stride` of a file."""

    path: str
    descriptor: int
    offset: int
    stride: int
    extent: int
    like: np.ndarray  # no rows, and the kind and shape of them
    first_seen: tuple[int, int]


def _memory_map_of(array: Any) -> np.memmap | None:
    """The map that an array is a view of."""
    while array is not None:
        base = getattr(array, "base", None)
        if isinstance(array, np.memmap) and isinstance(base, mmap.mmap):
            return array
        array = base
    return None


def _open_file(key: str, array: np.ndarray, opened: ExitStack) -> _Place:
    mapped = _memory_map_of(array)
    assert mapped is not None
    path = getattr(mapped, "filename", None)
    if path is None or getattr(mapped, "mode", None) == "c":
        raise InvalidArgument(
            f"Array '{key}' is a memory map of {'its own copy' if path else 'a file without a name'}.",
            remedy="Map the file by its path: numpy.load(path, mmap_mode='r').",
        )
    (low, high), start = np.lib.array_utils.byte_bounds(array[:1]), _address(array)
    stride = array.strides[0] if len(array) > 1 else high - low
    if low != start or stride < high - low:
        raise InvalidArgument(
            f"The rows of array '{key}' do not lie one after the other in {path}.",
            remedy="Save it in C order: numpy.save(path, numpy.ascontiguousarray(array)).",
        )
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror}.",
            remedy="Check that it is there and that you may read it.",
        ) from error
    opened.callback(os.close, descriptor)
    _require_mapped(key, mapped, descriptor)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    offset = mapped.offset + start - _address(mapped)  # `offset` of a view is still that of the whole map
    first_seen = _FIRST_SEEN.setdefault(mapped.base, _last_change(descriptor))
    like = np.asarray(array[:0])
    place = _Place(str(path), descriptor, offset, stride, high - low, like, first_seen)
    _require_unchanged(place)
    return place


def _require_mapped(key: str, mapped: np.memmap, descriptor: int) -> None:
    """
    Raises:
        IntegrityError: an open file is another one than that behind a map.
        DataError: it is that one, and has lost rows.
    """
    if mapped.mode != "r":
        mapped.flush()  # else what was written through the map may count as a change later
    behind: Any = mapped.base  # of the mmap module, and with the mapped file open
    size, end = os.fstat(descriptor).st_size, mapped.offset + mapped.nbytes
    if behind.size() != size or (size and not _is_behind(mapped, descriptor)):
        raise IntegrityError(
            f"{mapped.filename} is not the file that array '{key}' was mapped from: it was replaced.",
            remedy="Map the new one: numpy.load(path, mmap_mode='r').",
        )
    if size < end:
        raise _cut_short_error(str(mapped.filename), end)


def _is_behind(mapped: np.memmap, descriptor: int) -> bool:
    """Whether a map is one of this open file, as far as the system tells.

    Both are looked up as maps: some file systems give a file other numbers there than elsewhere.
    """
    with mmap.mmap(descriptor, 1, access=mmap.ACCESS_READ) as probe:
        addresses = _address(mapped), _address(np.frombuffer(probe, np.uint8))
        try:
            lines = Path(_MAPS).read_bytes().splitlines()
        except OSError:
            return True
    files = set()
    for line in lines:
        span, _, _, device, inode, *_ = line.split(maxsplit=5)
        low, high = (int(address, 16) for address in span.split(b"-"))
        if inode != b"0" and any(low <= address < high for address in addresses):
            files.add((device, inode))
    return len(files) <= 1


def _last_change(descriptor: int) -> tuple[int, int]:
    now = os.fstat(descriptor)
    return now.st_size, now.st_mtime_ns


def _require_unchanged(place: _Place) -> None:
    if _last_change(place.descriptor) != place.first_seen:
        raise IntegrityError(
            f"{place.path} was changed after it was opened: its rows may have changed.",
            remedy="Map it again, start over, and do not change it while it is read.",
        )


def _cut_short_error(path: str, end: int) -> DataError:
    return DataError(
        f"{path} ends before byte {end}: it was cut short after it was opened.",
        remedy="Write it again, and do not change it while it is read.",
    )


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _copy(array: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    if array.dtype == out.dtype:
        np.take(array, rows, axis=0, out=out, mode="clip")  # checked already; "raise" would copy twice
    else:
        out[...] = array[rows]


def _read(place: _Place, rows: np.ndarray, order: np.ndarray, out: np.ndarray) -> None:
    """Fills `out[order]` with these rows, which are sorted."""
    room = max(1, SCRATCH // place.stride)  # rows
    gaps = np.diff(rows)
    is_near = gaps <= max(1, _NEAR // place.stride)
    # Where each row would stand if everything that is read lay in one long scratch: beside the row before it
    # if that is far away, else as far from it as in the file, for what lies between is read too.
    slots = np.concatenate([[0], np.cumsum(np.where(is_near, gaps, 1))])
    scratch = np.empty(min(room, int(slots[-1]) + 1) * place.stride, dtype=np.uint8)
    shape = (len(scratch) // place.stride, *place.like.shape[1:])
    strides = (place.stride, *place.like.strides[1:])
    found = np.ndarray(shape, place.like.dtype, buffer=scratch, strides=strides)
    buffer, start = scratch.data, 0
    while start < len(rows):
        end = int(np.searchsorted(slots, slots[start] + room))  # rows that fit into the scratch
        at = slots[start:end] - slots[start]
        begins = np.concatenate([[start], start + 1 + np.flatnonzero(~is_near[start : end - 1])])
        ends = np.concatenate([begins[1:], [end]])
        sizes = (rows[ends - 1] - rows[begins]) * place.stride + place.extent
        for to, begin, size in zip(
            (at[begins - start] * place.stride).tolist(),
            (place.offset + rows[begins] * place.stride).tolist(),
            sizes.tolist(),
            strict=True,
        ):
            _fill(place, buffer[to : to + size], begin)
        out[order[start:end]] = found[at]
        start = end


def _fill(place: _Place, buffer: memoryview, begin: int) -> None:
    done = 0
    while done < len(buffer):
        try:
            count = os.preadv(place.descriptor, [buffer[done:]], begin + done)
        except OSError as error:
            raise DataError(
                f"Cannot read {place.path}: {error.strerror}.", remedy="Check the disk it is on."
            ) from error
        if not count:
            raise _cut_short_error(place.path, begin + len(buffer))
        done += count
