"""Records that are vectors of numbers already: digits, locations, and the LIBSVM collection."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from reticent.data.catalog.entries import CatalogEntry, Splits
from reticent.data.catalog.unpacking import damage_error, read_text, tar_members
from reticent.data.dataset import Dataset

_DIGIT_LEVELS = 16  # each pixel counts how many of the 16 dots of a 4x4 block are black
_SIGNS = {"-1": 0, "+1": 1, "1": 1}


def read_digits(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """The digits that come with scikit-learn: x (n, 64) in [0, 1], y (n,)."""
    from sklearn.datasets import load_digits

    pixels, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    return Splits(train=_vectors(entry, pixels / _DIGIT_LEVELS, labels))


def read_location(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """Visits: x (n, 446) of zeros and ones, y (n,) from 0 to 29 where the file says "1" to "30"."""
    (path,) = paths.values()
    text = tar_members(path, ["bangkok"])["bangkok"].replace(b'"', b"")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an empty file is only warned about
            table = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.int16, ndmin=2)
    except (ValueError, UserWarning) as error:
        raise damage_error(path, f"has a line in bangkok that is not whole numbers ({error})") from error
    return Splits(train=_vectors(entry, table[:, 1:], table[:, 0] - 1))


def read_libsvm(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """Sparse text, made dense: x (n, features), y (n,) with 0 for the label -1 and 1 for +1."""
    train, *rest = (_read_sparse(entry, path) for path in paths.values())
    return Splits(train=train, test=rest[0] if rest else None)


def _read_sparse(entry: CatalogEntry, path: Path) -> Dataset:
    """Lines of the form `+1 3:1 17:0.5`: a label, then features counted from 1 with their values."""
    lines = read_text(path).rstrip().splitlines()
    features = np.zeros((len(lines), entry.shape[0]), dtype=np.float32)
    labels = np.zeros(len(lines), dtype=np.int32)
    for row, line in enumerate(lines):
        try:
            label, *pairs = line.split()
            labels[row] = _SIGNS[label]
            for pair in pairs:
                position, value = pair.split(":")
                features[row, _from_zero(position)] = float(value)
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            what = f"is not libsvm text of {entry.shape[0]} features on line {row + 1:,}"
            raise damage_error(path, what) from error
    return _vectors(entry, features, labels)


def _from_zero(position: str) -> int:
    counted = int(position)
    if counted < 1:  # numpy would take it for a place counted from the end
        raise IndexError(position)
    return counted - 1


def _vectors(entry: CatalogEntry, features: np.ndarray, labels: np.ndarray) -> Dataset:
    arrays = {"x": features.astype(np.float32, copy=False), "y": labels.astype(np.int32)}
    return Dataset(arrays=arrays, name=entry.name)
