"""The format of a file is public: one line decides nothing for others, and what was taken is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from reticent.core.errors import InvalidArgument
from reticent.data.drafting import draft
from reticent.data.files import open_table
from reticent.data.files.dialect import DeclaredFormat

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
        "latin-1"
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


@pytest.mark.parametrize(
    "written",
    [
        "CSV, separated by semicolon, with a header, decimal comma, utf-8",
        'CSV, separated by tab, without a header, quoted by ", latin-1',
        "CSV, separated by ':', with a header, utf-16",
        "CSV, separated by comma, with a header, quoted by ', cp1252",
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
