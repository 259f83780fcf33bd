"""Delimited text is read in whatever dialect it is written."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.files import Table, open_table
from reticent.data.files.delimited import DelimitedTable
from reticent.data.files.dialect import DeclaredFormat
from reticent.data.kinds import BLANKS


def rows_of(table: Table) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for rows in table.batches() for row in rows.batch.to_pylist()]


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "table.csv", encoding: str = "utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("has_header", [True, False])
def test_delimiter_line_end_and_header_are_detected(write, delimiter, end, has_header) -> None:
    lines = [["39", "State-gov", "1.5"], ["50", "Private", "2.5"], ["38", "Private", "-1e3"]]
    header = [["age", "work", "gain"]] if has_header else []
    table = open_table(write(end.join(delimiter.join(line) for line in header + lines) + end))
    assert table.dialect.delimiter == delimiter
    assert table.dialect.has_header == has_header
    assert table.names == (("age", "work", "gain") if has_header else ("column_1", "column_2", "column_3"))
    assert rows_of(table) == [tuple(line) for line in lines]


def test_what_the_user_says_beats_what_is_detected(write) -> None:
    path = write("1;2,3\n4;5,6\n")
    assert rows_of(open_table(path, delimiter=",")) == [("1;2", "3"), ("4;5", "6")]
    table = open_table(path, header=True)
    assert table.names == ("1", "2,3")
    assert rows_of(table) == [("4", "5,6")]


def test_quoted_cells_may_hold_delimiters_quotes_and_lines(write) -> None:
    path = write('name,said\nA,"one, two"\nB,"a ""quoted"" word"\nC,"two\nlines"\nD,plain\n')
    table = open_table(path, header=True)
    assert [row[1] for row in rows_of(table)] == ["one, two", 'a "quoted" word', "two\nlines", "plain"]
    assert [table.place(row) for row in range(4)] == ["line 2", "line 3", "line 4", "line 6"]


def test_apostrophes_are_quotes_where_they_are_used_as_such(write) -> None:
    table = open_table(write("'a','b'\n'1','x,y'\n'2','z'\n"))
    assert table.dialect.quote == "'"
    assert rows_of(table) == [("1", "x,y"), ("2", "z")]


def test_stray_quotes_in_a_text_are_no_quoting(write) -> None:
    table = open_table(write('ham\t"Oh" she said\nspam\tWin a 5" screen\nham\t"never closed\n'))
    assert table.dialect.quote is None
    assert rows_of(table)[0] == ("ham", '"Oh" she said')


def test_decimal_commas_are_detected(write) -> None:
    assert open_table(write("a;b\n1,5;x\n2,25;y\n")).dialect.decimal == ","
    assert open_table(write("a;b\n1.5;x\n2.25;y\n")).dialect.decimal == "."
    assert open_table(write("a,b\n1,5\n2,25\n")).dialect.decimal == "."


@pytest.mark.parametrize(
    ("encoding", "detected"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("cp1252", "cp1252")],
)
def test_encodings_are_detected(write, encoding: str, detected: str) -> None:
    table = open_table(write("größe,wert\n1,schön\n2,9 €\n", encoding=encoding))
    assert table.dialect.encoding == detected
    assert table.names == ("größe", "wert")
    assert rows_of(table) == [("1", "schön"), ("2", "9 €")]


def test_padding_comments_blank_lines_and_missing_markers(write) -> None:
    table = open_table(write("|1x3 Cross validator\n\n25, Private , 7\n\n38, ?, 9\n\n"))
    assert rows_of(table) == [("25", "Private", "7"), ("38", "?", "9")]
    assert table.dialect.missing_markers == ("?",)
    assert [table.place(row) for row in range(2)] == ["line 3", "line 5"]


def test_a_gzip_is_unpacked_whatever_its_name(write) -> None:
    table = open_table(write(gzip.compress(b"a,b\n1,2\n"), name="table.data"))
    assert table.dialect.compression == "gzip"
    assert rows_of(table) == [("1", "2")]


def test_one_column_needs_no_delimiter(write) -> None:
    table = open_table(write("age\n3\n4\n"))
    assert table.names == ("age",)
    assert rows_of(table) == [("3",), ("4",)]


def test_columns_can_be_chosen_and_the_table_read_again(write) -> None:
    table = open_table(write("a,b,c\n1,2,3\n4,5,6\n"))
    for _ in range(2):
        batch = next(iter(table.batches({"c", "a"}))).batch
        assert batch.to_pydict() == {"a": ["1", "4"], "c": ["3", "6"]}
    assert table.row_count == 2
    with pytest.raises(DataError, match=r"no column 'bb'.*Did you mean 'b'"):
        list(table.batches(["bb"]))


def test_rows_are_numbered_through_all_batches(write) -> None:
    path = write("n,text\n" + "".join(f"{i},{'x' * 200}\n" for i in range(20_000)))
    table = open_table(path)
    batches = list(table.batches(["n"]))
    assert len(batches) > 2
    for rows in batches:
        assert rows.batch.column("n")[0].as_py() == str(rows.first)
    assert batches[-1].done == 1.0
    assert table.row_count == 20_000


def test_a_row_longer_than_a_block_is_read_once_and_whole(write) -> None:
    path = write("a,b\n" + "1,2\n" * 400_000 + f"3,{'x' * 3_000_000}\n4,5\n")
    lengths = [len(cell) for rows in open_table(path).batches(["b"]) for cell in rows.batch["b"].to_pylist()]
    assert lengths == [1] * 400_000 + [3_000_000, 1]


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",,", None), ("", None), ("é", None), (None, "klingon")]
)
def test_impossible_settings_are_refused(write, delimiter, encoding) -> None:
    with pytest.raises(InvalidArgument):
        open_table(write("a,b\n1,2\n"), delimiter=delimiter, encoding=encoding)


def test_the_dialect_is_described_in_one_line(write) -> None:
    assert open_table(write("a;b\n1,5;\n2,5;y\n")).dialect.describe() == (
        'CSV, separated by semicolon, with a header, quoted by ", decimal comma, utf-8, '
        "missing cells marked by an empty cell"
    )


cells = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8).map(
    lambda cell: cell.strip(BLANKS)
)


@given(data=st.data(), width=st.integers(2, 4), delimiter=st.sampled_from(",;\t|"))
def test_any_table_survives_being_written_as_csv(tmp_path_factory, data, width: int, delimiter: str) -> None:
    row = st.lists(cells, min_size=width, max_size=width).filter(any)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    names = data.draw(st.lists(cells.filter(bool), min_size=width, max_size=width, unique=True))
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    declared = DeclaredFormat(delimiter=delimiter, header=True, encoding="utf-8", quote='"')
    table = DelimitedTable(path, declared=declared)
    assert table.names == tuple(names)
    assert rows_of(table) == [tuple(row) for row in rows]
    assert table.row_count == len(rows)
