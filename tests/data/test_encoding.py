"""A row becomes what the domain says, whatever the other rows are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from reticent.core.errors import DataError, DomainError
from reticent.data.buckets import bucket_of
from reticent.data.dataset import Dataset
from reticent.data.domain import Category, Domain, Ignored, Integer, Label, Number
from reticent.data.encoding import Encoder, encode, feature_names
from reticent.data.files import open_table
from reticent.runs.problem import of_table

DOMAIN = Domain(
    columns={
        "age": Integer(bounds=(0, 100), missing=True),
        "work": Category(values=("state", "private"), missing=True),
        "name": Ignored(),
        "gain": Number(bounds=(-1, 3)),
        "sick": Label(values=("no", "yes")),
    },
    target="sick",
)


def encoded(tmp_path: Path, text: str, domain: Domain = DOMAIN, **settings) -> Dataset:
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    return encode(open_table(tmp_path / "table.csv", expected=domain.columns), domain, **settings)


def test_numbers_categories_and_missing_cells_have_their_features(tmp_path) -> None:
    data = encoded(
        tmp_path,
        "sick,age,work,name,gain\n"
        "yes,100,private,Ann,3\n"
        "no,?,state,Bob,-1\n"
        "no,50,,Cy,1\n"
        "yes,120,church,Di,-7\n",
    )
    assert feature_names(DOMAIN) == (
        *("age", "age = (missing)", "work = state", "work = private"),
        *("work = (other)", "work = (missing)", "gain"),
    )
    assert data["x"].tolist() == [
        [1, 0, 0, 1, 0, 0, 1],
        [0, 1, 1, 0, 0, 0, -1],
        [0, 0, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 1, 0, -1],
    ]
    assert data["x"].dtype == np.float32
    assert data["y"].tolist() == [1, 0, 0, 1]
    assert data["y"].dtype == np.int32
    assert data.name == "table.csv"


def test_a_numeric_target_is_clipped_and_keeps_its_units(tmp_path) -> None:
    domain = Domain(columns={"a": Number(bounds=(0, 1)), "b": Number(bounds=(0, 500))}, target="b")
    data = encoded(tmp_path, "a,b\n0.5,450\n1,999\n", domain)
    assert data["y"].tolist() == [450, 500]
    assert data["y"].dtype == np.float32
    assert data["x"].tolist() == [[0], [1]]


def test_another_target_can_be_named(tmp_path) -> None:
    domain = Domain(columns={"a": Number(bounds=(0, 1)), "b": Category(values=("x", "y"))})
    assert set(encoded(tmp_path, "a,b\n0,y\n1,x\n", domain)) == {"x"}
    data = encoded(tmp_path, "a,b\n0,y\n1,x\n", domain, target="b")
    assert data["y"].tolist() == [1, 0]
    assert data["x"].tolist() == [[-1], [1]]


def test_decimal_commas_are_numbers(tmp_path) -> None:
    domain = Domain(columns={"a": Number(bounds=(0, 1)), "b": Number(bounds=(0, 10))})
    assert encoded(tmp_path, "a;b\n0,5;10\n0,25;0\n", domain)["x"].tolist() == [[0, 1], [-0.5, -1]]


def test_the_same_table_encodes_the_same_from_every_format(tmp_path) -> None:
    n, c, y = [1, 5, 9], [1.0, 2.0, 1.0], [0, 1, 1]
    domain = Domain(
        columns={
            "n": Integer(bounds=(0, 10)),
            "c": Category(values=("1", "2")),
            "y": Label(values=("0", "1")),
        },
        target="y",
    )
    (tmp_path / "t.csv").write_text("n,c,y\n1,1,0\n5,2,1\n9,1,1\n")
    parquet.write_table(pa.table({"n": n, "c": c, "y": y}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", n=n, c=c, y=y)
    results = [encode(open_table(tmp_path / f"t.{kind}"), domain) for kind in ("csv", "parquet", "npz")]
    for result in results:
        assert result["x"].tolist() == results[0]["x"].tolist()
        assert result["y"].tolist() == [0, 1, 1]


def test_arrays_can_be_left_on_disk(tmp_path) -> None:
    text = "sick,age,work,name,gain\n" + "yes,100,private,Ann,3\nno,?,state,Bob,-1\n" * 50
    in_memory = encoded(tmp_path, text)
    on_disk = encoded(tmp_path, text, into=tmp_path / "arrays")
    assert isinstance(on_disk["x"], np.memmap)
    assert np.array_equal(on_disk["x"], in_memory["x"])
    assert np.array_equal(on_disk["y"], in_memory["y"])
    assert sorted(path.name for path in (tmp_path / "arrays").iterdir()) == ["x.npy", "y.npy"]


def test_progress_ends_at_one(tmp_path) -> None:
    seen: list[float] = []
    encoded(tmp_path, "sick,age,work,name,gain\nyes,1,state,A,1\n", on_progress=seen.append)
    assert seen[-1] == 1.0


def test_a_table_that_grows_while_it_is_read_is_refused(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    table = open_table(path)
    assert table.row_count == 1
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(DataError, match="changed while it was read"):
        encode(table, Domain(columns={"a": Number(bounds=(0, 1))}))


def test_a_domain_without_features_is_refused() -> None:
    with pytest.raises(DomainError, match="no column is a feature"):
        Encoder(Domain(columns={"y": Label(values=("a", "b"))}, target="y"))


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(bounds=st.tuples(finite, finite).map(sorted).map(tuple), cells=st.lists(finite, min_size=1))
def test_every_number_lands_between_minus_one_and_one_in_order(tmp_path_factory, bounds, cells) -> None:
    path = tmp_path_factory.mktemp("numbers") / "t.npz"
    np.savez(path, a=np.array(cells))
    x = encode(open_table(path), Domain(columns={"a": Number(bounds=bounds)}))["x"][:, 0]
    assert np.all((x >= -1) & (x <= 1))
    order = np.argsort(cells, kind="stable")
    assert np.all(np.diff(x[order]) >= 0)


records = st.lists(
    st.tuples(
        st.sampled_from(["yes", "no"]),
        st.integers(-50, 150).map(str) | st.just("?"),
        st.sampled_from(["state", "private", "church", ""]),
        st.floats(-5, 5).map(repr),
    ),
    min_size=1,
    max_size=20,
)


@given(records=records, data=st.data())
def test_a_record_moves_only_its_own_row(tmp_path_factory, records, data) -> None:
    folder = tmp_path_factory.mktemp("rows")
    lines = [f"{sick},{age},{work},x,{gain}" for sick, age, work, gain in records]
    header = "sick,age,work,name,gain\n"
    whole = encoded(folder, header + "\n".join(lines))
    row = data.draw(st.integers(0, len(lines) - 1))
    alone = encoded(folder, header + lines[row])
    assert np.array_equal(whole["x"][row], alone["x"][0])
    assert whole["y"][row] == alone["y"][0]
    # Each row: a category or nothing is hot, and every feature is within the unit cube.
    assert np.all(np.abs(whole["x"]) <= 1)
    assert np.all(whole["x"][:, 2:6].sum(axis=1) == 1)


def test_where_the_domain_is_lenient_what_cannot_be_read_counts_as_missing(tmp_path) -> None:
    text = "a,b,y\n1,2,yes\nlots,inf,no\n3,-,maybe\n4,5,\n"
    columns = {
        "a": Number(bounds=(0, 4), missing=True, lenient=True),
        "b": Number(bounds=(0, 10), missing=True, lenient=True),
        "y": Label(values=("no", "yes"), lenient=True),
    }
    data = encoded(tmp_path, text, Domain(columns=columns, target="y"))
    expected = np.array([[-0.5, 0, -0.6, 0], [0, 1, 0, 1], [0.5, 0, 0, 1], [1, 0, 0, 0]])
    assert data["x"] == pytest.approx(expected)
    assert data["y"].tolist() == [1, 0, -1, -1]
    number = encoded(tmp_path, text, Domain(columns={"b": columns["b"], "a": columns["a"]}, target="a"))
    assert np.isnan(number["y"]).tolist() == [False, True, False, False]
    strict = Domain(columns={"a": Number(bounds=(0, 4), missing=True), "b": columns["b"]})
    with pytest.raises(DataError, match="'lots' is not a number"):
        encoded(tmp_path, text, strict)


def test_leniency_is_written_down(tmp_path) -> None:
    domain = Domain(columns={"a": Number(bounds=(0, 1), lenient=True), "b": Number(bounds=(0, 1))})
    domain.write(tmp_path / "d.toml")
    read = Domain.read(tmp_path / "d.toml")
    assert (read.columns["a"], read.columns["b"]) == (domain.columns["a"], domain.columns["b"])
    assert (tmp_path / "d.toml").read_text().count("lenient") == 1


def test_a_date_is_a_number_of_days_within_its_bounds(tmp_path) -> None:
    domain = Domain(columns={"day": Number.of_dates("2024-01-01", "2024-01-11")})
    text = "day\n2024-01-01\n06.01.2024\n2024-01-11T23:00:00Z\n1999-12-31\n01/06/2024\n01/13/2024\n"
    assert encoded(tmp_path, text, domain)["x"][:, 0].tolist() == [-1, 0, 1, -1, 0, 1]
    with pytest.raises(DataError, match="line 3, column 'day': '2024-02-30' is not a date"):
        encoded(tmp_path, "day\n2024-01-01\n2024-02-30\n", domain)
    lenient = Domain(columns={"day": Number.of_dates("2024-01-01", "2024-01-11", lenient=True, missing=True)})
    assert encoded(tmp_path, "day\n2024-01-11\nsoon\n", lenient)["x"].tolist() == [[1, 0], [0, 1]]


def test_booleans_are_words_and_numbers_whatever_file_they_are_in(tmp_path) -> None:
    words = Domain(columns={"a": Category(values=("False", "True"), other=False)}, ignore_case=True)
    numbers = Domain(columns={"a": Integer(bounds=(0, 1))})
    parquet.write_table(pa.table({"a": [True, False, True]}), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text('{"a": true}\n{"a": false}\n{"a": true}\n')
    (tmp_path / "t.csv").write_text("a\nTrue\nFalse\nTRUE\n")
    for name in ("t.parquet", "t.jsonl", "t.csv"):
        table = open_table(tmp_path / name, header=True if name == "t.csv" else None)
        assert encode(table, words)["x"].tolist() == [[0, 1], [1, 0], [0, 1]]
        assert encode(table, numbers)["x"][:, 0].tolist() == [1, -1, 1]


def test_a_word_that_a_column_lists_is_not_missing(tmp_path) -> None:
    listed = Domain(columns={"a": Category(values=("none", "some"), other=False)})
    assert encoded(tmp_path, "a\nnone\nsome\n", listed)["x"].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(DataError, match="is missing"):
        encoded(tmp_path, "a\nsome\n-\n", listed)


def test_ordered_words_share_one_feature(tmp_path) -> None:
    pain = Category(values=("none", "mild", "severe"), ordered=True, missing=True)
    domain = Domain(columns={"pain": pain})
    assert feature_names(domain) == ("pain", "pain = (other)", "pain = (missing)")
    x = encoded(tmp_path, "pain\nnone\nmild\nsevere\nawful\n?\n", domain)["x"]
    assert x.tolist() == [[0, 0, 0], [0.5, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    told = Domain(
        columns={"pain": Category(values=pain.values, ordered=True, other=False, prior=(0.25, 0.5, 0.25))}
    )
    assert encoded(tmp_path, "pain\nsevere\nawful\n?\n", told)["x"][:, 0].tolist() == [1, 0.5, 0.5]
    assert Domain.from_toml(told.to_toml()) == told
    with pytest.raises(DomainError, match="'ordered': its values are not declared"):
        Domain(columns={"pain": Category(ordered=True)})


def test_the_month_and_the_weekday_of_a_date_are_features_of_their_own(tmp_path: Path) -> None:
    """A row is no longer than the problem's scale allows: linear models rest on that."""
    (tmp_path / "t.csv").write_text("seen,sick\n2024-02-29,no\n1999-12-31 23:59,yes\n,no\n")
    seen = Number.of_dates("2000-01-01", "2024-12-31", missing=True, parts=("month", "weekday"))
    domain = Domain(columns={"seen": seen, "sick": Label(values=("no", "yes"))}, target="sick")
    assert Domain.from_toml(domain.to_toml(), source="t").columns == domain.columns
    rows, names = encode(open_table(tmp_path / "t.csv"), domain)["x"], feature_names(domain)
    marked = [[names[at] for at in np.flatnonzero(row == 1)] for row in rows]
    assert len(names) == 2 + 12 + 7
    assert marked[0] == ["seen (month) = February", "seen (weekday) = Thursday"]
    assert marked[1] == ["seen (month) = December", "seen (weekday) = Friday"]
    assert marked[2] == ["seen = (missing)"]
    problem = of_table(domain, len(names), 3)
    assert problem.columns == (-2, 12, 7)
    assert np.linalg.norm(rows * problem.scale, axis=1).max() <= 1 + 1e-6
    with pytest.raises(DomainError, match="only dates have parts"):
        Domain(columns={"a": Number(bounds=(0.0, 1.0), parts=("month",))})


def test_thousands_of_words_are_sorted_into_buckets_by_a_public_hash(tmp_path: Path) -> None:
    """Golden places: a hash that changed would scramble every model that was released."""
    domain = Domain(columns={"city": Category(buckets=64, missing=True)}, ignore_case=True)
    data = encoded(tmp_path, "city\ncologne\nCOLOGNE\n bonn \n\nköln\n?\n", domain)
    places = data["x"].argmax(axis=1)
    assert data["x"].sum(axis=1).tolist() == [1.0] * len(data["x"])
    assert places[[0, 1]].tolist() == [bucket_of("cologne", 64)] * 2
    assert places[-1] == 64  # missing
    assert (bucket_of("Cologne", 64), bucket_of("Bonn", 64), bucket_of("", 4096)) == (3, 61, 692)
    assert Domain.from_toml(domain.to_toml()).columns == domain.columns
    many = np.bincount([bucket_of(f"city{number}", 16) for number in range(4096)], minlength=16)
    assert many.min() > 170  # 256 expected: below 170 with probability 1e-6
    for wrong in (1, 5000, True, "64"):
        with pytest.raises(DomainError, match="not a number of buckets"):
            Category(buckets=wrong)  # pyright: ignore[reportArgumentType]
