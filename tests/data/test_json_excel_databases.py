"""JSON lines, workbooks and database files: read like a CSV file, and bounded in what they can do."""

from __future__ import annotations

import builtins
import datetime
import json
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from reticent.core.errors import DataError, InvalidArgument, ReticentError
from reticent.data.domain import Number
from reticent.data.drafting import draft
from reticent.data.encoding import encode
from reticent.data.files import Table, open_table
from reticent.data.files import excel as workbooks

HEADER = ["age", "sick", "seen", "note"]
ROWS = [[20 + n, n % 2 == 0, datetime.date(2024, 1, 1 + n % 28), f"n{n % 3}"] for n in range(60)]


def csv_table(folder: Path) -> Table:
    """The same rows as text, which the others are compared with."""
    lines = [f"{age},{str(sick).lower()},{seen},{note}" for age, sick, seen, note in ROWS]
    path = folder / "t.csv"
    path.write_text("\n".join([",".join(HEADER), *lines]) + "\n")
    return open_table(path)


def json_table(folder: Path) -> Table:
    rows = [dict(zip(HEADER, [age, sick, str(seen), note], strict=True)) for age, sick, seen, note in ROWS]
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_table(path)


def excel_table(folder: Path, title: tuple[str, ...] = ()) -> Table:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in title:
        book.active.append([line])
    for row in [HEADER, *ROWS]:
        book.active.append(row)
    book.create_sheet("empty")
    book.save(folder / "t.xlsx")
    return open_table(folder / "t.xlsx")


def sqlite_table(folder: Path, **options: Any) -> Table:
    path = folder / "t.db"
    if not path.exists():
        with sqlite3.connect(path) as database:
            database.execute("create table visits (age int, sick text, seen text, note text)")
            cells = [(age, str(sick).lower(), str(seen), note) for age, sick, seen, note in ROWS]
            database.executemany("insert into visits values (?, ?, ?, ?)", cells)
        database.close()
    return open_table(path, **options)


def duckdb_table(folder: Path) -> Table:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "t.duckdb")) as database:
        database.execute("create table visits (age int, sick boolean, seen date, note text)")
        database.executemany("insert into visits values (?, ?, ?, ?)", ROWS)
    return open_table(folder / "t.duckdb")


def cells_of(table: Table) -> list[dict[str, str | None]]:
    return [row for rows in table.batches() for row in rows.batch.to_pylist()]


@pytest.mark.parametrize("make", [json_table, excel_table, sqlite_table, duckdb_table])
def test_each_reads_like_a_csv_file(tmp_path: Path, make: Callable[[Path], Table]) -> None:
    text, table = csv_table(tmp_path), make(tmp_path)
    assert table.names == text.names
    assert table.row_count == len(ROWS)
    expected = cells_of(text)
    for row in expected if table.dialect.format == "xlsx" else ():
        row["seen"] = f"{row['seen']} 00:00:00"  # a workbook has no days without a time
    assert cells_of(table) == expected
    domain = draft(text, "sick")
    assert draft(table, "sick").columns == domain.columns
    assert (encode(table, domain)["x"] == encode(text, domain)["x"]).all()
    assert table.format_assumption is not None


def fails(read: Callable[[], object]) -> str:
    with pytest.raises(ReticentError) as caught:
        read()
    return str(caught.value)


# --- JSON lines ------------------------------------------------------------------------------------------


def write_lines(folder: Path, lines: list[str]) -> Path:
    path = folder / "t.ndjson"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_key_of_one_line_is_not_a_column_and_one_that_is_missing_is_a_missing_cell(tmp_path: Path) -> None:
    lines = [json.dumps({"a": n, "b": None if n % 2 else "x"}) for n in range(100)]
    odd = ['{"a": 7, "person": "Ann"}', "", '{"b": [1, {"c": 2}]}']
    table = open_table(write_lines(tmp_path, [*lines, *odd]))
    assert table.names == ("a", "b")
    assert cells_of(table)[-2:] == [{"a": "7", "b": None}, {"a": None, "b": '["1", {"c": "2"}]'}]
    assert table.place(101) == "line 103"


def test_numbers_of_json_keep_their_digits(tmp_path: Path) -> None:
    table = open_table(write_lines(tmp_path, ['{"a": 12345678901234567890, "b": 0.10, "c": NaN}'] * 3))
    assert cells_of(table)[0] == {"a": "12345678901234567890", "b": "0.10", "c": "NaN"}


@pytest.mark.parametrize("bad", ["[1, 2]", "{", "7", '{"a": ' + "[" * 100_000, '{"a": 1} {"a": 2}'])
def test_a_line_that_is_not_an_object_is_named(tmp_path: Path, bad: str) -> None:
    path = write_lines(tmp_path, ['{"a": 1}', bad])
    assert "line 2 is not a JSON object" in fails(lambda: cells_of(open_table(path)))


def test_half_a_surrogate_stops_nothing(tmp_path: Path) -> None:
    table = open_table(write_lines(tmp_path, [r'{"a": "\ud800", "b": 1}'] * 2))
    assert cells_of(table) == [{"a": "?", "b": "1"}] * 2


def test_a_json_document_is_not_taken_for_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"a": 1}, {"a": 2}], indent=1))
    assert "one object per line" in fails(lambda: open_table(path))


# --- Workbooks -------------------------------------------------------------------------------------------


def test_a_title_above_the_header_is_skipped_and_said(tmp_path: Path) -> None:
    table = excel_table(tmp_path, ("Visits of 2024", "confidential"))
    assert table.names == tuple(HEADER)
    assert table.row_count == len(ROWS)
    assert "begins with 2 lines of too few cells" in (table.doubt or "")
    assert table.place(0) == "row 4 of sheet 'Sheet'"


def test_another_sheet_is_named(tmp_path: Path) -> None:
    excel_table(tmp_path)
    assert "sheet 'empty' is empty" in fails(lambda: open_table(tmp_path / "t.xlsx", table="empty"))
    assert "has no sheet 'Shet'. Did you mean 'Sheet'?" in fails(
        lambda: open_table(tmp_path / "t.xlsx", table="Shet")
    )
    assert "--query was given" in fails(lambda: open_table(tmp_path / "t.xlsx", query="select 1"))


def test_a_workbook_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch) -> None:
    excel_table(tmp_path)
    monkeypatch.setattr(workbooks, "_MOST_BYTES", 1000)
    assert "once it is unpacked" in fails(lambda: open_table(tmp_path / "t.xlsx"))


def test_a_damaged_workbook_is_said_to_be_one(tmp_path: Path) -> None:
    excel_table(tmp_path)
    with zipfile.ZipFile(tmp_path / "t.xlsx") as whole, zipfile.ZipFile(tmp_path / "u.xlsx", "w") as broken:
        for name in whole.namelist():
            content = whole.read(name)
            broken.writestr(name, content[: len(content) // 2] if "sheet1" in name else content)
    assert "cannot be read as an Excel workbook" in fails(lambda: cells_of(open_table(tmp_path / "u.xlsx")))


@pytest.mark.parametrize(("make", "module"), [(excel_table, "openpyxl"), (duckdb_table, "duckdb")])
def test_what_has_to_be_installed_is_said(tmp_path: Path, monkeypatch, make, module: str) -> None:
    path, real = make(tmp_path).path, builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == module:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert f"{module} is not installed. Install it: pip install 'reticent[" in fails(lambda: open_table(path))


# --- Databases -------------------------------------------------------------------------------------------


def test_a_query_selects_and_is_said_in_the_assumption(tmp_path: Path) -> None:
    query = "select note, age * 2 as twice\nfrom visits where age < 30 order by age"
    table = sqlite_table(tmp_path, query=query)
    assert table.names == ("note", "twice")
    assert [row["twice"] for row in cells_of(table)] == [str(2 * age) for age in range(20, 30)]
    assert table.format_assumption == (
        "the query and its 2 columns are public, and each row of its result comes from one record: "
        "select note, age * 2 as twice from visits where age < 30 order by age"
    )


@pytest.mark.parametrize(
    "query",
    [
        "delete from visits",
        "attach database 'other.db' as other",
        "create table more (a)",
        "pragma writable_schema = 1",
        "vacuum into 'copy.db'",
    ],
)
def test_a_query_changes_nothing_and_opens_no_other_file(tmp_path: Path, monkeypatch, query: str) -> None:
    monkeypatch.chdir(tmp_path)
    sqlite_table(tmp_path)
    before = (tmp_path / "t.db").read_bytes()
    assert "the database refuses" in fails(lambda: sqlite_table(tmp_path, query=query))
    assert (tmp_path / "t.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["t.db"]


@pytest.mark.parametrize("query", ["delete from visits", "select * from read_text('secret.txt')"])
def test_a_query_in_duckdb_neither(tmp_path: Path, monkeypatch, query: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    path = duckdb_table(tmp_path).path
    assert "the database refuses" in fails(lambda: cells_of(open_table(path, query=query)))
    assert open_table(path).row_count == len(ROWS)


def test_which_table_is_asked_for_where_there_are_several(tmp_path: Path) -> None:
    sqlite_table(tmp_path)
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute('create table "odd ""name" (a blob, b int)')
        database.executemany('insert into "odd ""name" values (?, ?)', [(b"\0", n) for n in range(3)])
    database.close()
    assert 'has 2 tables: odd "name, visits. Say which one: --table NAME' in fails(
        lambda: sqlite_table(tmp_path)
    )
    assert sqlite_table(tmp_path, table="visits").row_count == len(ROWS)
    odd = sqlite_table(tmp_path, table='odd "name')
    assert odd.unsupported == {"a": "bytes"}
    assert cells_of(odd) == [{"b": "0"}, {"b": "1"}, {"b": "2"}]
    assert "has no table 'visit'. Did you mean 'visits'?" in fails(
        lambda: sqlite_table(tmp_path, table="visit")
    )
    with pytest.raises(InvalidArgument, match="not both"):
        sqlite_table(tmp_path, table="visits", query="select 1")


@pytest.mark.parametrize(
    "query", ["selec", "select nothing from visits", "select * from visits where age < 0", ""]
)
def test_a_query_that_gives_no_table_is_refused(tmp_path: Path, query: str) -> None:
    fails(lambda: sqlite_table(tmp_path, query=query))


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = sqlite_table(tmp_path).path
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(DataError):
        cells_of(open_table(path))


def test_a_server_and_an_option_without_a_use_are_refused(tmp_path: Path) -> None:
    message = fails(lambda: open_table("mysql://me:secret@host/patients"))
    assert "Save the rows into a file first" in message
    assert "secret" not in message
    csv_table(tmp_path)
    assert "--query was given" in fails(lambda: open_table(tmp_path / "t.csv", query="select 1"))
    assert "--table was given" in fails(lambda: open_table(tmp_path / "t.csv", table="t"))


def test_the_order_of_day_and_month_is_found_or_declared(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.db") as database:
        database.execute("create table days (day text, sick text)")
        cells = [(f"{n % 28 + 1:02d}/03/2024", "yn"[n % 2]) for n in range(60)]
        database.executemany("insert into days values (?, ?)", cells)
    database.close()
    found = open_table(tmp_path / "d.db")
    assert "dates have the day before the month" in (found.format_assumption or "")
    assert draft(found).columns["day"] == replace(
        Number.of_dates("2024-03-01", "2024-03-28"),
        parts=("month", "weekday"),
        looked_up=frozenset({"kind", "bounds", "missing"}),
    )
    assert not open_table(tmp_path / "d.db", day_first=False).dialect.day_first
    parquet.write_table(pa.table({"day": [day for day, _ in cells]}), tmp_path / "d.parquet")
    assert isinstance(draft(open_table(tmp_path / "d.parquet", day_first=True)).columns["day"], Number)


# --- Stata -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "order"), [(114, "big"), (117, "little"), (118, "big"), (119, "little")])
def test_a_stata_file_has_words_for_its_labels_and_dates_for_its_days(
    tmp_path: Path, version: Any, order: Any
) -> None:
    pandas = pytest.importorskip("pandas")
    path, days = tmp_path / "t.dta", pandas.to_datetime(["1990-01-31", "2001-02-03", None])
    columns = {
        "age": [31.5, 45.0, None],
        "n": np.array([1, -2, 100], np.int8),
        "born": days,
        "seen": days + pandas.Timedelta(hours=10),
        "name": [" a", "", "cé"],
        "code": np.array([0, 1, 7], np.int16),
        "many": [2.0, None, -8e307],
    }
    pandas.DataFrame(columns).to_stata(
        path,
        write_index=False,
        version=version,
        byteorder=order,
        convert_dates={"born": "td", "seen": "tc"},
        value_labels={"code": {0: "none", 1: "some"}, "many": {2: "two"}},
    )
    table = open_table(path)
    assert table.dialect.describe() == "Stata"
    assert [tuple(row.values()) for row in cells_of(table)] == [
        (31.5, 1, "1990-01-31", "1990-01-31 10:00:00", "a", "none", "two"),
        (45.0, -2, "2001-02-03", "2001-02-03 10:00:00", None, "some", None),
        (None, 100, None, None, "cé", "7", "-8e+307"),
    ]
    path.write_bytes(path.read_bytes()[:-150])
    assert "is cut short" in fails(lambda: cells_of(open_table(path)))
