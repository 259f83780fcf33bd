"""Rows as codes: by the domain alone, and back without losing what a code says."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import DataError, DomainError
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.files import Table, open_table
from reticent.synthetic.tables.bins import bins_for
from reticent.synthetic.tables.codes import MANY_VALUES, MOST_VALUES, Coder

COLUMNS: dict[str, Column] = {
    "age": Integer(bounds=(0, 100)),
    "children": Integer(bounds=(0, 9), missing=True),
    "gain": Integer(bounds=(0, 99_999)),
    "weight": Number(bounds=(0.5, 120.0), missing=True),
    "change": Number(bounds=(-5000.0, 5000.0)),
    "job": Category(values=("cook", "judge"), missing=True),
    "town": Category(values=("Rome", "Oslo"), other=False),
    "sick": Label(values=("no", "yes")),
}
DOMAIN = Domain(columns=COLUMNS, target="sick")
HEADER = ",".join(COLUMNS)
ROWS = [
    "34,2,0,70.25,-3.5,cook,Rome,no",
    "99,,99999,,4999.5,pilot,Oslo,yes",
    "0,9,7,119.9,0,,Rome,no",
    "100,0,120,0.5,-5000,judge,Oslo,yes",
    "61,4,0,55,12,judge,Rome,no",
]


def table(path: Path, rows: list[str], header: str = HEADER) -> Table:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return open_table(path, header=True, delimiter=",")


def cells_as_table(path: Path, cells: dict[str, list[str]]) -> Table:
    return table(path, [",".join(row) for row in zip(*cells.values(), strict=True)], ",".join(cells))


def test_what_a_code_says_survives_decoding(tmp_path: Path) -> None:
    coder = Coder(DOMAIN)
    source = np.random.default_rng(0)
    codes = np.stack([source.integers(0, size, 3000) for size in coder.sizes], axis=1)
    again = coder.encode(cells_as_table(tmp_path / "made.csv", coder.decode(codes, source)))
    assert np.array_equal(again, codes)


def test_words_come_back_as_they_are_in_the_domain(tmp_path: Path) -> None:
    coder = Coder(DOMAIN)
    cells = coder.decode(coder.encode(table(tmp_path / "t.csv", ROWS)), np.random.default_rng(0))
    assert cells["job"] == ["cook", "(other)", "", "judge", "judge"]
    assert cells["town"] == ["Rome", "Oslo", "Rome", "Oslo", "Rome"]
    assert cells["sick"] == ["no", "yes", "no", "yes", "no"]
    assert cells["children"] == ["2", "", "9", "0", "4"]
    assert [cells["gain"][0], cells["gain"][4]] == ["0", "0"]  # a zero stays one
    assert cells["weight"][1] == ""
    assert all(len(cell.partition(".")[2]) == 2 for cell in cells["weight"] if cell)


def test_numbers_are_spread_over_their_bins(tmp_path: Path) -> None:
    bins = bins_for((0.0, 100.0), is_whole=False, bins=4)
    drawn = bins.decode(np.full(2000, 1), np.random.default_rng(0))
    assert 25 <= drawn.min() < 26
    assert 49 < drawn.max() <= 50
    whole = bins_for((1, 100), is_whole=True, bins=8)
    values = np.arange(1, 101)
    found = [whole.decode(np.full(500, code), np.random.default_rng(code)) for code in range(whole.size)]
    assert set(np.concatenate(found).tolist()) == set(values.tolist())  # no value is out of reach


def alone_and_together(encode, folder: Path) -> bool:
    """Whether each row has the same code alone as among others, and whoever they are."""
    together = encode(table(folder / "all.csv", ROWS))
    for at, row in enumerate(ROWS):
        others = [other for other in ROWS if other != row]
        alone = encode(table(folder / "one.csv", [row]))
        neighbour = encode(table(folder / "some.csv", [row, *others[1:]]))
        if not (np.array_equal(alone[0], together[at]) and np.array_equal(neighbour[0], together[at])):
            return False
    return True


def test_a_record_moves_its_own_row_and_no_other(tmp_path: Path) -> None:
    assert alone_and_together(Coder(DOMAIN).encode, tmp_path)


def test_bins_that_follow_the_data_would_be_caught(tmp_path: Path) -> None:
    def fitted(rows: Table) -> np.ndarray:  # the planted bug: bounds read off the column
        ages = np.array([float(c) for b in rows.batches(["age"]) for c in b.batch.column(0).to_pylist()])
        low, high = ages.min(), max(ages.max(), ages.min() + 1)
        return bins_for((low, high), is_whole=True, bins=4).encode(ages)[:, None]

    assert not alone_and_together(fitted, tmp_path)


@pytest.mark.parametrize("bounds", [(0, 99_999), (-5000, 5000), (-10_000, 0), (1000, 1001), (0, 10**15)])
@pytest.mark.parametrize("is_whole", [True, False])
def test_bins_cover_their_bounds_in_order(bounds: tuple[int, int], is_whole: bool) -> None:
    bins = bins_for(bounds, is_whole=is_whole)
    inside = np.linspace(*bounds, 1001)
    numbers = np.round(inside) if is_whole else inside
    codes = bins.encode(numbers)
    assert codes.min() >= 0
    assert codes.max() < bins.size <= 33
    kept = codes[numbers != 0] if bins.has_zero else codes
    assert (np.diff(kept) >= 0).all()
    drawn = bins.decode(codes, np.random.default_rng(1))
    assert (drawn >= bounds[0]).all()
    assert (drawn <= bounds[1]).all()
    assert np.array_equal(bins.encode(drawn)[drawn != 0], codes[drawn != 0])


def test_skewed_bounds_get_narrow_bins_near_zero() -> None:
    edges = bins_for((0, 99_999), is_whole=True).edges
    assert edges[1] - edges[0] < 100
    assert edges[-1] - edges[-2] > 10_000
    even = np.diff(bins_for((17, 90), is_whole=True).edges)
    assert even.max() <= even.min() + 1


def test_cells_outside_the_bounds_are_clipped(tmp_path: Path) -> None:
    coder = Coder(Domain(columns={"age": Number(bounds=(0, 10))}))
    codes = coder.encode(table(tmp_path / "t.csv", ["-4", "40", "5"], "age"))
    assert codes[:, 0].tolist() == [0, coder.sizes[0] - 1, 16]


def test_identifiers_and_free_text_are_refused_by_name() -> None:
    columns = COLUMNS | {"name": Ignored(reason="identifier"), "note": Ignored(reason="free text")}
    with pytest.raises(DomainError, match=r"name, note.*ignore="):
        Coder(Domain(columns=columns, target="sick"))
    kept = Coder(Domain(columns=columns, target="sick"), ignore=["name", "note"])
    assert kept.names == tuple(COLUMNS)
    assert kept.target == 7
    with pytest.raises(DomainError, match=r"note\.values.*identifiers and free text"):
        Coder(Domain(columns={"age": COLUMNS["age"], "note": Category()}))
    with pytest.raises(DomainError, match="no column is left"):
        Coder(Domain(columns={"age": COLUMNS["age"]}), ignore=["age"])


def test_many_values_are_warned_about_and_far_too_many_refused() -> None:
    many = Category(values=tuple(f"v{at}" for at in range(MANY_VALUES + 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coder = Coder(Domain(columns={"code": many, "age": COLUMNS["age"]}))
    assert len(coder.warnings) == 1
    assert "'code' has 202 values" in coder.warnings[0]
    far_too_many = Category(values=tuple(f"v{at}" for at in range(MOST_VALUES + 1)))
    with pytest.raises(DomainError, match="'code': 5001 values"):
        Coder(Domain(columns={"code": far_too_many}))


def test_constant_and_missing_columns_work(tmp_path: Path) -> None:
    columns: dict[str, Column] = {
        "one": Integer(bounds=(3, 3)),
        "same": Number(bounds=(0.5, 0.5)),
        "gone": Number(bounds=(0, 1), missing=True),
        "never": Category(values=("a",), other=False, missing=True),
    }
    coder = Coder(Domain(columns=columns))
    codes = coder.encode(table(tmp_path / "t.csv", ["3,0.5,,", "3,0.5,?,"], ",".join(columns)))
    assert coder.sizes[:2] == (1, 1)
    cells = coder.decode(codes, np.random.default_rng(0))
    assert cells == {"one": ["3", "3"], "same": ["0.5", "0.5"], "gone": ["", ""], "never": ["", ""]}


def test_a_cell_that_the_domain_does_not_expect_is_named(tmp_path: Path) -> None:
    coder = Coder(DOMAIN)
    with pytest.raises(DataError, match=r"line 2, column 'town'"):
        coder.encode(table(tmp_path / "t.csv", [ROWS[0].replace("Rome", "Bonn")]))
    with pytest.raises(DataError, match=r"line 2, column 'age'.*missing"):
        coder.encode(table(tmp_path / "t.csv", [ROWS[0].replace("34,", ",")]))
    with pytest.raises(DataError, match="outside its column's range"):
        coder.decode(np.full((1, 8), 99), np.random.default_rng(0))
    with pytest.raises(DataError, match="whole numbers"):
        coder.decode(np.zeros((1, 8)), np.random.default_rng(0))


def test_a_lenient_label_keeps_rows_without_a_class(tmp_path: Path) -> None:
    domain = Domain(columns={"sick": Label(values=("no", "yes"), lenient=True)}, target="sick")
    coder = Coder(domain)
    codes = coder.encode(table(tmp_path / "t.csv", ["no", "?", "perhaps", "yes"], "sick"))
    assert coder.decode(codes, np.random.default_rng(0))["sick"] == ["no", "", "", "yes"]


def test_dates_come_back_as_days(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("seen,y\n2024-01-03,a\n05.01.2024,b\n2024-01-31T10:00:00,a\nsoon,b\n")
    seen = Number.of_dates("2024-01-01", "2024-01-10", missing=True, lenient=True)
    coder = Coder(Domain(columns={"seen": seen, "y": Category(values=("a", "b"))}))
    codes = coder.encode(open_table(path, header=True))
    made = coder.decode(codes, np.random.default_rng(0))["seen"]
    assert made == ["2024-01-03", "2024-01-05", "2024-01-10", ""]
