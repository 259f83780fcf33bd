"""A dataset is found where it should be looked for, in the order that is promised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reticent.core.errors import InvalidArgument, Unavailable
from reticent.data import catalog
from reticent.data.catalog import CatalogEntry, sources


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RETICENT_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def located(entry: CatalogEntry) -> sources.Location:
    location = sources.find(entry)
    assert location is not None
    return location


MNIST = [file.name for file in catalog.describe("mnist").files]


def test_the_named_folder_comes_before_the_cache_and_the_package(root: Path):
    entry = replace(
        catalog.describe("fashion_mnist"), package_folder=str(put(root / "usr" / "share", *MNIST))
    )
    assert located(entry).source == "Debian package"
    put(root / "cache" / "datasets" / "fashion-mnist", *MNIST)
    assert located(entry).source == "cache"
    put(root / "data" / "fashion-mnist", *MNIST)
    assert located(entry).source == "RETICENT_DATA"


def test_a_folder_with_a_file_missing_does_not_count(root: Path):
    put(root / "data" / "mnist", *MNIST[:-1])
    assert catalog.find("mnist") is None
    said = sources.what_is_missing(catalog.describe("mnist"))
    assert said[0] == f"RETICENT_DATA (no t10k-labels-idx1-ubyte.gz in {root / 'data' / 'mnist'})"


def test_files_are_found_zipped_or_not(root: Path):
    folder = put(root / "data" / "adult", "adult.data.gz", "adult.test")
    assert located(catalog.describe("adult")).paths == {
        "adult.data": folder / "adult.data.gz",
        "adult.test": folder / "adult.test",
    }
    folder = put(root / "data" / "mnist", *(name.removesuffix(".gz") for name in MNIST))
    assert located(catalog.describe("mnist")).paths[MNIST[0]] == folder / "train-images-idx3-ubyte"


def test_another_form_is_found_too_and_says_how_many_rows_it_holds(root: Path):
    put(root / "data" / "cifar10", "data_batch_1.webp.npz", "data_batch_2.webp.npz", "test_batch.webp.npz")
    assert located(catalog.describe("cifar10")).form.rows.train == 20_000
    put(root / "data" / "cifar10", *(f"data_batch_{number}.webp.npz" for number in range(3, 6)))
    assert located(catalog.describe("cifar10")).form.rows.train == 50_000
    put(root / "data" / "cifar10", "cifar-10-binary.tar.gz")
    assert located(catalog.describe("cifar10")).form.rows.train == 50_000


def test_what_scikit_learn_bundles_needs_no_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RETICENT_DATA", "/nowhere")
    assert str(catalog.find("digits")) == "bundled with scikit-learn"


def test_a_named_folder_that_is_not_there_is_a_mistake_to_report(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RETICENT_DATA", "/nowhere/at/all")
    with pytest.raises(Unavailable, match="RETICENT_DATA names /nowhere/at/all, which is not a folder"):
        catalog.find("mnist")


@pytest.mark.parametrize("name", ["a9a", "w8a"])
def test_files_of_several_datasets_share_a_folder(root: Path, name: str):
    put(root / "data" / "libsvm", "a9a.gz", "a9a.t.gz", "w8a.gz")
    assert located(catalog.describe(name)).folder == root / "data" / "libsvm"


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("mnst", "mnist"), ("fashion-mnist", "fashion_mnist"), ("cifar", "cifar10"), ("sst", "sst2")],
)
def test_an_unknown_name_suggests_the_nearest(wrong: str, nearest: str):
    with pytest.raises(InvalidArgument, match=f"There is no dataset called '{wrong}'.*'{nearest}'"):
        catalog.describe(wrong)
