"""The real files, against numbers that others published about them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from reticent.data import catalog
from reticent.data.catalog import Splits, sources
from reticent.data.catalog.entries import CatalogEntry

pytestmark = pytest.mark.thorough  # they change only where readers do

SharedData = Callable[[str], Path]
Load = Callable[[str], Splits]

ON_DISK = [name for name in catalog.names() if not catalog.describe(name).is_bundled]


@pytest.fixture
def load(shared_data: SharedData, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a dataset from the full-size files, or skips with the name of what is missing.

    It has the rows that it promises, whatever else a test looks at.
    """

    def load(name: str) -> Splits:
        monkeypatch.setenv("RETICENT_DATA", str(shared_data(catalog.describe(name).folder).parent))
        splits, location = catalog.load(name), catalog.find(name)
        assert location is not None
        assert len(splits.train) == location.form.rows.train
        assert splits.train.name == name
        return splits

    return load


def copies(entry: CatalogEntry, folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Each file of each form that is there: its path, the checksum it should have, the one it has."""
    for form in entry.forms:
        for file in form.files:
            for name, unpack in ((file.name, bytes), (f"{file.name}.gz", gzip.decompress)):
                if (folder / name).is_file():
                    body = unpack((folder / name).read_bytes())
                    yield folder / name, file.sha256, hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("name", ON_DISK)
def test_checksums_and_sizes_of_the_table_are_those_of_the_files(name: str, shared_data: SharedData):
    entry = catalog.describe(name)
    found = list(copies(entry, shared_data(entry.folder)))
    assert found
    assert [(path, promised) for path, promised, _ in found] == [(path, got) for path, _, got in found]


@pytest.mark.parametrize("name", ON_DISK)
def test_every_dataset_is_loaded_by_a_test_here(name: str):
    assert f'load("{name}")' in Path(__file__).read_text(encoding="utf-8")


def test_mnist_has_the_digit_counts_of_lecun_1998(load: Load):
    splits = load("mnist")
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(splits.train["y"]).tolist() == counts
    assert splits.test is not None
    assert splits.test["x"].shape == (10_000, 28, 28)


def test_fashion_mnist_has_6000_and_1000_of_each_kind_as_in_xiao_2017(load: Load):
    splits = load("fashion_mnist")
    assert np.bincount(splits.train["y"]).tolist() == [6000] * 10
    assert splits.test is not None
    assert np.bincount(splits.test["y"]).tolist() == [1000] * 10


def test_cifar10_has_1000_test_images_of_each_kind_as_in_krizhevsky_2009(load: Load):
    splits = load("cifar10")
    assert splits.test is not None
    assert np.bincount(splits.test["y"]).tolist() == [1000] * 10
    assert np.bincount(splits.train["y"]).tolist() == [5000] * 10
    assert splits.train["x"].shape == (50_000, 32, 32, 3)
    assert splits.train["x"].dtype == np.uint8
    means = splits.train["x"].mean(axis=(0, 1, 2)) / 255
    assert means.round(4).tolist() == [0.4914, 0.4822, 0.4465]


def test_cifar100_has_500_images_of_each_kind_and_the_published_means(load: Load):
    train = load("cifar100").train
    assert np.bincount(train["y"]).tolist() == [500] * 100
    assert (train["x"].mean(axis=(0, 1, 2)) / 255).round(5).tolist() == [0.50708, 0.48655, 0.44092]
    assert (train["x"].std(axis=(0, 1, 2)) / 255).round(5).tolist() == [0.26733, 0.25644, 0.27615]


def test_adult_has_the_class_and_missing_counts_of_adult_names(load: Load):
    splits = load("adult")
    assert splits.domain is not None
    assert splits.test is not None
    from reticent.data.encoding import feature_names

    is_missing = [name.endswith("(missing)") for name in feature_names(splits.domain)]
    for part, counts, incomplete in ((splits.train, [24720, 7841], 2399), (splits.test, [12435, 3846], 1221)):
        assert np.bincount(part["y"]).tolist() == counts
        assert part["x"][:, is_missing].any(axis=1).sum() == incomplete


def test_covtype_has_the_class_counts_of_covtype_info(load: Load):
    counts = [211840, 283301, 35754, 2747, 9493, 17367, 20510]
    splits = load("covtype")
    assert np.bincount(splits.train["y"]).tolist() == counts
    assert splits.train["x"].shape == (581_012, 54)
    assert (splits.train["x"][:, 10:].sum(axis=1) == 2).all()


def test_location30_has_the_classes_of_shokri_2017(load: Load):
    train = load("location30").train
    assert train["x"].shape == (5010, 446)
    counts = np.bincount(train["y"])
    assert (len(counts), counts.min(), counts.max()) == (30, 97, 308)
    assert set(np.unique(train["x"])) == {0, 1}
    assert round(float(train["x"].mean()), 3) == 0.120


def test_a9a_is_adult_with_123_features_as_libsvm_says(load: Load):
    splits = load("a9a")
    assert splits.train["x"].shape == (32_561, 123)
    assert splits.test is not None
    assert splits.test["x"].shape == (16_281, 123)
    assert np.bincount(splits.train["y"]).tolist() == [24720, 7841]
    assert np.bincount(splits.test["y"]).tolist() == [12435, 3846]


def test_w8a_has_1479_pages_of_the_class_as_libsvm_says(load: Load):
    train = load("w8a").train
    assert train["x"].shape == (49_749, 300)
    assert int(train["y"].sum()) == 1479


def test_sst2_has_the_sentences_of_socher_2013(load: Load):
    splits = load("sst2")
    parts = (splits.train, splits.validation, splits.test)
    assert [len(part) for part in parts if part is not None] == [67_349, 872, 1821]


def test_sms_spam_has_747_unwanted_messages_as_almeida_2011_says(load: Load):
    assert np.bincount(load("sms_spam").train["y"]).tolist() == [4827, 747]


def test_tinyshakespeare_has_65_different_characters_as_karpathy_2015_says(load: Load):
    characters = load("tinyshakespeare").train["x"]
    assert len(characters) == 1_115_394
    assert len(np.unique(characters)) == 65
    assert characters[:14].tobytes() == b"First Citizen:"


def test_names_begin_with_emma_as_in_makemore(load: Load):
    assert load("names").train["text"][:3].tolist() == ["emma", "olivia", "ava"]


def test_california_housing_has_207_block_groups_without_bedrooms(load: Load):
    splits = load("california_housing")
    assert splits.domain is not None
    from reticent.data.encoding import feature_names

    missing = feature_names(splits.domain).index("total_bedrooms = (missing)")
    assert int(splits.train["x"][:, missing].sum()) == 207
    assert splits.train["y"].dtype == np.float32


def test_the_debian_package_of_fashion_mnist_loads():
    entry = catalog.describe("fashion_mnist")
    if not Path(entry.package_folder).is_dir():
        pytest.skip(f"needs the Debian package '{entry.package}' in {entry.package_folder}")
    from reticent.data.catalog import readers

    place = next(place for place in sources.search_folders(entry) if place.source == "Debian package")
    paths = {file.name: place.folder / file.name for file in entry.files}
    location = catalog.Location(source=place.source, folder=place.folder, form=entry.forms[0], paths=paths)
    assert len(readers.read(entry, location).train) == 60_000
