"""Where a dataset is found: `RETICENT_DATA`, then the cache, then a Debian package.

Each is a folder, looked through in this order for a form of the dataset that is there in full.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from reticent.core.errors import Unavailable
from reticent.core.folders import cache_folder
from reticent.data.catalog.entries import CatalogEntry, File, Form

SourceName = Literal["scikit-learn", "RETICENT_DATA", "cache", "Debian package"]


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where a dataset is on this machine.

    Args:
        folder: None for one that comes with scikit-learn.
        form: the form it has there.
        paths: each file of that form, by the name it has in the catalog.
    """

    source: SourceName
    folder: Path | None
    form: Form
    paths: Mapping[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.folder is None:
            return f"bundled with {self.source}"
        return f"{self.folder} ({self.source})"


class SearchFolder(NamedTuple):
    """A folder in which a dataset may be."""

    source: SourceName
    folder: Path


def cache_folder_of(entry: CatalogEntry) -> Path:
    """The cache folder of this dataset, whether or not it is downloaded."""
    return cache_folder() / "datasets" / entry.folder


def find(entry: CatalogEntry) -> Location | None:
    """The first folder that has the whole dataset, or None."""
    if entry.is_bundled:
        return Location(source="scikit-learn", folder=None, form=entry.forms[0])
    for place in search_folders(entry):
        for form in entry.forms:
            paths = {file.name: path for file in form.files if (path := _path_of(file, place.folder))}
            if len(paths) == len(form.files):
                return Location(source=place.source, folder=place.folder, form=form, paths=paths)
    return None


def search_folders(entry: CatalogEntry) -> Iterator[SearchFolder]:
    """The folders to search, in order."""
    if named := os.environ.get("RETICENT_DATA"):
        root = Path(named).expanduser()
        if not root.is_dir():
            raise Unavailable(
                f"RETICENT_DATA names {root}, which is not a folder.",
                remedy="Set it to the folder that holds the datasets, or unset it.",
            )
        yield SearchFolder("RETICENT_DATA", root / entry.folder)
    yield SearchFolder("cache", cache_folder_of(entry))
    if entry.package:
        yield SearchFolder("Debian package", Path(entry.package_folder))


def what_is_missing(entry: CatalogEntry) -> list[str]:
    """For each folder, in order, why the dataset was not found there."""
    said = [] if os.environ.get("RETICENT_DATA") else ["RETICENT_DATA (not set)"]
    for place in search_folders(entry):
        label = f"the Debian package {entry.package}" if place.source == "Debian package" else place.source
        said.append(f"{label} ({_missing_files(entry, place.folder)})")
    return said


def _missing_files(entry: CatalogEntry, folder: Path) -> str:
    if not folder.is_dir():
        return f"no folder {folder}"
    missing = min(
        ([file.name for file in form.files if not _path_of(file, folder)] for form in entry.forms), key=len
    )
    return f"no {', '.join(missing)} in {folder}"


def _path_of(file: File, folder: Path) -> Path | None:
    zipped = file.name if file.name.endswith(".gz") else f"{file.name}.gz"
    for name in dict.fromkeys([file.name, zipped, zipped.removesuffix(".gz")]):
        if (folder / name).is_file():
            return folder / name
    return None
