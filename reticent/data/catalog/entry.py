"""What the catalog knows of a dataset before it has seen a byte of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Task = Literal["classification", "regression", "language model"]


class Rows(NamedTuple):
    """How many records each part of a dataset has; a part that it does not have counts 0."""

    train: int
    test: int = 0
    validation: int = 0


@dataclass(frozen=True, kw_only=True)
class File:
    """One file: what it is called, the bytes it must hold, and where on the net it is.

    A copy that is already here may be gzipped where this one is not, or the other way round: it is
    found under `name` with and without `.gz`. Only a download is held to `size` and `sha256`.

    Args:
        urls: tried in this order; none means that it cannot be downloaded.
    """

    name: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way in which a dataset is kept: files that belong together, and who can read them.

    Args:
        reader: the function of `catalog.readers` that turns the files into arrays.
        rows: how many records these files hold, which is how a copy is checked.
    """

    reader: str
    rows: Rows
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A named dataset: what it holds, whose it is, and in which forms it can be had.

    Args:
        shape: of one record; () for a text or a character, of which `record` says which it is.
        classes: how many labels there are; 0 where the target is a quantity, or there is none.
        folder: where its files lie below `RETICENT_DATA` and below the cache.
        forms: the first is the one that is downloaded; the others are accepted where they are found.
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
    def rows(self) -> Rows:
        """How many records the whole dataset has; a form may hold fewer."""
        return self.forms[0].rows

    @property
    def files(self) -> tuple[File, ...]:
        """The files that a download brings, or that somebody has to supply."""
        return self.forms[0].files

    @property
    def size(self) -> int:
        """How many bytes these files take."""
        return sum(file.size for file in self.files)

    @property
    def is_bundled(self) -> bool:
        """Whether it comes with scikit-learn and needs no file at all."""
        return not self.files

    @property
    def is_downloadable(self) -> bool:
        return bool(self.files) and all(file.urls for file in self.files)
