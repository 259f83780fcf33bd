"""Every bad file gets one line that names the file, the place, and what to do; none gets a traceback."""

from __future__ import annotations

import gzip
import os
import re
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.domain import Category, Domain, Integer, Label, Number
from reticent.data.encoding import encode
from reticent.data.files import open_table

SECRET = "4711-patient"  # in the rows, and never in a message

TEXTS = {
    "empty": (b"", "is empty"),
    "only blank lines": (b"\n\n \n", "is empty"),
    "only a mark": (b"\xef\xbb\xbf", "is empty"),
    "only a header": (b"age,work\n", "a header and no rows"),
    "ragged, short": (b"a,b\n1,2\n\n4711-patient\n", r"line 4 has 1 cells where there are 2 columns"),
    "ragged, long": (b"a,b\n1,2\n3,4711-patient,5\n", r"line 3 has 3 cells where there are 2 columns"),
    "ragged after quoted lines": (b'a,b\n1,"x\ny"\n3,4,5\n', r"line 4 has 3 cells"),
    "quote never closed": (b"a,b\n" + b'1,"x"\n' * 1500 + b'1,"4711-patient\n3,4\n', "never ends"),
    "duplicate names": (b"a,b,a\n1,2,3\n", "2 columns are named 'a'"),
    "missing name": (b"a,,c\n1,2,3\n", "column 2 of 3 has no name.*index=False"),
    "NUL bytes": (b"a,b\n1,4711-patient\n2,x\0y\n", "line 3 holds a NUL byte"),
    "cell too long": (b"a,b\n" * 2 + b'"' + b"x" * 200_000, "longer|never ends|line"),
    "gzip cut in half": (gzip.compress(os.urandom(5000).hex().encode())[:3000], "cut short"),
    "gzip damaged": (b"\x1f\x8b\x08" + bytes(30), "damaged|cut short"),
    "libsvm pair": (b"1 1:2\n1 4711\n", "line 2: a feature is not written as index:value"),
    "libsvm value": (b"1 1:2\n1 2:4711-patient\n", "line 2: a feature's value is not a number"),
    "libsvm index": (b"1 1:2\n1 99999999:1\n", "line 2: a feature's index is outside"),
    "libsvm qid": (b"1 1:2\n1 qid:4 1:2\n", "line 2: a feature's index is not a number"),
    "pickle": (b"\x80\x04\x95\x10", "pickle, which is never loaded"),
    "parquet of four bytes": (b"PAR1", "Parquet"),
    "zip of nothing": (b"PK\x03\x04", "NumPy arrays"),
    "npy header": (b"\x93NUMPY\x01\x00\x10\x00nonsense", "NumPy"),
}


def fails(action) -> str:
    with pytest.raises(DataError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize(("content", "complaint"), TEXTS.values(), ids=TEXTS.keys())
def test_a_bad_file_is_named_and_explained(tmp_path, content: bytes, complaint: str) -> None:
    path = tmp_path / "table.data"
    path.write_bytes(content)
    message = fails(lambda: list(open_table(path).batches()))
    assert str(path) in message
    assert re.search(complaint, message), message


def test_a_parquet_file_cut_anywhere(tmp_path) -> None:
    parquet.write_table(pa.table({"n": range(5000), "s": [SECRET] * 5000}), tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    for end in (5, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:end])
        assert "Parquet" in fails(lambda: list(open_table(tmp_path / "cut.parquet").batches()))


def test_an_npz_file_cut_or_overpromising(tmp_path) -> None:
    np.savez(tmp_path / "whole.npz", x=np.arange(1000))
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    assert "NumPy" in fails(lambda: open_table(tmp_path / "cut.npz"))
    with zipfile.ZipFile(tmp_path / "liar.npz", "w") as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        )
    assert "cut short" in fails(lambda: list(open_table(tmp_path / "liar.npz").batches()))


def test_pickled_objects_are_never_loaded(tmp_path) -> None:
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    np.savez(tmp_path / "bomb.npz", x=np.array([Bomb()], dtype=object), allow_pickle=True)
    message = fails(lambda: open_table(tmp_path / "bomb.npz"))
    assert "pickled" in message or "differ in length" in message or "axes" in message
    np.save(tmp_path / "bomb.npy", np.array([Bomb()], dtype=object))
    assert "pickled Python objects" in fails(lambda: open_table(tmp_path / "bomb.npy"))
    assert not (tmp_path / "exploded").exists()


def test_arrays_that_are_no_table(tmp_path) -> None:
    np.savez(tmp_path / "t.npz", x=np.zeros((2, 2, 2)))
    assert "3 axes" in fails(lambda: open_table(tmp_path / "t.npz"))
    np.savez(tmp_path / "t.npz", x=np.zeros(2), y=np.zeros(3))
    assert "differ in length (x: 2, y: 3)" in fails(lambda: open_table(tmp_path / "t.npz"))
    np.savez(tmp_path / "t.npz", x=np.zeros(0))
    assert "no rows" in fails(lambda: open_table(tmp_path / "t.npz"))
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    assert "cannot be read as an Excel workbook" in fails(lambda: open_table(tmp_path / "t.xlsx"))


def test_folder_missing_unreadable_and_special_files(tmp_path) -> None:
    assert "is a folder" in fails(lambda: open_table(tmp_path))
    assert "There is no file" in fails(lambda: open_table(tmp_path / "none.csv"))
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in fails(lambda: open_table(tmp_path / "pipe"))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "t.csv").chmod(0)
    assert "Permission denied" in fails(lambda: open_table(tmp_path / "t.csv"))


def test_a_permission_error_is_explained_for_everybody(tmp_path, monkeypatch) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    message = fails(lambda: open_table(tmp_path / "t.csv"))
    assert "Permission denied" in message
    assert "may read it" in message


def test_a_line_without_end_is_refused_at_the_limit(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n" + b"x" * 5000)
    assert "line 3 is longer than 1000 bytes" in fails(
        lambda: list(open_table(path, line_limit=1000).batches())
    )
    path.write_bytes(b'a,b\n1,"' + b"x\n" * 50_000 + b'"\n')
    assert "a row is longer than 1000 bytes" in fails(
        lambda: list(open_table(path, delimiter=",", header=True, quote='"', line_limit=1000).batches())
    )


def test_a_line_of_100_megabytes_is_refused_without_being_held(tmp_path) -> None:
    with gzip.GzipFile(tmp_path / "t.csv.gz", "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"x" * (1 << 20))
    assert "line 1 is longer than 64 MB" in fails(lambda: open_table(tmp_path / "t.csv.gz"))


def test_a_sparse_file_of_a_gigabyte_is_refused_at_its_first_hole(tmp_path) -> None:
    with open(tmp_path / "t.csv", "wb") as file:
        file.write(b"a,b\n1,")
        file.truncate(1 << 30)
    assert "line 2 holds a NUL byte" in fails(lambda: open_table(tmp_path / "t.csv"))


DOMAIN = Domain(
    columns={
        "age": Number(bounds=(0, 100)),
        "children": Integer(bounds=(0, 9)),
        "work": Category(values=("state", "private"), other=False),
        "sick": Label(values=("no", "yes")),
    },
    target="sick",
    source="table.toml",
)

CELLS = {
    "text for a number": ("old,1,state,no", "line 4, column 'age': 'old' is not a number"),
    "groups": ('"1,23,4",1,state,no', "Thousands separators stand between groups of three digits"),
    "unit": ("12 kg,1,state,no", "Remove the unit"),
    "date": ("2024-01-31,1,state,no", "It is a date: declare kind"),
    "infinity": ("-inf,1,state,no", "line 4, column 'age': '-inf' is not a finite number"),
    "overflow": ("1e999,1,state,no", "column 'age': '1e999' is not a finite number"),
    "NaN": ("nan,1,state,no", "column 'age': 'nan' is missing.*missing = true"),
    "missing": (",1,state,no", "column 'age': the cell is missing"),
    "half a child": ("40,1.5,state,no", "column 'children': '1.5' is not a whole number"),
    "category never declared": ("40,1,gov,no", "column 'work': 'gov' is none of the 2 declared values"),
    "missing category": ("40,1,?,no", r"column 'work': '\?' is missing"),
    "label never declared": ("40,1,state,maybe", "column 'sick': 'maybe' is none of the 2 declared"),
    "label missing": ("40,1,state,", "column 'sick': the cell is missing"),
    "only the first 40 characters": (f"{'x' * 100},1,state,no", "'x{40}'... is not a number"),
}


@pytest.mark.parametrize(("row", "complaint"), CELLS.values(), ids=CELLS.keys())
def test_a_bad_cell_is_named_with_file_line_and_column(tmp_path, row: str, complaint: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"age,children,work,sick\n30,0,state,no\n\n{row}\n31,2,private,yes\n")
    message = fails(lambda: encode(open_table(path), DOMAIN, into=tmp_path / "out"))
    assert str(path) in message
    assert "line 4" in message
    assert re.search(complaint, message), message
    assert list((tmp_path / "out").glob("*")) == []


def test_nan_and_infinity_in_arrays(tmp_path) -> None:
    domain = Domain(columns={"x": Number(bounds=(0, 1))}, missing_markers=())
    for bad in (np.nan, np.inf):
        np.savez(tmp_path / "t.npz", x=np.array([0.5, bad]))
        message = fails(lambda: encode(open_table(tmp_path / "t.npz"), domain))
        assert "row 2, column 'x'" in message
        assert "not a finite number" in message


def test_columns_that_are_not_there_get_the_nearest_name(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("agee,children,work,sick\n30,0,state,no\n")
    assert "no column 'age'. Did you mean 'agee'?" in fails(
        lambda: encode(open_table(tmp_path / "t.csv"), DOMAIN)
    )
    table = open_table(tmp_path / "t.csv")
    assert "Did you mean 'sick'?" in fails(lambda: encode(table, DOMAIN, target="sik"))


def test_undeclared_columns_are_all_listed_at_once(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,x,3\n")
    domain = Domain(columns={"a": Number(), "b": Category(), "c": Number(bounds=(0, 1))}, source="t.toml")
    message = fails(lambda: encode(open_table(tmp_path / "t.csv"), domain))
    assert "2 of 3 columns of t.toml have no declared bounds and values (a, b)" in message
    assert "--prepare private" in message


def test_a_number_written_in_another_way_is_explained(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "30\n" * 30 + '"1.234,56"\n')
    message = fails(lambda: encode(open_table(path), Domain(columns={"age": Number(bounds=(0, 100))})))
    assert (
        "line 32, column 'age': '1.234,56' is not a number. It has a decimal comma: pass --format" in message
    )
    path.write_text("age;b\n" + "30,5;a\n" * 30 + "1,234.56;b\n")
    message = fails(lambda: encode(open_table(path), Domain(columns={"age": Number(bounds=(0, 100))})))
    assert "'1,234.56' is not a number. It has a decimal point: pass --format" in message
