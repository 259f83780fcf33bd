"""Whatever bytes a file holds, only an error of ours may come out of reading, drafting and encoding it."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from reticent.core.errors import ReticentError
from reticent.data.drafting import draft
from reticent.data.encoding import encode
from reticent.data.files import open_table

thorough = settings(
    max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def use(folder: Path, content: bytes) -> None:
    """All that a user could do with a file."""
    path = folder / "table"
    path.write_bytes(content)
    try:
        table = open_table(path)
        assert table.dialect.describe()
        domain = draft(table)
        domain.to_toml()
        data = encode(table, domain)
    except ReticentError as error:
        if "\n" in str(error):
            raise
        return
    assert len(data) == table.row_count
    assert np.all(np.abs(data["x"]) <= 1)


marks = [
    b",",
    b";",
    b"\t",
    b"|",
    b"\n",
    b"\r\n",
    b'"',
    b"'",
    b" ",
    b":",
    b"#",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
]
cells = [b"1", b"-2.5", b"nan", b"1e400", b"a", b"?", b"1:2", b"\xc3\xa9", b"\xff\xfe"]
pieces = st.sampled_from(marks + cells)


@thorough
@given(content=st.binary() | st.lists(pieces).map(b"".join))
def test_any_bytes_as_text(tmp_path, content: bytes) -> None:
    use(tmp_path, content)


@thorough
@given(
    content=st.lists(
        st.sampled_from([b"1", b"-1", b" ", b":", b"2:3", b"\n", b"#", b"qid:1", b"9" * 30, b"e"])
    )
)
def test_any_bytes_as_libsvm(tmp_path, content: list[bytes]) -> None:
    use(tmp_path, b"1 1:1\n" + b"".join(content))


@thorough
@given(content=st.binary(), cut=st.integers(1, 60))
def test_any_bytes_as_gzip(tmp_path, content: bytes, cut: int) -> None:
    use(tmp_path, gzip.compress(b"a,b\n" + content)[:cut])
    use(tmp_path, b"\x1f\x8b" + content)


def whole_parquet() -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table({"n": range(50), "word": ["a", "b"] * 25, "x": np.linspace(0, 1, 50)}), sink)
    return sink.getvalue()


def whole_npz() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, n=np.arange(50), word=np.array(["a", "b"] * 25), x=np.eye(50))
    return sink.getvalue()


def whole_stata() -> bytes:
    """A column of bytes with a label, in format 114."""
    head = bytes([114, 2, 1, 0]) + struct.pack("<hi", 1, 50) + bytes(81 + 18)
    column = (
        bytes([251]) + b"n".ljust(33, b"\0") + bytes(4) + b"%8.0g".ljust(49, b"\0") + b"l".ljust(33, b"\0")
    )
    label = struct.pack("<i33s3xiiii", 11, b"l", 1, 3, 0, 7) + b"no\0"
    return head + column + bytes(81 + 5) + bytes(range(50)) + label


@pytest.mark.parametrize(
    "whole", [whole_parquet(), whole_npz(), whole_stata()], ids=["parquet", "npz", "stata"]
)
@thorough
@given(data=st.data())
def test_a_damaged_binary_file(tmp_path, whole: bytes, data: st.DataObject) -> None:
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    use(tmp_path, bytes(damaged[: data.draw(st.integers(len(whole) // 2, len(whole)))]))
    use(tmp_path, bytes(damaged))


@thorough
@given(
    header=st.binary(max_size=80),
    shape=st.text(max_size=8),
    kind=st.sampled_from(["<f8", "|O", "<U3", "V", "<M8[s]"]),
)
def test_any_npy_header(tmp_path, header: bytes, shape: str, kind: str) -> None:
    described = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape},)}}".encode()
    for text in (header, described):
        member = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
        use(tmp_path, member)
        with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
            archive.writestr("x.npy", member)
        use(tmp_path, (tmp_path / "packed").read_bytes())
