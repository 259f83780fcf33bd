"""Rows taken from disk are the rows that indexing gives, and leave nothing behind in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.data import disk_rows
from reticent.data.disk_rows import DiskRows, is_on_disk


def on_disk(path: Path, array: np.ndarray) -> np.ndarray:
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def taken(array: np.ndarray, rows: object, *, threads: int = 4) -> np.ndarray:
    numbers = np.asarray(rows)
    out = np.empty((len(numbers), *array.shape[1:]), dtype=array.dtype)
    with DiskRows({"x": array}, threads=threads) as source:
        source.take(numbers, {"x": out})
    return out


ROWS = {
    "random": np.random.default_rng(0).permutation(1000)[:700],
    "repeated": np.random.default_rng(1).integers(0, 1000, 5000),
    "all, backwards": np.arange(999, -1, -1),
    "one": np.array([999]),
    "the same again": np.full(300, 17),
    "none": np.array([], dtype=np.int64),
    "small numbers": np.array([3, 1, 2], dtype=np.uint8),
}
KINDS = ["float32", "float64", "int8", "uint16", ">i4", "bool", "complex64", "U5", "S3"]


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("threads", [1, 4])
def test_rows_are_those_that_indexing_gives(tmp_path, rows, threads) -> None:
    array = on_disk(tmp_path / "x.npy", np.random.default_rng(2).normal(size=(1000, 7)).astype(np.float32))
    assert np.array_equal(taken(array, rows, threads=threads), array[rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1000,), (1000, 3), (1000, 2, 5), (1000, 1500)])
def test_every_kind_and_shape(tmp_path, kind, shape) -> None:
    array = on_disk(tmp_path / "x.npy", np.random.default_rng(3).integers(0, 100, shape).astype(kind))
    rows = np.random.default_rng(4).integers(0, 1000, 200)
    assert np.array_equal(taken(array, rows), array[rows])


VIEWS = {
    "a part": lambda a: a[100:900],
    "a part of a part": lambda a: a[100:][5:800],
    "every third row": lambda a: a[::3],
    "some columns": lambda a: a[:, 5:9],
    "every second column": lambda a: a[:, 1::2],
    "one column": lambda a: a[:, 3],
    "columns turned": lambda a: a.reshape(1000, 4, 5).transpose(0, 2, 1),
    "a plain array": lambda a: np.asarray(a)[7:],
    "other numbers": lambda a: a.view(np.int32),
    "one row": lambda a: a[400:401],
    "no columns": lambda a: a[:, :0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("offset", [0, 16, 4096, 5000, 3 * 4096 + 8])
def test_views_and_offsets(tmp_path, view, offset) -> None:
    content = np.random.default_rng(5).normal(size=(1000, 20)).astype(np.float32)
    path = tmp_path / "raw"
    path.write_bytes(bytes(offset) + content.tobytes())
    array = view(np.memmap(path, dtype=np.float32, mode="r", offset=offset, shape=content.shape))
    assert is_on_disk(array)
    rows = np.random.default_rng(6).integers(0, len(array), 300)
    assert np.array_equal(taken(array, rows), view(content)[rows])


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_any_rows_whatever_the_size_of_the_scratch(tmp_path_factory, data) -> None:
    count, width = data.draw(st.integers(1, 400)), data.draw(st.integers(1, 40))
    array = on_disk(tmp_path_factory.mktemp("x") / "x.npy", np.arange(count * width).reshape(count, width))
    rows = np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=300)), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_rows, "SCRATCH", data.draw(st.sampled_from([1, 100, 1000, 10_000])))
        patch.setattr(disk_rows, "_NEAR", data.draw(st.sampled_from([1, 50, 4096])))
        patch.setattr(disk_rows, "_ROWS", data.draw(st.sampled_from([1, 7, 64])))
        assert np.array_equal(taken(array, rows), array[rows])


def test_arrays_on_disk_and_in_memory_are_taken_together(tmp_path) -> None:
    x = on_disk(tmp_path / "x.npy", np.random.default_rng(7).normal(size=(500, 4)))
    y = np.arange(500, dtype=np.int32)
    assert is_on_disk(x)
    assert not is_on_disk(y)
    assert not is_on_disk(x[np.array([1, 2])])
    rows = np.random.default_rng(8).integers(0, 500, 100)
    with DiskRows({"x": x, "y": y}) as source:
        out = {"x": np.full((120, 4), -1.0), "y": np.full(120, -1, dtype=np.int32)}
        source.take(rows, out)
        assert np.array_equal(out["x"][:100], x[rows])
        assert np.array_equal(out["y"][:100], y[rows])
        assert (out["x"][100:] == -1).all()
        assert (out["y"][100:] == -1).all()
        wide = {"x": np.empty((100, 4), dtype=np.float32), "y": np.empty(100)}
        source.take(rows, wide)
        assert np.array_equal(wide["x"], x[rows].astype(np.float32))
        assert np.array_equal(wide["y"], y[rows])


@pytest.mark.parametrize("wrong", [[-1], [0, 10], [2**40], [[1, 2]], [0.5]])
def test_rows_that_are_not_there_are_refused(tmp_path, wrong) -> None:
    for array in (on_disk(tmp_path / "x.npy", np.zeros((10, 2))), np.zeros((10, 2))):
        with DiskRows({"x": array}) as source, pytest.raises(InvalidArgument):
            source.take(np.array(wrong), {"x": np.empty((len(wrong), 2))})


@pytest.mark.parametrize(
    "into",
    [{"z": np.empty((2, 2))}, {"x": np.empty((1, 2))}, {"x": np.empty((2, 3))}, {"x": np.empty((2, 2), int)}],
)
def test_outputs_that_do_not_fit_are_refused(tmp_path, into) -> None:
    array = on_disk(tmp_path / "x.npy", np.zeros((10, 2)))
    with DiskRows({"x": array}) as source, pytest.raises(InvalidArgument):
        source.take(np.array([1, 2]), into)


def test_rows_scattered_over_the_file_are_refused(tmp_path) -> None:
    scattered = on_disk(tmp_path / "x.npy", np.asfortranarray(np.zeros((10, 2))))
    turned = on_disk(tmp_path / "y.npy", np.zeros((10, 2)))[::-1]
    copied = np.load(tmp_path / "y.npy", mmap_mode="c")
    for array in (scattered, turned, turned[::-1][:, ::-1], copied):
        with pytest.raises(InvalidArgument, match=r"C order|by its path"):
            DiskRows({"x": array})
    with pytest.raises(InvalidArgument, match="differ in length"):
        DiskRows({"x": np.zeros(3), "y": np.zeros(4)})


def test_a_file_that_shrank_or_went_is_an_error_and_not_the_end(tmp_path) -> None:
    array = on_disk(tmp_path / "x.npy", np.zeros((1000, 100)))
    with DiskRows({"x": array}) as source:
        os.truncate(tmp_path / "x.npy", 5000)
        with pytest.raises(DataError, match="cut short"):
            source.take(np.arange(1000), {"x": np.empty((1000, 100))})
        with pytest.raises(IntegrityError, match="changed after it was opened"):
            source.take(np.array([3]), {"x": np.empty((1, 100))})
    (tmp_path / "x.npy").unlink()
    with pytest.raises(DataError, match="Cannot read"):
        DiskRows({"x": array})


def test_a_disk_error_is_reported(tmp_path, monkeypatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with DiskRows({"x": on_disk(tmp_path / "x.npy", np.zeros((10, 2)))}) as source:
        monkeypatch.setattr(os, "preadv", fails)
        with pytest.raises(DataError, match="Input/output error"):
            source.take(np.array([1]), {"x": np.empty((1, 2))})


def test_short_reads_are_continued(tmp_path, monkeypatch) -> None:
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: whole(fd, [buffers[0][:13]], at))
    array = on_disk(tmp_path / "x.npy", np.random.default_rng(9).normal(size=(300, 10)))
    rows = np.random.default_rng(10).integers(0, 300, 500)
    assert np.array_equal(taken(array, rows), array[rows])


def test_closed_is_closed(tmp_path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    source = DiskRows({"x": on_disk(tmp_path / "x.npy", np.zeros((10, 2)))})
    source.close()
    source.close()
    with pytest.raises(InvalidArgument, match="closed"):
        source.take(np.array([1]), {"x": np.empty((1, 2))})
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the map's own


RESIDENT = """
import sys
import numpy as np
from reticent.data.disk_rows import DiskRows

def resident():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssFile")) / 1024

x = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(1 << 18, 1024))
order = np.random.default_rng(0).permutation(len(x))
out = {"x": np.ones((4096, 1024), dtype=np.float32)}
with DiskRows({"x": x}) as source:
    source.take(order[:4096], out)
    before = most = resident()
    for first in range(0, len(x), 4096):
        source.take(order[first : first + 4096], out)
        most = max(most, resident())
        assert not out["x"].any()
print(most - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.thorough
def test_resident_memory_stays_while_all_rows_of_a_gigabyte_are_taken(tmp_path) -> None:
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    said = subprocess.run(
        [sys.executable, "-c", RESIDENT, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert float(said.stdout) < 16  # MB: four threads with two each, and the allocator's slack


def take_some(array: np.ndarray) -> np.ndarray:
    return taken(array, [0, 5])


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_file_that_took_the_place_of_the_mapped_one_is_refused(tmp_path, kind) -> None:
    """Of the same size, or of another: what was mapped is still there, and its path leads elsewhere."""
    array = on_disk(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    np.save(tmp_path / "other.npy", np.full((6, 2), 7, kind))
    os.replace(tmp_path / "other.npy", tmp_path / "x.npy")
    with pytest.raises(IntegrityError, match="is not the file that array 'x' was mapped from"):
        take_some(array)
    assert array[5].tolist() == [10, 11]
    assert take_some(np.load(tmp_path / "x.npy", mmap_mode="r")).tolist() == [[7, 7], [7, 7]]


def test_a_copy_with_the_same_bytes_and_times_is_another_file(tmp_path) -> None:
    array = on_disk(tmp_path / "x.npy", np.zeros((6, 2)))
    shutil.copy2(tmp_path / "x.npy", tmp_path / "copy.npy")
    os.replace(tmp_path / "copy.npy", tmp_path / "x.npy")
    with pytest.raises(IntegrityError, match="is not the file"):
        take_some(array)


def test_a_file_that_was_moved_and_is_back_is_the_same(tmp_path) -> None:
    array = on_disk(tmp_path / "x.npy", np.ones((6, 2)))
    os.replace(tmp_path / "x.npy", tmp_path / "y.npy")
    with pytest.raises(DataError, match="Cannot read"):
        take_some(array)
    os.link(tmp_path / "y.npy", tmp_path / "x.npy")
    assert take_some(array).all()


def written_over(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(bytes(8))
    changed = os.stat(path).st_mtime_ns + 1  # a fast machine may write twice in one tick of its clock
    os.utime(path, ns=(changed, changed))


def appended_to(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(bytes(8))


@pytest.mark.parametrize("change", [written_over, appended_to])
def test_a_file_that_changed_after_it_was_opened_first_is_refused(tmp_path, change) -> None:
    array = on_disk(tmp_path / "x.npy", np.ones((6, 2)))
    with DiskRows({"x": array}) as source:
        source.take(np.array([0, 5]), {"x": np.empty((2, 2))})
        change(tmp_path / "x.npy")
        with pytest.raises(IntegrityError, match="changed after it was opened"):
            source.take(np.array([0, 5]), {"x": np.empty((2, 2))})
    with pytest.raises(IntegrityError, match="changed after it was opened"):
        take_some(array[1:])  # the next run, with a view of the same map
    take_some(np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_a_file_that_is_read_or_renamed_has_not_changed(tmp_path) -> None:
    array = on_disk(tmp_path / "x.npy", np.ones((6, 2)))
    with DiskRows({"x": array}) as source:
        os.chmod(tmp_path / "x.npy", 0o600)
        os.replace(tmp_path / "x.npy", tmp_path / "y.npy")
        out = np.zeros((1, 2))
        source.take(np.array([5]), {"x": out})
    assert out.all()


def test_rows_that_were_just_written_through_a_map_are_read(tmp_path) -> None:
    array = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(1000, 50))
    with DiskRows({"x": array}) as before:
        before.take(np.array([5]), {"x": np.empty((1, 50), np.float32)})
    array = np.lib.format.open_memmap(tmp_path / "y.npy", mode="w+", dtype=np.float32, shape=(1000, 50))
    array[:] = np.arange(1000)[:, None]
    with DiskRows({"x": array}) as source:
        for _ in range(3):
            out = np.zeros((1000, 50), np.float32)
            source.take(np.arange(1000), {"x": out})
            assert (out == np.arange(1000)[:, None]).all()


def test_a_file_of_another_size_is_refused_where_the_system_does_not_list_its_maps(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(disk_rows, "_MAPS", str(tmp_path / "nothing"))
    array = on_disk(tmp_path / "x.npy", np.zeros((6, 2)))
    take_some(array)
    array = on_disk(tmp_path / "y.npy", np.zeros((6, 2)))
    np.save(tmp_path / "other.npy", np.zeros((7, 2)))
    os.replace(tmp_path / "other.npy", tmp_path / "y.npy")
    with pytest.raises(IntegrityError, match="is not the file"):
        take_some(array)


def test_a_file_that_was_cut_short_before_it_was_opened_is_refused(tmp_path) -> None:
    for size in (0, 150):
        array = on_disk(tmp_path / "x.npy", np.zeros((6, 2)))
        os.truncate(tmp_path / "x.npy", size)
        with pytest.raises(DataError, match=r"ends before byte 224: it was cut short"):
            take_some(array)
