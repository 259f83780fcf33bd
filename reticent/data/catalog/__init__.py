"""Named datasets, found on this machine or downloaded.

    splits = catalog.load("mnist")
    splits.train["x"]        # (60000, 28, 28) uint8
    splits.test["y"]         # (10000,) int32

A dataset is looked for in the folder that the environment variable `RETICENT_DATA` names, then in the
cache (`RETICENT_CACHE`, or the one of the operating system), then in a Debian package if there is one.
Otherwise it is downloaded, and its size and checksum are checked. `digits` and `breast_cancer` come with
scikit-learn and are always available.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.errors import InvalidArgument, suggest
from reticent.core.observer import OnProgress
from reticent.data.catalog import download, entries, sources
from reticent.data.catalog.entries import CatalogEntry, File, Form, RowCounts, Splits
from reticent.data.catalog.sources import Location

if TYPE_CHECKING:
    from reticent.data.domain import Domain

__all__ = [
    "CatalogEntry",
    "File",
    "Form",
    "Location",
    "RowCounts",
    "Splits",
    "describe",
    "domain",
    "fetch",
    "find",
    "load",
    "names",
]


def names() -> list[str]:
    """The names of all datasets in the catalog.

    >>> names()[:4]
    ['digits', 'breast_cancer', 'mnist', 'fashion_mnist']
    """
    return list(entries.by_name())


def describe(name: str) -> CatalogEntry:
    """What is known of a dataset without looking at it: size, shape, licence, files and checksums.

    Raises:
        InvalidArgument: no dataset has that name; the message suggests the nearest.

    >>> describe("mnist").rows
    RowCounts(train=60000, test=10000, validation=0)
    """
    if name not in entries.by_name():
        raise InvalidArgument(f"There is no dataset called '{name}'.", remedy=suggest(name, names()))
    return entries.by_name()[name]


def domain(name: str) -> Domain | None:
    """What is public about the columns of a dataset, or None for images, text and plain vectors.

    Bounds and categories come from the description that is published with the data; none was looked up in
    the records.

    >>> domain("adult").columns["age"].bounds
    (0, 100)
    """
    from reticent.data.catalog.domains import public_domain

    return public_domain(describe(name).name)


def find(name: str) -> Location | None:
    """Where a dataset is on this machine, or None if it would have to be downloaded.

    Example:
        >>> str(find("digits"))
        'bundled with scikit-learn'
    """
    return sources.find(describe(name))


def fetch(name: str, *, on_progress: OnProgress = lambda done: None) -> Location:
    """Downloads a dataset if this machine does not have it, and returns where it is.

    Args:
        on_progress: called with the fraction of the download that is done, from 0 to 1.

    Raises:
        Unavailable: no source has it; the message lists what was tried and two remedies.
        IntegrityError: a server sent bytes that do not match the checksum.
    """
    entry = describe(name)
    return sources.find(entry) or download.fetch(entry, on_progress=on_progress)


def load(name: str, *, on_progress: OnProgress = lambda done: None) -> Splits:
    """A dataset as arrays, downloaded first if necessary.

    Images are bytes in `x`; vectors and encoded tables are float32 in `x`; text is in `text`. Labels are
    int32 in `y`, counted from 0. A table with a public schema comes with its `Domain`, and
    is encoded by it.

    Raises:
        Unavailable: no source has it; the message lists what was tried and two remedies.
        IntegrityError: a file is cut short, damaged, or not what the catalog says.

    >>> load("digits").train
    Dataset('digits', 1797 rows, unit record, x: float32[1797, 64], y: int32[1797])
    """
    from reticent.data.catalog import readers

    return readers.read(describe(name), fetch(name, on_progress=on_progress))
