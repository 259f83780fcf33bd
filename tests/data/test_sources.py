"""Whatever holds the rows: the numbers of plain arrays, and a sentence for what cannot be drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.dataset import Dataset, as_dataset, have_rows_in_common
from reticent.data.disk_rows import DiskRows
from reticent.data.lazy_rows import LazyColumn

ROWS = 7
AGES = np.arange(ROWS, dtype=np.int64) + 20
SIZES = np.linspace(-1, 1, ROWS)
PLAIN = {"age": AGES, "size": SIZES}


class Source:
    """A map-style source that notes what it is asked for."""

    def __init__(self, records: list[Any]) -> None:
        self.records, self.asked = records, []

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, number: int) -> Any:
        self.asked.append(number)
        return self.records[number]


def source(count: int = ROWS) -> Source:
    return Source([{"x": np.full((2, 3), i, np.float32), "y": i % 2} for i in range(count)])


# Tables


@pytest.mark.parametrize("kind", ["pandas", "nullable", "arrow in pandas", "arrow", "chunks"])
def test_a_table_gives_its_columns_by_name(kind: str):
    table: Any = {
        "pandas": lambda: pd.DataFrame(PLAIN),
        "nullable": lambda: pd.DataFrame(PLAIN).convert_dtypes(),
        "arrow in pandas": lambda: pd.DataFrame(PLAIN).convert_dtypes(dtype_backend="pyarrow"),
        "arrow": lambda: pa.table(PLAIN),
        "chunks": lambda: pa.concat_tables([pa.table(PLAIN).slice(0, 3), pa.table(PLAIN).slice(3)]),
    }[kind]()
    data = Dataset(table)
    assert {key: (data[key].dtype, data[key].tolist()) for key in data} == {
        key: (column.dtype, column.tolist()) for key, column in PLAIN.items()
    }
    assert list(Dataset(table, names=["size"])) == ["size"]
    as_matrix = Dataset({"x": table, "y": table["age"]}, users=table["age"])
    assert np.array_equal(as_matrix["x"], np.stack([AGES, SIZES], axis=1))
    assert np.array_equal(as_matrix["y"], AGES)
    assert np.array_equal(np.asarray(as_matrix.users), AGES)


def test_a_column_of_lists_of_one_length_is_a_matrix():
    column = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    assert Dataset({"x": column})["x"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(DataError, match="lists that may differ in length"):
        Dataset({"x": pa.array([[1.0], [2.0, 3.0]])})


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_missing_cells_are_nan_where_the_kind_has_one_and_an_error_elsewhere(kind: str):
    cells: dict[str, Any] = {"size": [1.0, None], "age": [1, None]}
    if kind == "arrow":
        table: Any = pa.table({"size": pa.array(cells["size"]), "age": pa.array(cells["age"], pa.int32())})
    else:
        table = pd.DataFrame(cells).astype({"size": "Float32", "age": "Int32"})
    assert np.isnan(Dataset(table, names=["size"])["size"][1])
    with pytest.raises(DataError, match="'age' of dataset 'data' has missing cells"):
        Dataset(table)


def test_text_in_a_table_is_named_and_users_may_be_text():
    table = pd.DataFrame({"age": [1, 2], "city": ["Oslo", "Rome"], "kind": pd.Categorical(["a", "b"])})
    with pytest.raises(DataError, match=r"columns that are not numbers \(city: \S+, kind: object\)"):
        Dataset(table)
    data = Dataset({"age": table["age"]}, users=table["city"])
    assert (data.unit, list(np.asarray(data.users))) == ("user", ["Oslo", "Rome"])
    with pytest.raises(DataError, match="several columns named age"):
        Dataset(pd.DataFrame([[1, 2]], columns=["age", "age"]))


# Sparse matrices, arrays in files, tensors


def test_a_sparse_matrix_is_dense_only_where_rows_are_read():
    dense = np.random.default_rng(0).poisson(0.3, (ROWS, 5)).astype(np.float32)
    for matrix in (scipy.sparse.csc_matrix(dense), scipy.sparse.coo_array(dense)):
        data = Dataset({"x": matrix, "y": AGES})
        assert isinstance(data["x"], LazyColumn)
        assert data.nbytes == dense.nbytes + AGES.nbytes
        assert np.array_equal(data["x"][[4, 0, 4]], dense[[4, 0, 4]])
        assert np.array_equal(data.take(slice(2, 5)).load()["x"], dense[2:5])
        assert np.array_equal(np.asarray(data["x"]), dense)
    assert data.assumptions == ()


def test_an_entry_outside_a_sparse_matrix_does_not_reach_another_row():
    outside = scipy.sparse.csr_matrix(([7.0, 8.0], [4, 0], [0, 1, 1, 2]), shape=(3, 3))
    with pytest.raises(DataError, match="lie outside it"):
        Dataset({"x": outside})


class RisingOnly:
    """An array as HDF5 has it: rows in rising order, none twice."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, rows: Any) -> np.ndarray:
        assert isinstance(rows, slice) or (np.diff(rows) > 0).all()
        return self._array[rows]


def test_an_array_in_a_file_is_asked_in_rising_order():
    data = Dataset({"x": RisingOnly(SIZES), "y": AGES})
    assert data["x"][[3, 1, 3, -1]].tolist() == SIZES[[3, 1, 3, -1]].tolist()
    assert data.read(np.array([5, 0]))["x"].tolist() == SIZES[[5, 0]].tolist()
    assert data["x"][[]].shape == (0,)
    wrong: Any
    for wrong in ([ROWS], [-ROWS - 1], [0.5], [[1]]):
        with pytest.raises(InvalidArgument):
            data["x"][wrong]


def test_a_masked_array_is_refused():
    with pytest.raises(DataError, match="has a mask"):
        Dataset({"x": np.ma.masked_array([1, 2], [True, False])})


# Sources of records


def test_a_record_is_opened_once_for_all_of_its_parts(tmp_path: Path):
    given = source()
    data = Dataset(given)
    assert repr(data).endswith("x: float32[7, 2, 3], y: int64[7])")
    given.asked.clear()
    out = {"x": np.empty((3, 2, 3), np.float32), "y": np.empty(3, np.int64)}
    with DiskRows(data.arrays) as rows:
        rows.take(np.array([6, 2, 3]), out)
    assert given.asked == [6, 2, 3]
    assert out["y"].tolist() == [0, 0, 1]
    assert out["x"][:, 0, 0].tolist() == [6, 2, 3]
    assert "one record of the data" in data.assumptions[0]
    assert data.take([1, 2]).assumptions == data.assumptions


def test_rows_that_are_chosen_are_read_later_and_known_again():
    given = source()
    data = Dataset(given)
    given.asked.clear()
    held_out, rest = data.take(slice(0, 3)), data.take(slice(2, None)).take(slice(1, None))
    assert given.asked == []
    assert not have_rows_in_common(held_out["x"], rest["x"])
    assert have_rows_in_common(held_out["x"], data["x"])
    assert not have_rows_in_common(held_out["x"], np.zeros((3, 2, 3)))
    assert rest.load()["y"].tolist() == [1, 0, 1, 0]
    assert given.asked == [3, 4, 5, 6]


def test_parts_without_names_are_given_some():
    pairs = Source([(np.zeros(2), 1), (np.ones(2), 0)])
    with pytest.raises(DataError, match=r"2 parts without names.*names=\['x', 'y'\]"):
        Dataset(pairs)
    assert Dataset(pairs, names=["x", "y"]).load()["y"].tolist() == [1, 0]
    assert list(Dataset(source(), names=["y"])) == ["y"]
    with pytest.raises(DataError, match=r"no part 'z'.*Its parts: x, y"):
        Dataset(source(), names=["z"])


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"x": np.zeros(3)}, r"'x' is float64\[3\] in record 1 of 'data', and int64\[2\] in the first"),
        ({"x": np.array([1.5, 2.5])}, r"'x' is float64\[2\] in record 1"),
        ({"z": 1}, "Record 1 of 'data' has no part 'x'"),
        (None, "Record 1 of 'data' is filtered out"),
        ({"x": ["a", "b"]}, "not an array of numbers"),
    ],
)
def test_a_record_that_differs_is_named(record: Any, words: str):
    data = Dataset(Source([{"x": np.array([1, 2])}, record]))
    with pytest.raises(DataError, match=words):
        data.load()


class OneBuffer(Source):
    """Hands out the same memory for every record."""

    def __init__(self, count: int) -> None:
        super().__init__([None] * count)
        self.memory = np.zeros(2, np.float32)

    def __getitem__(self, number: int) -> Any:
        self.memory[:] = number
        return {"x": self.memory}


def test_a_record_is_copied_before_the_next_is_asked_for_and_may_be_asked_for_twice():
    data = Dataset(OneBuffer(ROWS))
    wanted = np.array([3, 0, 0, 5, 0])
    assert data.read(wanted)["x"][:, 0].tolist() == wanted.tolist()


def test_no_record_decides_how_another_is_rounded():
    """Stacked with a float, a whole number would become float64 first, and be rounded twice."""
    whole = 2**60 + 2**36 + 1  # just above the middle between two floats of 32 bits
    data = Dataset(Source([{"x": np.float32(0)}, {"x": np.int64(whole)}, {"x": np.float64(1e300)}]))
    alone = data.read(np.array([1]))["x"][0]
    assert data.read(np.arange(3))["x"][1] == alone == np.int64(whole).astype(np.float32)
    assert data.read(np.array([2]))["x"][0] == np.inf


# What cannot be drawn from


class Endless(Source):
    def __len__(self) -> int:
        return 2**63 - 1


class IterableDataset(Source):
    """As torch has it: a stream that inherits an index."""


def numbers() -> Iterator[dict[str, int]]:
    yield {"x": 1}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (numbers(), "gives records one after the other.*open_memmap"),
        (IterableDataset([{"x": 1}]), "one after the other"),
        (Endless([{"x": 1}]), "repeats endlessly"),
        ([], "has no records"),
        (np.zeros(3), "must be named arrays, got ndarray"),
        (pd.Series([1.0]), "must be named arrays, got Series"),
        (3, "got int"),
        ("rows.csv", "got str"),
    ],
    ids=["generator", "stream", "repeated", "empty", "array", "series", "number", "path"],
)
def test_what_cannot_be_drawn_from_is_refused_in_words(data: Any, words: str):
    with pytest.raises(DataError, match=f"(?s){words}"):
        as_dataset(data, "data")
