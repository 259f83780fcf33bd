"""Named datasets: what the catalog knows of each before it has seen a byte of it, and what loading one gives.

The table of all of them is `entries.toml`, beside this file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:  # the command line lists datasets without ever importing an array
    from reticent.data.dataset import Dataset
    from reticent.data.domain import Domain

Task = Literal["classification", "regression", "language model"]


class RowCounts(NamedTuple):
    """How many records each part of a dataset has; 0 for a part that does not exist."""

    train: int
    test: int = 0
    validation: int = 0


@dataclass(frozen=True, kw_only=True)
class File:
    """One file: its name, size, checksum, and where to download it.

    A local copy may be gzipped where this one is not, or the other way round: it is found under `name`
    with and without `.gz`. Only a download is checked against `size` and `sha256`.

    Args:
        urls: tried in this order; none means that it cannot be downloaded.
    """

    name: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way in which a dataset is stored: files that belong together, and their reader.

    Args:
        reader: the function of `catalog.readers` that turns the files into arrays.
        rows: how many records these files hold, which is how a copy is checked.
    """

    reader: str
    rows: RowCounts
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """A named dataset: contents, licence, source, and the forms in which it is available.

    Args:
        shape: of one record; () for a text or a character, of which `record` says which it is.
        classes: the number of labels; 0 if the target is a quantity or there is none.
        folder: where its files lie below `RETICENT_DATA` and below the cache.
        forms: the first one is downloaded; the others are accepted where they are found.
        package: a Debian package with the same files, which it puts into `package_folder`.
    """

    name: str
    title: str
    task: Task
    classes: int
    licence: str
    source: str
    forms: tuple[Form, ...]
    shape: tuple[int, ...] = ()
    record: str = ""
    folder: str = ""
    package: str = ""
    package_folder: str = ""

    @property
    def rows(self) -> RowCounts:
        """How many records the whole dataset has; a form may hold fewer."""
        return self.forms[0].rows

    @property
    def files(self) -> tuple[File, ...]:
        """The files to download, or to supply by hand."""
        return self.forms[0].files

    @property
    def size(self) -> int:
        """The size of these files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def is_bundled(self) -> bool:
        """Whether it comes with scikit-learn and needs no files."""
        return not self.files

    @property
    def is_downloadable(self) -> bool:
        return bool(self.files) and all(file.urls for file in self.files)


class Splits(NamedTuple):
    """The parts of a dataset as its authors divided it, and what is public about its columns.

    Args:
        test: None if the authors made no test part.
        domain: None for images and text, which have no columns.
        validation: None if they made no validation part.
    """

    train: Dataset
    test: Dataset | None = None
    domain: Domain | None = None
    validation: Dataset | None = None


@cache
def by_name() -> dict[str, CatalogEntry]:
    """Every dataset of the catalog by its name, in the order of the table."""
    table = resources.files("reticent.data.catalog").joinpath("entries.toml").read_text(encoding="utf-8")
    return {name: _entry(name, row) for name, row in tomllib.loads(table).items()}


def _entry(name: str, row: dict[str, Any]) -> CatalogEntry:
    forms = tuple(_form(form) for form in row.pop("forms"))
    return CatalogEntry(name=name, shape=tuple(row.pop("shape", ())), forms=forms, **row)


def _form(row: dict[str, Any]) -> Form:
    mirrors = row.get("mirrors", [])
    files = tuple(_file(file, mirrors) for file in row.get("files", []))
    return Form(reader=row["reader"], rows=RowCounts(*row["rows"]), files=files)


def _file(row: dict[str, Any], mirrors: list[str]) -> File:
    urls = [row["url"]] if "url" in row else [f"{mirror}/{row['name']}" for mirror in mirrors]
    return File(name=row["name"], size=row["size"], sha256=row["sha256"], urls=tuple(urls))
