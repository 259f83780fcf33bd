"""The format of a file is public: one line decides nothing for others, and what was taken is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.arrow_cells import Reading
from reticent.data.drafting import draft
from reticent.data.files import open_table
from reticent.data.files.dialect import DeclaredFormat
from reticent.data.files.text import Squeezer

ROWS = 300


def _write(tmp_path: Path, lines: list[str], encoding: str = "utf-8", extra: bytes = b"") -> Path:
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join([*lines, ""]).encode(encoding) + extra)
    return path


def _format(path: Path) -> str:
    return open_table(path).dialect.describe_format()


PLAIN = ["amount;town;note"] + [f"{n},{n % 10};Genève;plain" for n in range(ROWS)]


@pytest.mark.parametrize(
    "odd",
    ["5.2;x;y", '1,5;"never closed;z', '1,5;5" wide;z', "1,5,x;y;z", "a;b;c", ";;", "#;1;2", "'1,5';'x';y"],
)
def test_one_line_that_is_unlike_the_others_changes_nothing(tmp_path: Path, odd: str) -> None:
    usual = _format(_write(tmp_path, PLAIN))
    assert usual == 'CSV, separated by semicolon, with a header, quoted by ", decimal comma, utf-8'
    for place in (1, 150, ROWS):
        found = _format(_write(tmp_path, [*PLAIN[:place], odd, *PLAIN[place:]]))
        assert found.replace(' quoted by ",', "") == usual.replace(' quoted by ",', "")


def test_one_stray_quote_does_not_unquote_the_others(tmp_path: Path) -> None:
    lines = ["a,b,c"] + [f'{n},"x, y",{n}' for n in range(ROWS)]
    for odd in ('1,5" wide,2', '1,"open,2'):
        table = open_table(_write(tmp_path, [*lines[:100], odd, *lines[100:]]))
        assert table.dialect.quote == '"'


def test_bytes_of_one_line_do_not_change_the_encoding(tmp_path: Path) -> None:
    odd = "9,9;Genève;latin".encode("latin-1") + b"\n"
    assert _format(_write(tmp_path, PLAIN, extra=odd)).endswith("utf-8")
    assert _format(_write(tmp_path, PLAIN, encoding="latin-1", extra="1;Genève;x\n".encode())).endswith(
        "cp1252"
    )


def test_words_below_that_repeat_show_a_header_and_unique_ones_leave_it_in_doubt(tmp_path: Path) -> None:
    sorts = ["colour,shape"] + [f"{['red', 'green', 'blue'][n % 3]},{'rs'[n % 2]}" for n in range(30)]
    assert open_table(_write(tmp_path, sorts)).names == ("colour", "shape")
    without = open_table(_write(tmp_path, sorts[1:]))
    assert without.names == ("column_1", "column_2")
    assert not without.dialect.is_header_in_doubt
    unique = [f"person {n},street {n}" for n in range(30)]
    table = open_table(_write(tmp_path, unique))
    assert table.names == ("column_1", "column_2")
    assert table.dialect.is_header_in_doubt
    assert open_table(_write(tmp_path, unique), header=True).names == ("person 0", "street 0")


def test_a_first_record_with_a_word_of_its_own_is_not_published_as_names(tmp_path: Path) -> None:
    """Where one row in ten has a word that no other has, the first may be such a row."""
    rows = [f"person {n},{f'rare {n}' if n % 10 == 0 else 'common'},street {n}" for n in range(200)]
    table = open_table(_write(tmp_path, rows))
    assert table.names == ("column_1", "column_2", "column_3")
    assert table.dialect.is_header_in_doubt
    assert open_table(_write(tmp_path, ["name,illness,street", *rows]), header=True).names[1] == "illness"
    usual = [f"person {n},{'ab'[n % 2]},street {n}" for n in range(200)]
    assert open_table(_write(tmp_path, ["name,illness,street", *usual])).names[1] == "illness"


@pytest.mark.parametrize(
    "written",
    [
        "CSV, separated by semicolon, with a header, decimal comma, utf-8",
        'CSV, separated by tab, without a header, quoted by ", latin-1',
        "CSV, separated by ':', with a header, utf-16",
        "CSV, separated by comma, with a header, quoted by ', cp1252",
        "CSV, separated by blanks, with a header, utf-8",
        "CSV, separated by semicolon, with a header, decimal comma, thousands point, day before month, utf-8",
    ],
)
def test_what_is_said_of_a_format_can_be_said_back(tmp_path: Path, written: str) -> None:
    declared = DeclaredFormat.parse(written)
    assert declared.is_whole
    sign = declared.delimiter or ","
    lines = [sign.join(cells) for cells in (("a", "b"), ("1", "2"), ("3", "4"))]
    table = open_table(_write(tmp_path, lines, declared.encoding or ""), **declared.layout)
    assert table.dialect.describe_format() == written
    quoted = "every quote is closed in the record that opens it"
    assert table.format_assumption == (quoted if declared.quote else None)


@pytest.mark.parametrize("written", ["separated by many signs", "decimal dot", "utf-99", "a header"])
def test_a_format_that_means_nothing_is_refused(written: str) -> None:
    with pytest.raises(InvalidArgument):
        DeclaredFormat.parse(written)


def test_what_was_detected_is_an_assumption_and_a_draft_declares_it(tmp_path: Path) -> None:
    path = _write(tmp_path, PLAIN)
    table = open_table(path)
    assert table.format_assumption == (
        'the format of the file is public: CSV, separated by semicolon, with a header, quoted by ", '
        "decimal comma, utf-8, 3 columns; every quote is closed in the record that opens it"
    )
    domain = draft(table, None)
    assert domain.format is not None
    assert open_table(path, **DeclaredFormat.parse(domain.format).layout).format_assumption == (
        "every quote is closed in the record that opens it"
    )
    assert type(domain).from_toml(domain.to_toml()).format == domain.format


def test_lines_separated_by_blanks_are_cells(tmp_path: Path) -> None:
    lines = [f" A1{n % 4}  {n}  A34   A4{n % 3} {1169 + n} " for n in range(ROWS)]
    lines[7] = lines[7].replace("  ", " \t ")
    table = open_table(_write(tmp_path, lines))
    assert table.dialect.describe_format() == 'CSV, separated by blanks, without a header, quoted by ", utf-8'
    cells = [row for rows in table.batches() for row in rows.batch.to_pylist()]
    assert len(cells) == ROWS
    assert list(cells[7].values()) == ["A13", "7", "A34", "A41", "1176"]
    assert table.place(7) == "line 8"
    with pytest.raises(DataError, match="separated by blanks"):
        table.shard(0, 2)
    headed = open_table(_write(tmp_path, ["sort  number a   b amount", *lines]))
    assert headed.names == ("sort", "number", "a", "b", "amount")
    prose = ["a line of prose", "the next one", "", "another of the same", "and so on"] * 20
    assert open_table(_write(tmp_path, prose)).names == ("column_1",)


@given(st.text(alphabet=" \t\r\nab", max_size=40), st.lists(st.integers(1, 7), max_size=40))
def test_blanks_are_squeezed_the_same_in_whatever_pieces_a_text_comes(text: str, sizes: list[int]) -> None:
    whole, parts, at, found = Squeezer(), Squeezer(), 0, ""
    for size in sizes:
        found += parts.squeeze(text[at : at + size], is_last=False)
        at += size
    found += parts.squeeze(text[at:], is_last=False) + parts.squeeze("", is_last=True)
    assert found == whole.squeeze(text, is_last=False) + whole.squeeze("", is_last=True)
    assert [line.split() for line in found.split("\n")] == [line.split() for line in text.split("\n")]
    assert "  " not in found
    assert "\t" not in found


def test_a_file_of_blanks_is_read_in_linear_time() -> None:
    squeezer = Squeezer()
    for _ in range(2000):
        assert squeezer.squeeze(" \t" * 5000, is_last=False) == ""
    assert squeezer.squeeze("", is_last=True) == ""


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        (["Report of 2024"], 1),
        (["Report of 2024", "", "made by us"], 2),
        (["Report,,", "2024,,"], 2),
        ([], 0),
    ],
)
def test_a_title_is_skipped_and_said(tmp_path: Path, title: list[str], lines: int) -> None:
    rows = [f"{n},{'yn'[n % 2]},{n % 7}" for n in range(40)]
    table = open_table(_write(tmp_path, [*title, "age,sick,visits", *rows]))
    assert table.names == ("age", "sick", "visits")
    assert table.row_count == 40
    assert table.dialect.title_lines == lines
    assert (f"begins with {lines} line" in (table.doubt or "")) is (lines > 0)
    assert ("lines of a title" in (table.format_assumption or "")) is (lines > 0)


@pytest.mark.parametrize("first", ["5,,", "39,y", "a,b", "39,y,1,2"])
def test_a_first_row_that_is_short_is_not_taken_for_a_title(tmp_path: Path, first: str) -> None:
    rows = [f"{n},{'yn'[n % 2]},{n % 7}" for n in range(40)]
    path = _write(tmp_path, [first, *rows])
    try:
        table = open_table(path)
        assert table.dialect.title_lines == 0
        assert sum(batch.batch.num_rows for batch in table.batches()) == 41
    except DataError as error:
        assert "cells where there are" in str(error)  # noqa: PT017


def test_what_nothing_tells_is_said_and_can_be_declared(tmp_path: Path) -> None:
    table = open_table(
        _write(tmp_path, ["price;day", *[f"4{n % 10}.896;0{n % 9 + 1}/02/2024" for n in range(50)]])
    )
    doubt = table.doubt or ""
    assert "is about 42 or about 42 thousand" in doubt
    assert "begin with the month" in doubt
    written = (
        "CSV, separated by semicolon, with a header, decimal comma, thousands point, day before month, utf-8"
    )
    declared = open_table(table.path, **DeclaredFormat.parse(written).layout)
    assert declared.doubt is None
    assert declared.dialect.reading == Reading(decimal=",", thousands=".", day_first=True)


def test_one_line_decides_neither_the_decimal_sign_nor_that_a_file_is_libsvm(tmp_path) -> None:
    path = tmp_path / "t"

    def sign_with(slips: int) -> str:
        path.write_text("a;b\n" + "1;2\n" * 60 + "5,2;3\n" * slips)
        return open_table(path).dialect.decimal

    assert [sign_with(slips) for slips in (0, 1, 2, 30)] == [".", ".", ",", ","]

    for slip, others, found in (("1 3:4\n", "1;2\n", "csv"), ("1\n", "1 1:0.5 3:2\n", "libsvm")):
        path.write_text(others * 10 + slip + others * 10)
        assert open_table(path, header=None).dialect.format == found
    path.write_text("1 1:0.5 3:2\n" * 10 + "hello\n")
    with pytest.raises(DataError, match="line 11: the label is not a number"):
        open_table(path)
