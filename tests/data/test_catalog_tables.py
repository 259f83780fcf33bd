"""The tables of the catalog are encoded by domains that nobody looked up in the records."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import DataError, IntegrityError
from reticent.data import catalog
from reticent.data.catalog import RowCounts, Splits
from reticent.data.encoding import feature_names

LoadFiles = Callable[[str, str, Mapping[str, bytes], RowCounts], Splits]

WITH_DOMAIN = [name for name in catalog.names() if catalog.domain(name)]

RICH = b"39, State-gov, 77516, Bachelors, 13, Divorced, Sales, Wife, White, Male, 99999, 0, 100, Japan, >50K"
POOR = b"17, ?, 9, Preschool, 1, Separated, ?, Husband, Black, Female, 0, 5000, 0, ?, <=50K"


def load_adult(load_files: LoadFiles, *, train: bytes = RICH + b"\n" + POOR + b"\n\n") -> Splits:
    test = b"|1x3 Cross validator\n" + RICH + b".\n" + POOR + b".\n\n"
    return load_files(
        "adult", "adult", {"adult.data": train, "adult.test": gzip.compress(test)}, RowCounts(2, 2)
    )


def npz(**arrays: Any) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


@pytest.mark.parametrize("name", WITH_DOMAIN)
def test_every_bound_and_category_is_declared_and_none_was_looked_up(name: str):
    domain = catalog.domain(name)
    assert domain is not None
    domain.require_public()
    assert (len(feature_names(domain)),) == catalog.describe(name).shape


def test_these_tables_have_a_domain():
    assert set(WITH_DOMAIN) == {"breast_cancer", "adult", "covtype", "california_housing"}


def test_adult_is_read_with_its_comment_its_dots_and_its_question_marks(load_files: LoadFiles):
    splits = load_adult(load_files)
    assert splits.test is not None
    assert splits.domain is not None
    np.testing.assert_array_equal(splits.train["x"], splits.test["x"])
    assert splits.train["y"].tolist() == [1, 0]
    names = feature_names(splits.domain)
    rich, poor = (dict(zip(names, row.tolist(), strict=True)) for row in splits.train["x"])
    assert rich["capital-gain"] == rich["hours-per-week"] == 1
    assert rich["native-country = Japan"] == 1
    assert poor["capital-loss"] == 1
    assert poor["occupation = (missing)"] == poor["workclass = (missing)"] == 1
    assert not any(name.startswith("fnlwgt") for name in names)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (RICH.replace(b"Japan", b"Atlantis"), "'Atlantis' is none of the 41 declared values"),
        (RICH.replace(b"39", b"young", 1), "'young' is not a number"),
        (RICH.replace(b", >50K", b""), "is not a table of 15 columns"),
        (RICH.replace(b"Male", b"?"), "is missing"),
    ],
    ids=["category", "number", "short line", "missing"],
)
def test_a_wrong_cell_of_adult_is_named(load_files: LoadFiles, tmp_path: Path, line: bytes, says: str):
    with pytest.raises(DataError) as caught:
        load_adult(load_files, train=POOR + b"\n" + line)
    assert says in caught.value.happened
    assert str(tmp_path / "adult.data") in caught.value.happened


NUMBERS = np.array([[2950, 0, 0, 0, 50, 0, 0, 0, 0, 0], [9999, 180, 45, 600, 50, 4300, 255, 255, 255, 7300]])
COVTYPE_ARRAYS = {
    "numeric": NUMBERS.astype(np.int16),
    "wilderness": np.array([1, 4], dtype=np.uint8),
    "soil": np.array([40, 2], dtype=np.uint8),
    "label": np.array([7, 1], dtype=np.uint8),
}


def covtype_text() -> bytes:
    """The same two rows as the authors write them."""
    rows = [
        [*numbers, *np.eye(4, dtype=int)[area - 1], *np.eye(40, dtype=int)[soil - 1], label]
        for numbers, area, soil, label in zip(*COVTYPE_ARRAYS.values(), strict=True)
    ]
    return b"".join(",".join(map(str, row)).encode() + b"\n" for row in rows)


def test_both_forms_of_covertype_give_the_same_records(load_files: LoadFiles):
    arrays = load_files("covtype", "covtype_arrays", {"covtype.npz": npz(**COVTYPE_ARRAYS)}, RowCounts(2))
    text = {"covtype.data.gz": gzip.compress(covtype_text())}
    authors = load_files("covtype", "covtype_text", text, RowCounts(2))
    np.testing.assert_array_equal(arrays.train["x"], authors.train["x"])
    assert arrays.train["y"].tolist() == authors.train["y"].tolist() == [6, 0]
    np.testing.assert_allclose(arrays.train["x"][0, :5], [0, -1, -1, -1, 0], atol=1e-6)
    np.testing.assert_allclose(arrays.train["x"][1, :5], [1, 0, 0, 0, 0], atol=1e-6)
    assert np.flatnonzero(arrays.train["x"][0, 10:]).tolist() == [0, 43]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"soil": np.array([0, 2])}, "soil_type outside of the 40"),
        ({"label": np.array([8, 1])}, "cover_type outside of the 7"),
        ({"numeric": NUMBERS[:, :9]}, "numbers of shape [2, 9], not [rows, 10]"),
    ],
    ids=["soil", "label", "numbers"],
)
def test_covertype_arrays_that_are_not_covertype_are_refused(
    load_files: LoadFiles, change: dict[str, np.ndarray], says: str
):
    files = {"covtype.npz": npz(**{**COVTYPE_ARRAYS, **change})}
    with pytest.raises(IntegrityError) as caught:
        load_files("covtype", "covtype_arrays", files, RowCounts(2))
    assert says in caught.value.happened


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"1,2,3\n", "is not a table of 55 whole numbers per line"),
        (covtype_text().replace(b"2950", b"high"), "is not a table of 55 whole numbers per line"),
        (covtype_text().replace(b"2950", b""), "has empty cells"),
        (covtype_text().replace(b",1,0,0,0,", b",1,0,0,1,"), "without exactly one wilderness area"),
    ],
    ids=["short", "words", "blanks", "two areas"],
)
def test_covertype_text_that_is_not_covertype_is_refused(load_files: LoadFiles, text: bytes, says: str):
    with pytest.raises(IntegrityError) as caught:
        load_files("covtype", "covtype_text", {"covtype.data.gz": text}, RowCounts(2))
    assert says in caught.value.happened


def test_breast_cancer_keeps_the_labels_of_scikit_learn_and_loses_nothing_to_clipping():
    from sklearn.datasets import load_breast_cancer

    splits = catalog.load("breast_cancer")
    cells, labels = load_breast_cancer(return_X_y=True)
    np.testing.assert_array_equal(splits.train["y"], labels)
    for position in range(30):
        straight = np.corrcoef(cells[:, position], splits.train["x"][:, position])[0, 1]
        assert straight > 1 - 1e-9
    assert np.abs(splits.train["x"]).max() <= 1


def test_digits_are_between_zero_and_one():
    train = catalog.load("digits").train
    assert train["x"].shape == (1797, 64)
    assert (train["x"].min(), train["x"].max()) == (0, 1)
    assert np.bincount(train["y"]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
