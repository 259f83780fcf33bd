"""Parquet, NumPy and libsvm files give the same kind of table as text does."""

from __future__ import annotations

import datetime
import gzip

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.files import Table, arrays, libsvm, open_table


def columns_of(table: Table) -> dict[str, list]:
    found: dict[str, list] = {name: [] for name in table.names if name not in table.unsupported}
    for rows in table.batches():
        assert rows.first == len(next(iter(found.values())))
        for name, cells in rows.batch.to_pydict().items():
            found[name] += cells
    return found


def test_parquet_columns_come_as_text_or_numbers(tmp_path) -> None:
    day = datetime.date(2024, 5, 1)
    content = {
        "count": pa.array([1, None, 3], type=pa.int16()),
        "share": pa.array([0.5, 1.5, None]),
        "is_new": pa.array([True, False, None]),
        "word": pa.array([" a ", "b", None]),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "day": pa.array([day, day, None]),
        "list": pa.array([[1], [2], [3]]),
    }
    parquet.write_table(pa.table(content), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    assert columns_of(table) == {
        "count": [1, None, 3],
        "share": [0.5, 1.5, None],
        "is_new": ["true", "false", None],
        "word": ["a", "b", None],
        "kind": ["x", "y", "x"],
        "day": ["2024-05-01", "2024-05-01", None],
    }
    assert set(table.unsupported) == {"list"}
    with pytest.raises(DataError, match=r"column 'list' holds list.*ignored"):
        list(table.batches(["list"]))


def test_parquet_row_groups_are_numbered_through(tmp_path) -> None:
    parquet.write_table(pa.table({"n": range(1000)}), tmp_path / "t.parquet", row_group_size=64)
    table = open_table(tmp_path / "t.parquet")
    assert columns_of(table) == {"n": list(range(1000))}
    assert table.row_count == 1000
    assert table.place(7) == "row 8"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_become_columns(tmp_path, monkeypatch, save, order) -> None:
    monkeypatch.setattr(arrays, "_SLICE", 64)
    x = np.asarray(np.arange(60, dtype=">i4").reshape(20, 3), order=order)
    content = {
        "x": x,
        "word": np.array(["a", "bé"] * 10),
        "raw": np.array([b"a", b"b"] * 10),
        "flag": np.arange(20) % 2 == 0,
        "half": np.linspace(0, 1, 20, dtype=np.float16),
    }
    save(tmp_path / "t.npz", **content)
    table = open_table(tmp_path / "t.npz")
    assert table.names == ("x_1", "x_2", "x_3", "word", "raw", "flag", "half")
    found = columns_of(table)
    assert np.array_equal(np.stack([found[f"x_{i}"] for i in (1, 2, 3)], axis=1), x)
    assert found["word"] == ["a", "bé"] * 10
    assert found["raw"] == ["a", "b"] * 10
    assert found["flag"] == [1, 0] * 10
    assert np.allclose(found["half"], content["half"])


def test_a_single_array_is_a_table(tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.eye(3))
    assert columns_of(open_table(tmp_path / "t.npy"))["column_2"] == [0.0, 1.0, 0.0]


def test_an_array_of_dates_is_named_as_unsupported(tmp_path) -> None:
    np.savez(tmp_path / "t.npz", day=np.array(["2024-01-01"], dtype="M8[D]"), n=np.array([1]))
    assert set(open_table(tmp_path / "t.npz").unsupported) == {"day"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_libsvm_is_written_out_in_full(tmp_path, monkeypatch, pack) -> None:
    monkeypatch.setattr(libsvm, "_BLOCK", 16)
    monkeypatch.setattr(libsvm, "_CELLS", 4)
    (tmp_path / "t").write_bytes(pack(b"-1 1:1 3:0.5 # comment\n\n+1\n+1 2:-2e1 \r\n-1 1:7"))
    table = open_table(tmp_path / "t")
    assert columns_of(table) == {
        "label": [-1, 1, 1, -1],
        "feature_1": [1, 0, 0, 7],
        "feature_2": [0, 0, -20, 0],
        "feature_3": [0.5, 0, 0, 0],
    }
    assert [table.place(row) for row in range(4)] == ["line 1", "line 3", "line 4", "line 5"]


def test_libsvm_counted_from_zero_keeps_feature_0(tmp_path) -> None:
    (tmp_path / "t").write_bytes(b"1 0:1 1:2\n0 1:3\n")
    assert columns_of(open_table(tmp_path / "t"))["feature_0"] == [1, 0]


def test_no_line_of_libsvm_decides_whether_declared_features_can_be_read(tmp_path) -> None:
    declared = ["label", *(f"feature_{i}" for i in range(6))]
    for lines in ("1 1:2 5:3\n0 2:1\n", "1 1:2\n0 2:1\n", "1\n0 0:4\n"):
        (tmp_path / "t").write_text(lines)
        table = libsvm.LibsvmTable(tmp_path / "t")
        before = columns_of(table)
        table.require(declared)
        assert table.names == tuple(declared)
        assert columns_of(table) == {name: before.get(name, [0.0, 0.0]) for name in declared}
        for wrong in (["feature_99"], ["label", f"feature_{libsvm.WIDEST + 1}"], ["label", "feature_05"]):
            with pytest.raises(DataError, match="has no column"):
                table.require(wrong)


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([-1, 1]),
            st.dictionaries(st.integers(1, 9), st.floats(-1e6, 1e6), min_size=1),
        ),
        min_size=1,
    )
)
def test_any_sparse_table_survives_libsvm(tmp_path_factory, rows) -> None:
    lines = [f"{label} " + " ".join(f"{i}:{v!r}" for i, v in sorted(pairs.items())) for label, pairs in rows]
    path = tmp_path_factory.mktemp("libsvm") / "t"
    path.write_text("\n".join(lines))
    found = columns_of(open_table(path))
    assert found["label"] == [label for label, _ in rows]
    for i in range(1, len(found)):
        assert found[f"feature_{i}"] == [pairs.get(i, 0.0) for _, pairs in rows]
