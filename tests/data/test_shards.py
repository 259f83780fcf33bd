"""The shards of a table, one after the other, are the table; and each reads its own part of the file."""

from __future__ import annotations

import errno
import gzip
import io
import os
import subprocess
import sys
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.domain import Domain, Label, Number
from reticent.data.encoding import encode
from reticent.data.files import Table, open_table, shards, text
from reticent.data.files import arrays as arrays_module
from reticent.data.files.shards import byte_range, line_ends_before, row_cuts, shard_of


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for rows in table.batches() for row in rows.batch.to_pylist()]


def assert_shards_are_the_table(table: Table, count: int) -> list[Table]:
    parts = [shard_of(table, number, count) for number in range(count)]
    whole, found = rows_of(table), [rows_of(part) for part in parts]
    assert list(chain(*found)) == whole
    assert all(found)
    assert [part.row_count for part in parts] == [len(rows) for rows in found]
    assert all(part.names == table.names and part.unsupported == table.unsupported for part in parts)
    before = 0
    for part in parts:
        for row in {0, part.row_count // 2, part.row_count - 1}:
            assert part.place(row) == table.place(before + row)
        before += part.row_count
    return parts


# --- Parquet ---------------------------------------------------------------------------------------------


def groups(path: Path, sizes: list[int]) -> Table:
    schema = pa.schema([("i", pa.int64()), ("word", pa.string())])
    first = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for size in sizes:
            numbers = range(first, first + size)
            writer.write_table(
                pa.table({"i": numbers, "word": [f" w{n} " for n in numbers]}, schema), size or None
            )
            first += size
    return open_table(path)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 7))
@settings(deadline=None, max_examples=60)
def test_parquet_shards_are_the_table(tmp_path_factory, sizes, count) -> None:
    assume(sum(sizes))
    table = groups(tmp_path_factory.mktemp("parquet") / "t.parquet", sizes)
    if sum(sizes) < count:
        for number in range(count):
            with pytest.raises(DataError, match=f"{count} processes for {sum(sizes)} rows"):
                shard_of(table, number, count)
        return
    assert_shards_are_the_table(table, count)


def test_only_the_row_groups_of_a_shard_are_read(tmp_path, monkeypatch) -> None:
    table = groups(tmp_path / "t.parquet", [100, 100, 100, 100, 100, 100])
    asked = []
    whole = parquet.ParquetFile.iter_batches

    def watched(self, *args, **kwargs):
        asked.append(kwargs["row_groups"])
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", watched)
    for number in range(3):
        assert len(rows_of(shard_of(table, number, 3))) == 200
    assert asked == [[0, 1], [2, 3], [4, 5]]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 12))
def test_row_groups_are_whole_where_there_are_enough_and_balanced(sizes, count) -> None:
    assume(sum(sizes) >= count)
    cuts = row_cuts(sizes, count)
    shares = np.diff(cuts)
    assert cuts[0] == 0
    assert cuts[-1] == sum(sizes)
    assert (shares > 0).all()
    if len(sizes) >= count:
        assert set(cuts) <= {0, *np.cumsum(sizes).tolist()}
    else:
        assert shares.max() - shares.min() <= 1
    if len(set(sizes)) == 1 and len(sizes) >= count:
        assert shares.max() - shares.min() <= sizes[0]


def test_a_place_in_a_parquet_shard_is_the_row_of_the_file(tmp_path) -> None:
    shard = shard_of(groups(tmp_path / "t.parquet", [10, 10]), 1, 2)
    assert shard.place(0) == "row 11"


# --- Delimited text --------------------------------------------------------------------------------------

cells = st.text(st.sampled_from('ab1 ,"\n\ré'), max_size=6)


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    """Rows as a program would write them: anything in quotes, blank lines between, any line end, or none."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    is_all_quoted = draw(st.booleans())

    def written(cell: str) -> str:
        is_quoted = is_all_quoted or set(cell) & set(',"\r\n')
        return '"' + cell.replace('"', '""') + '"' if is_quoted else cell

    lines = ["first name,second,third"]
    for number, row in enumerate(draw(st.lists(st.tuples(cells, cells), min_size=3, max_size=25))):
        lines.append(",".join([str(number), *map(written, row)]))
        lines += [""] * draw(st.sampled_from([0, 0, 0, 1, 3]))
    content = end.join(lines) + end * draw(st.booleans())
    return content.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"])))


@given(csv_files(), st.integers(1, 7))
@settings(deadline=None, max_examples=150)
def test_shards_of_any_text_are_the_table_or_refused(tmp_path_factory, content, count) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(content)
    table = open_table(path, delimiter=",", header=True)
    whole = rows_of(table)
    found: list[Any] = []
    refused = []
    for number in range(count):
        try:
            # Each opens the table anew, as processes do.
            found += rows_of(shard_of(open_table(path, delimiter=",", header=True), number, count))
        except DataError as error:
            refused.append(str(error))
    if refused:
        begins = [
            byte_range(path, n, count, first=first_byte(table), end=len(content))[0] for n in range(1, count)
        ]
        is_cut = any(is_inside_quotes(content[:begin]) for begin in begins)
        spoke_of_a_cut = any("quoted cell" in message for message in refused)
        is_uneven = any(" processes for " in message for message in refused)
        assert spoke_of_a_cut if is_cut else is_uneven
    else:
        assert found == whole


def first_byte(table: Any) -> int:
    return table._bytes()[0]


def is_inside_quotes(before: bytes) -> bool:
    return before.count(b'"') % 2 == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_text_shards_are_the_table_and_know_their_lines(tmp_path, end, encoding, count) -> None:
    lines = ["naïve,b", "", *(f"é{i},{'x' * (i % 13)}" for i in range(100)), "", ""]
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(lines).encode(encoding))
    table = open_table(
        path, encoding=None if encoding == "utf-8-sig" else encoding, header=True, delimiter=","
    )
    assert_shards_are_the_table(table, count)


def test_a_mark_inside_the_text_is_not_taken_for_the_one_at_its_head(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\ufeffx,1\n" * 40, encoding="utf-8-sig")
    table = open_table(path)
    assert table.dialect.encoding == "utf-8-sig"
    assert_shards_are_the_table(table, 3)


def test_quoted_line_ends_that_no_cut_touches_are_read(tmp_path) -> None:
    path = tmp_path / "t.csv"
    rows = [f'{i},"two\nlines, {i}"\n' if 20 < i < 25 or i > 190 else f"{i},plain\n" for i in range(200)]
    path.write_text("a,b\n" + "".join(rows))
    for count in range(2, 7):
        parts = assert_shards_are_the_table(open_table(path), count)
        assert all(part.dialect == parts[0].dialect for part in parts)


@pytest.mark.parametrize("bad", ['"{0}{0}\n{0}",x', 'x,"{0}{0}\n{0}"', '"{0}{0}\n{0}","\n"'])
@pytest.mark.parametrize("columns", [None, ["a"], ["b"]])
def test_a_cut_in_a_quoted_cell_is_refused_by_the_shard_before_it(tmp_path, bad, columns) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 10 + bad.format("word " * 50) + "\n" + "3,4\n" * 10)
    table = open_table(path, delimiter=",")
    assert sum(rows.batch.num_rows for rows in table.batches()) == 21
    with pytest.raises(
        DataError, match=r"t\.csv: a quoted cell .* end of shard 1 of 2\. .*Parquet.* processes"
    ):
        list(shard_of(table, 0, 2).batches(columns))


def test_stray_quotes_neither_hide_a_bad_cut_nor_feign_one(tmp_path) -> None:
    path = tmp_path / "t.csv"
    good = 'a,b\n"1","2"\n' + "1,2\n" * 1200
    path.write_text(good + '5" screen,x\n' + "1,2\n" * 1200)
    table = open_table(path)
    assert table.dialect.quote == '"'
    assert_shards_are_the_table(table, 2)
    path.write_text('a,b\n5" screen,x\n1,"' + "word\n" * 500 + '"\n3,4\n')  # an even number before the cut
    table = open_table(path, delimiter=",")
    assert table.dialect.quote == '"'
    with pytest.raises(DataError, match="quoted cell"):
        list(shard_of(table, 0, 2).batches())


def test_quotes_that_are_none_stop_nobody(tmp_path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("".join(f'ham\t"Oh {i}\nspam\tWin a 5" screen\n' for i in range(50)))
    table = open_table(path)
    assert table.dialect.quote is None
    assert_shards_are_the_table(table, 4)


def test_a_shard_reads_its_range_and_one_line_more(tmp_path, monkeypatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "12345,67890\n" * 100_000)
    table = open_table(path)
    monkeypatch.setattr(text, "_PIECE", 1 << 12)
    monkeypatch.setattr(shards, "_PIECE", 1 << 12)
    size, read = path.stat().st_size, 0
    shard = shard_of(table, 2, 4)
    original = text.CleanText._piece_of_file

    def watched(self) -> bytes:
        nonlocal read
        begin = self._raw.tell()
        piece = original(self)
        assert size / 2 - 1 <= begin
        assert self._raw.tell() <= 3 * size / 4 + 20
        read += len(piece)
        return piece

    monkeypatch.setattr(text.CleanText, "_piece_of_file", watched)
    assert sum(rows.batch.num_rows for rows in shard.batches()) == pytest.approx(25_000, abs=2)
    assert read <= size / 4 + 20


def test_errors_in_a_shard_name_the_line_of_the_file(tmp_path) -> None:
    path = tmp_path / "t.csv"
    lines = ["a,b", *["1,2"] * 50, "1,2,3", *["1,2"] * 10]
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match="line 52 has 3 cells"):
        rows_of(shard_of(open_table(path, header=True), 1, 2))
    path.write_bytes("\n".join(lines).encode().replace(b"1,2,3", b"1,\xff"))
    with pytest.raises(DataError, match="line 52 holds bytes"):
        rows_of(shard_of(open_table(path, header=True, encoding="utf-8"), 1, 2))


def test_what_cannot_be_cut_is_refused_with_advice(tmp_path) -> None:
    content = "a,b\n" + "1,2\n" * 20
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "wide.csv").write_bytes(content.encode("utf-16"))
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(b"1 1:2 2:3\n0 1:3\n" * 20))
    np.savez_compressed(tmp_path / "packed.npz", x=np.zeros((10, 2)))
    for name in ("packed.csv.gz", "wide.csv", "packed.txt.gz", "packed.npz"):
        table = open_table(tmp_path / name)
        with pytest.raises(DataError, match=rf"{name} is .*middle of it\. Save it as Parquet.* UTF-8"):
            shard_of(table, 0, 2)
        assert shard_of(table, 0, 1).row_count == table.row_count


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32", "utf-7", "cp037", "iso2022_jp", "hz", "gbk"])
def test_encodings_in_which_bytes_do_not_tell_lines_are_not_cut(encoding) -> None:
    assert not text.has_plain_line_ends(encoding)


@pytest.mark.parametrize(
    "encoding", ["UTF8", "utf-8-sig", "latin-1", "cp1252", "ascii", "koi8-r", "iso8859-15"]
)
def test_encodings_in_which_they_do_are(encoding) -> None:
    assert text.has_plain_line_ends(encoding)
    assert "\n\r".encode(encoding).endswith(b"\n\r")


def test_more_processes_than_rows_are_refused(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n5,6\n")
    with pytest.raises(DataError, match=r"7 processes for 3 rows\. Use at most 3"):
        [shard_of(open_table(path, header=True), number, 7) for number in range(7)]
    path.write_text("a,b\n1,2\n3,4\n5," + "6" * 100 + "\n")
    with pytest.raises(DataError, match="2 processes for 3 rows, and one of them has none"):
        shard_of(open_table(path, header=True), 1, 2)


@pytest.mark.parametrize(("number", "count"), [(2, 2), (-1, 2), (0, 0), (0, 1.0)])
def test_a_shard_that_there_is_not_is_refused(tmp_path, number, count) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidArgument):
        shard_of(open_table(tmp_path / "t.csv"), number, count)


def test_a_shard_has_shards(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f'{i},"x{i}"\n' for i in range(100)))
    for table in (open_table(path), groups(tmp_path / "t.parquet", [10] * 10), arrays(tmp_path, 100)):
        whole = shard_of(table, 1, 2)
        parts = [shard_of(whole, number, 3) for number in range(3)]
        assert list(chain(*map(rows_of, parts))) == rows_of(whole)
        assert parts[1].place(0) == whole.place(parts[0].row_count)


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"ab"])).map(b"".join), st.integers(1, 5))
def test_cuts_follow_line_ends_and_lines_are_counted(tmp_path_factory, content, count) -> None:
    path = tmp_path_factory.mktemp("lines") / "t"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "_PIECE", 3)
        ranges = [byte_range(path, n, count, first=0, end=len(content)) for n in range(count)]
        assert b"".join(content[begin:end] for begin, end in ranges) == content
        lines = [line for begin, end in ranges for line in content[begin:end].splitlines(keepends=True)]
        assert lines == content.splitlines(keepends=True)
        complete = [line for line in lines if line.endswith((b"\n", b"\r"))]
        assert line_ends_before(path, len(content)) == len(complete)


# --- Arrays and libsvm -----------------------------------------------------------------------------------


def arrays(folder: Path, rows: int, **more: Any) -> Table:
    rng = np.random.default_rng(0)
    path = folder / "t.npz"
    np.savez(
        path, x=rng.normal(size=(rows, 3)), y=np.arange(rows), word=rng.choice(["a", "bc"], rows), **more
    )
    return open_table(path)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_shards_of_arrays_are_the_table(tmp_path, count) -> None:
    scattered = np.asfortranarray(np.random.default_rng(1).normal(size=(23, 4)))
    assert_shards_are_the_table(arrays(tmp_path, 23, f=scattered), count)
    for number, array in enumerate(
        (scattered, np.ascontiguousarray(scattered), np.arange(23, dtype=np.int8))
    ):
        np.save(tmp_path / f"{number}.npy", array)
        assert_shards_are_the_table(open_table(tmp_path / f"{number}.npy"), count)
    with pytest.raises(DataError, match="24 processes for 23 rows"):
        shard_of(arrays(tmp_path, 23), 0, 24)


def test_a_shard_of_arrays_goes_to_its_rows(tmp_path, monkeypatch) -> None:
    table = arrays(tmp_path, 100_000)
    shard = shard_of(table, 3, 4)
    read = 0
    values = arrays_module._values

    def watched(path: Path, file: Any, *args: Any) -> np.ndarray:
        nonlocal read
        begin = file.tell()
        found = values(path, file, *args)
        read += file.tell() - begin
        return found

    monkeypatch.setattr(arrays_module, "_values", watched)
    monkeypatch.setattr(zipfile.ZipExtFile, "read", None)
    assert sum(rows.batch.num_rows for rows in shard.batches()) == 25_000
    assert read == 25_000 * (3 * 8 + 8 + 2 * 4)


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path) -> None:
    whole = io.BytesIO()
    np.save(whole, np.zeros(1000))
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("a.npy", whole.getvalue()[:4000])
        archive.writestr("b.npy", whole.getvalue())
    with pytest.raises(DataError, match="cut short"):
        shard_of(open_table(tmp_path / "t.npz"), 1, 2)


@given(st.integers(1, 7), st.booleans(), st.data())
@settings(deadline=None, max_examples=60)
def test_shards_of_libsvm_are_the_table(tmp_path_factory, count, has_end, data) -> None:
    line = st.lists(st.integers(1, 9), unique=True, max_size=5).map(
        lambda indices: "1" + "".join(f" {i}:{i / 4}" for i in sorted(indices))
    )
    lines = data.draw(st.lists(st.one_of(line, st.just(""), st.just("1 # note")), min_size=3, max_size=30))
    path = tmp_path_factory.mktemp("libsvm") / "t.txt"
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    path.write_bytes((end.join(["0 1:1.5 9:2", *lines]) + end * has_end).encode())
    table = open_table(path)
    try:
        assert_shards_are_the_table(table, count)
    except DataError as error:
        assert f"{count} processes for {table.row_count} rows" in str(error)  # noqa: PT017


def test_a_bad_line_in_a_libsvm_shard_is_named_by_its_line(tmp_path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("1 1:2\n" * 30)
    table = open_table(path)
    path.write_text("1 1:2\n" * 28 + "1 1:x\n" + "1 1:2\n")
    with pytest.raises(DataError, match="line 29: a feature's value"):
        rows_of(shard_of(table, 1, 2))


# --- Encoding --------------------------------------------------------------------------------------------


def test_encoded_shards_are_the_encoded_table(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i % 7},{'yn'[i % 2]}\n" for i in range(1000)))
    domain = Domain(columns={"a": Number(bounds=(0, 6)), "b": Label(values=("y", "n"))}, target="b")
    whole = encode(open_table(path), domain)
    parts = [encode(shard_of(open_table(path), n, 3), domain, into=tmp_path / str(n)) for n in range(3)]
    for key in ("x", "y"):
        assert np.array_equal(np.concatenate([part[key] for part in parts]), whole[key])


def test_a_bad_cell_in_a_shard_is_named_by_its_line(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,y\n" * 70 + "what,y\n" + "1,y\n" * 10)
    domain = Domain(columns={"a": Number(bounds=(0, 6)), "b": Label(values=("y", "n"))}, target="b")
    with pytest.raises(DataError, match="line 72, column 'a': 'what' is not a number"):
        encode(shard_of(open_table(path, header=True), 1, 2), domain)


def test_a_disk_that_is_full_leaves_no_half_of_an_array(tmp_path, monkeypatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 70)
    domain = Domain(columns={"a": Number(bounds=(0, 6)), "b": Number(bounds=(0, 6))})
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(DataError, match=r"Cannot write .*x\.npy: No space left"):
        encode(open_table(tmp_path / "t.csv"), domain, into=tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


RESIDENT = """
import sys
from reticent.data.domain import Category, Domain, Label
from reticent.data.encoding import encode
from reticent.data.files import open_table
from reticent.data.files.shards import shard_of

def resident(_=0):
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    found.append(sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssFile")) / 1024)

found = []
words = Category(values=tuple(f"w{i}" for i in range(1000)))
domain = Domain(columns={"a": words, "b": Label(values=("y", "n"))}, target="b")
shard = shard_of(open_table(sys.argv[1]), 1, 2)
encode(shard_of(shard, 0, 8), domain, into=sys.argv[2], on_progress=resident)
before = max(found)
data = encode(shard, domain, into=sys.argv[2], on_progress=resident)
print(data["x"].nbytes >> 20, max(found) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_resident_memory_stays_while_a_shard_is_encoded_into_a_folder(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"w{i % 999},{'yn'[i % 2]}\n" for i in range(100_000)))
    said = subprocess.run(
        [sys.executable, "-c", RESIDENT, str(path), str(tmp_path / "out")],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    size, grown = said.stdout.split()
    assert int(size) > 175  # MB
    assert float(grown) < 64
