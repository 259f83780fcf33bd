"""The readers on real files: headerless, padded, blank, sparse, with comments and free text."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from reticent.data.domain import Category, Ignored, Integer, Label, Number
from reticent.data.drafting import draft
from reticent.data.encoding import encode, feature_names
from reticent.data.files import open_table


def test_adult_is_read_without_header_and_with_its_missing_cells(shared_data) -> None:
    table = open_table(shared_data("adult") / "adult.data.gz")
    assert table.dialect.describe().startswith("CSV, separated by comma, without a header")
    assert table.dialect.missing_markers == ("?",)
    domain = draft(table, "column_15")
    assert domain.columns["column_1"] == Integer(
        bounds=(17, 90), looked_up=frozenset({"kind", "bounds", "missing"})
    )
    assert domain.columns["column_15"] == Label(
        values=("<=50K", ">50K"), looked_up=frozenset({"kind", "values"})
    )
    with_missing = {name for name, column in domain.columns.items() if getattr(column, "missing", False)}
    assert with_missing == {"column_2", "column_7", "column_14"}
    data = encode(table, domain)
    assert np.bincount(data["y"]).tolist() == [24720, 7841]
    is_missing = [name.endswith("(missing)") for name in feature_names(domain)]
    assert np.count_nonzero(data["x"][:, is_missing].any(axis=1)) == 2399


def test_the_comment_at_the_head_of_adult_test_is_no_row(shared_data) -> None:
    table = open_table(shared_data("adult") / "adult.test.gz")
    assert table.row_count == 16281
    assert table.place(0) == "line 2"
    assert draft(table, "column_15").columns["column_15"] == Label(
        values=("<=50K.", ">50K."), looked_up=frozenset({"kind", "values"})
    )


def test_kddcup99_drafts_and_encodes(shared_data, tmp_path) -> None:
    """Every fifth row of it: attacks of one kind come in long runs."""
    with gzip.open(shared_data("kddcup99") / "kddcup.data_10_percent.gz") as whole:
        lines = list(itertools.islice(whole, 0, None, 5))
    (tmp_path / "kddcup99").write_bytes(b"".join(lines))
    table = open_table(tmp_path / "kddcup99")
    domain = draft(table, "column_42")
    service, share = domain.columns["column_3"], domain.columns["column_25"]
    assert isinstance(service, Category)
    assert set(service.values or ()) == {line.split(b",")[2].decode() for line in lines}
    assert isinstance(share, Number)
    data = encode(table, domain)
    assert len(data) == 98_805
    label = domain.columns["column_42"]
    assert isinstance(label, Label)
    smurfs = sum(line.rstrip().endswith(b",smurf.") for line in lines)
    assert np.count_nonzero(data["y"] == (label.values or ()).index("smurf.")) == smurfs > 50_000


def test_california_housing_has_blanks_in_one_column(shared_data) -> None:
    table = open_table(shared_data("california_housing") / "housing.csv.gz")
    domain = draft(table, "median_house_value")
    assert [name for name, column in domain.columns.items() if getattr(column, "missing", False)] == [
        "total_bedrooms"
    ]
    data = encode(table, domain)
    names = feature_names(domain)
    assert data["x"][:, names.index("total_bedrooms = (missing)")].sum() == 207
    assert data["y"].min() == 14999
    assert data["y"].dtype == np.float32


def test_a_libsvm_file_has_the_published_shape(shared_data) -> None:
    table = open_table(shared_data("libsvm") / "a9a.gz")
    data = encode(table, draft(table, "label"))
    assert data["x"].shape == (32_561, 123)
    assert set(np.unique(data["y"])) == {0, 1}


def test_covtype_arrays_are_a_table(shared_data) -> None:
    table = open_table(shared_data("covtype") / "covtype.npz")
    data = encode(table, draft(table, "label"))
    assert np.bincount(data["y"]).tolist() == [211840, 283301, 35754, 2747, 9493, 17367, 20510]


@pytest.mark.thorough
def test_a_csv_of_many_rows_needs_less_than_three_times_its_arrays(shared_data, tmp_path) -> None:
    source, table = shared_data("covtype") / "covtype.npz", tmp_path / "covtype.csv"
    write = "import sys, pathlib, benchmarks.reading as b; b.write_covtype(*map(pathlib.Path, sys.argv[1:]))"
    _in_a_process("-c", write, source, table)
    with table.open("rb") as whole, (part := tmp_path / "part.csv").open("wb") as short:
        short.writelines(itertools.islice(whole, 250_001))
    measured = json.loads(_in_a_process("-m", "benchmarks.reading", "read_and_encode", part))
    assert measured["rows"] == 250_000
    assert measured["encoded"] < measured["grown"] < 3 * measured["encoded"]


def _in_a_process(*words: object) -> bytes:
    command = [sys.executable, *map(str, words)]
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(command, check=True, capture_output=True, cwd=root).stdout


def test_location_with_its_quoted_class(shared_data, tmp_path) -> None:
    with tarfile.open(shared_data("location30") / "dataset_location.tgz") as archive:
        member = archive.extractfile(next(entry for entry in archive if entry.isfile()))
        assert member is not None
        (tmp_path / "bangkok").write_bytes(member.read())
    table = open_table(tmp_path / "bangkok")
    data = encode(table, draft(table, "column_1"))
    assert data["x"].shape == (5010, 446)
    assert len(np.unique(data["y"])) == 30


@pytest.mark.parametrize(
    ("name", "text"), [("sst2/train.tsv.gz", "sentence"), ("sms_spam/SMSSpamCollection", "column_2")]
)
def test_free_text_is_ignored_with_advice(shared_data, name: str, text: str) -> None:
    folder, file = name.split("/")
    column = draft(open_table(shared_data(folder) / file)).columns[text]
    assert isinstance(column, Ignored)
    assert "free text" in column.reason
