"""A draft guesses the kinds well, and marks whatever it saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.domain import Category, Domain, Ignored, Integer, Label, Number
from reticent.data.drafting import draft
from reticent.data.encoding import encode
from reticent.data.files import open_table

BOUNDS = frozenset({"kind", "bounds", "missing"})
VALUES = frozenset({"kind", "values", "missing"})


def drafted(tmp_path: Path, text: str, target: str | None = None) -> Domain:
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    return draft(open_table(tmp_path / "table.csv"), target)


def test_kinds_are_guessed_and_every_value_is_marked(tmp_path) -> None:
    lines = [f"{20 + i % 7},{i / 10},{'ab'[i % 2]},person {i},?,{'ny'[i % 2]}" for i in range(300)]
    domain = drafted(tmp_path, "age,share,work,name,gone,sick\n?,0.5,,x,,n\n" + "\n".join(lines), "sick")
    assert domain.columns["age"] == Integer(bounds=(20, 26), missing=True, looked_up=BOUNDS)
    assert domain.columns["share"] == Number(bounds=(0.0, 29.9), looked_up=BOUNDS)
    assert domain.columns["work"] == Category(values=("a", "b"), missing=True, looked_up=VALUES)
    assert domain.columns["sick"] == Label(values=("n", "y"), looked_up=frozenset({"kind", "values"}))
    name, gone = domain.columns["name"], domain.columns["gone"]
    assert isinstance(name, Ignored)
    assert "more than 200 different words (line 2 is not a number)" in name.reason
    assert gone == Ignored(reason="every cell is missing", looked_up=frozenset({"kind"}))
    assert domain.not_public() == [
        *("age.kind", "age.bounds", "age.missing", "share.kind", "share.bounds", "share.missing"),
        *("work.kind", "work.values", "work.missing", "name.kind", "gone.kind", "sick.kind", "sick.values"),
    ]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-1", "1", "-1"], Label(values=("-1", "1"), looked_up=frozenset({"kind", "values"}))),
        (["10", "9", "9", "10"], Label(values=("9", "10"), looked_up=frozenset({"kind", "values"}))),
        (["1", "2", "3", "4"], Integer(bounds=(1, 4), looked_up=BOUNDS)),
        (["1.5", "2.5", "1.5", "2.5"], Number(bounds=(1.5, 2.5), looked_up=BOUNDS)),
    ],
)
def test_a_target_of_few_whole_numbers_is_a_label(tmp_path, cells, kind) -> None:
    text = "x,y\n" + "\n".join(f"0.5,{cell}" for cell in cells)
    assert drafted(tmp_path, text, "y").columns["y"] == kind


def test_a_target_of_free_text_or_nothing_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="free text, not a label"):
        drafted(tmp_path, "x,y\n" + "\n".join(f"1,word {i}" for i in range(300)), "y")
    with pytest.raises(DataError, match="missing in every row"):
        drafted(tmp_path, "x,y\n1,?\n2,?\n", "y")


def test_words_among_numbers_count_as_missing_as_they_do_in_training(tmp_path) -> None:
    cells = ["unknown" if n % 12 == 0 else str(20 + n % 50) for n in range(240)]
    domain = drafted(
        tmp_path, "age,sick\n" + "".join(f"{cell},{'yn'[n % 2]}\n" for n, cell in enumerate(cells))
    )
    age = domain.columns["age"]
    assert isinstance(age, Number)
    assert (age.bounds, age.lenient, age.missing, age.whole) == ((20.0, 69.0), True, True, True)
    encode(open_table(tmp_path / "table.csv"), domain)


def test_dates_money_and_identifiers_have_their_kinds(tmp_path) -> None:
    lines = [
        f'{n},01/{n % 28 + 1:02d}/2024,"${n * 1000:,}.50",c{n},2024-01-{n % 9 + 1:02d}T18:00:00,{"yn"[n % 2]}'
        for n in range(1, 61)
    ]
    text = "patient_id,seen,paid,customerID,at,sick\n" + "\n".join(lines) + "\n"
    domain = drafted(tmp_path, text, "sick")
    seen, paid = domain.columns["seen"], domain.columns["paid"]
    assert isinstance(seen, Number)
    assert seen.date
    assert seen.bounds == Number.of_dates("2024-01-01", "2024-01-28").bounds
    assert getattr(domain.columns["at"], "bounds", None) == Number.of_dates("2024-01-01", "2024-01-10").bounds
    assert isinstance(paid, Number)
    assert paid.bounds == (1000.5, 60000.5)
    for name in ("patient_id", "customerID"):
        assert domain.columns[name] == Ignored(reason="an identifier, by its name")
    x = encode(open_table(tmp_path / "table.csv"), domain)["x"]
    assert x[:, 0].min() == -1
    assert x[:, 0].max() == 1


def test_a_minus_is_a_class_of_words_and_missing_among_numbers(tmp_path) -> None:
    domain = drafted(tmp_path, "a,y\n" + "1,+\n2,-\n-,+\n4,-\n" * 5, "y")
    label, number = domain.columns["y"], domain.columns["a"]
    assert isinstance(label, Label)
    assert isinstance(number, Integer)
    assert (label.values, number.missing) == (("+", "-"), True)
    assert encode(open_table(tmp_path / "table.csv"), domain)["y"].tolist() == [0, 1, 0, 1] * 5
    label = drafted(tmp_path, "a,y\n" + "1,0\n2,1\n3,0\n" * 5 + "4,-\n", "y").columns["y"]
    assert isinstance(label, Label)
    assert label.values == ("0", "1")


def test_a_target_that_is_not_there_gets_the_nearest_name(tmp_path) -> None:
    with pytest.raises(DataError, match=r"no column 'incme'.*Did you mean 'income'"):
        drafted(tmp_path, "age,income\n1,2\n", "incme")


def test_an_infinite_number_is_named_by_its_line(tmp_path) -> None:
    with pytest.raises(DataError, match="line 3, column 'x' holds a number that is not finite"):
        drafted(tmp_path, "x,y\n1,2\n-inf,4\n")


def test_native_columns_are_drafted_too(tmp_path) -> None:
    table = {"n": pa.array([1, None]), "f": pa.array([1.0, float("nan")]), "l": pa.array([[1], [2]])}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    domain = draft(open_table(tmp_path / "t.parquet"))
    assert domain.columns["n"] == Integer(bounds=(1, 1), missing=True, looked_up=BOUNDS)
    assert domain.columns["f"] == Number(bounds=(1.0, 1.0), missing=True, looked_up=BOUNDS)
    assert isinstance(domain.columns["l"], Ignored)


plain = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=5).filter(
    lambda w: "inf" not in w.lower()
)
cells = plain | st.integers().map(str)


@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_whatever_is_drafted_survives_toml_and_encodes_its_own_table(tmp_path_factory, rows) -> None:
    path = tmp_path_factory.mktemp("draft") / "t.parquet"
    parquet.write_table(pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}), path)
    table = open_table(path)
    domain = draft(table)
    assert Domain.from_toml(domain.to_toml()) == domain
    if any(not isinstance(column, Ignored) for column in domain.columns.values()):
        assert np.isfinite(encode(table, domain)["x"]).all()
