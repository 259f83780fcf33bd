"""Reads the files of a dataset into arrays, and checks that they are complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reticent.core.errors import IntegrityError
from reticent.data.catalog import features, images, tables, texts
from reticent.data.catalog.entries import CatalogEntry, Splits
from reticent.data.catalog.sources import Location
from reticent.data.dataset import Dataset

Reader = Callable[[CatalogEntry, Mapping[str, Path]], Splits]

READERS: Mapping[str, Reader] = {
    "idx": images.read_mnist,
    "cifar_binary": images.read_cifar_binary,
    "cifar_strips": images.read_cifar_strips,
    "digits": features.read_digits,
    "location": features.read_location,
    "libsvm": features.read_libsvm,
    "adult": tables.read_adult,
    "table": tables.read_table,
    "breast_cancer": tables.read_breast_cancer,
    "covtype_text": tables.read_covtype_text,
    "covtype_arrays": tables.read_covtype_arrays,
    "sst2": texts.read_sst2,
    "sms_spam": texts.read_sms_spam,
    "lines": texts.read_lines,
    "characters": texts.read_characters,
}


def read(entry: CatalogEntry, location: Location) -> Splits:
    """The dataset at a location, checked against what the catalog says of it.

    Raises:
        IntegrityError: a file is damaged, or holds another number, shape or labelling of records.
    """
    splits = READERS[location.form.reader](entry, location.paths)
    _check_rows(entry, location, splits)
    for part in (splits.train, splits.test, splits.validation):
        if part is not None:
            _check_records(entry, location, part)
    return splits


def _check_rows(entry: CatalogEntry, location: Location, splits: Splits) -> None:
    parts = {"train": splits.train, "test": splits.test, "validation": splits.validation}
    for name, promised in location.form.rows._asdict().items():
        part = parts[name]
        rows = 0 if part is None else len(part)
        if rows != promised:
            raise _mismatch_error(entry, location, f"has {rows:,} {name} records, not {promised:,}")


def _check_records(entry: CatalogEntry, location: Location, part: Dataset) -> None:
    if "x" in part and part["x"].shape[1:] != entry.shape:
        got, promised = list(part["x"].shape[1:]), list(entry.shape)
        raise _mismatch_error(entry, location, f"has records of shape {got}, not {promised}")
    if "y" in part and entry.classes:
        least, greatest = part["y"].min(), part["y"].max()
        if least < 0 or greatest >= entry.classes:
            raise _mismatch_error(
                entry, location, f"has labels from {least} to {greatest}, not 0 to {entry.classes - 1}"
            )


def _mismatch_error(entry: CatalogEntry, location: Location, what: str) -> IntegrityError:
    return IntegrityError(
        f"Dataset '{entry.name}' in {location} {what}.",
        remedy="Replace the files there with a good copy, or delete them and fetch them again: "
        f"reticent datasets get {entry.name}",
    )
