"""Small files with large appetites: limits are stated, and checked before anything is allocated."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.files import open_table
from reticent.data.files import parquet as parquet_files
from reticent.data.files.table import MOST_COLUMNS


def _npy(shape: str) -> bytes:
    """An array of which only the header is there."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize("shape", ["(1, 1000000000)", "(1, 60000)", f"(1, {10**30})"])
def test_an_array_that_claims_to_be_wide_is_refused(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "t.npy"
    path.write_bytes(_npy(shape))
    with pytest.raises(DataError, match=rf"columns, and tables are read with at most {MOST_COLUMNS:,}"):
        open_table(path)


def test_arrays_that_are_wide_together_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(3):
            archive.writestr(f"a{number}.npy", _npy("(1, 20000)"))
    with pytest.raises(DataError, match="60,000 columns"):
        open_table(path)


def test_many_arrays_take_time_in_proportion(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        path = tmp_path / f"{count}.npz"
        content = io.BytesIO()
        np.save(content, np.zeros(2))
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(f"a{number}.npy", content.getvalue())
        started = time.process_time()
        table = open_table(path)
        assert sum(rows.batch.num_rows for rows in table.batches()) == 2
        return time.process_time() - started

    seconds(100)
    assert seconds(3000) < 30 * max(seconds(300), 0.05)  # squares would take a hundred times as long


def test_wide_texts_take_time_in_proportion_and_have_a_limit(tmp_path: Path) -> None:
    def seconds(columns: int) -> float:
        path = tmp_path / f"{columns}.csv"
        line = ",".join(f"c{n}" for n in range(columns))
        path.write_text("\n".join([line, *[",".join(["1"] * columns)] * 3, ""]))
        started = time.process_time()
        table = open_table(path)
        assert sum(rows.batch.num_rows for rows in table.batches()) == 3
        return time.process_time() - started

    seconds(100)
    assert seconds(20_000) < 30 * max(seconds(2000), 0.05)
    with pytest.raises(DataError, match="60,000 columns, and tables are read with at most"):
        seconds(60_000)


def test_words_that_are_stored_once_are_written_out_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "_BYTES", 1 << 16)
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": pa.array(["x" * 1000]).take(pa.array(np.zeros(5000, int)))}), path)
    sizes = [(rows.batch.num_rows, rows.batch.nbytes) for rows in open_table(path).batches()]
    assert sum(count for count, _ in sizes) == 5000
    assert max(size for _, size in sizes) < 2 << 16


@pytest.mark.thorough
def test_a_word_that_is_stored_once_is_not_written_out_for_all_rows_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows, word = 50_000, "x" * 40_000
    parquet.write_table(pa.table({"a": pa.array([word]).take(pa.array(np.zeros(rows, int)))}), path)
    assert path.stat().st_size < 200_000
    sizes = [(batch.batch.num_rows, batch.batch.nbytes) for batch in open_table(path).batches()]
    assert sum(count for count, _ in sizes) == rows
    assert max(size for _, size in sizes) < 2**27
