"""The rows that the benchmark fits, read where they are."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[3] / "shared" / "data"
_TRAINED = 26_048  # four fifths


class NotHere(Exception):
    """A dataset is not on this machine."""


class Split(NamedTuple):
    x: Any  # (rows, 123), sparse: each row has at most 14 ones
    y: np.ndarray  # -1 and 1
    test_x: Any
    test_y: np.ndarray


def a9a() -> Split:
    """The rows of `a9a`, in the order of a fixed seed: four fifths to train on, the others to test."""
    with gzip.open(found("libsvm", "a9a.gz")) as file:
        x, y = load_svmlight_file(file, n_features=123)
    order = np.random.default_rng(0).permutation(len(y))
    fitted, held_out = order[:_TRAINED], order[_TRAINED:]
    return Split(x[fitted], y[fitted], x[held_out], y[held_out])


def covtype() -> tuple[np.ndarray, np.ndarray]:
    """(581,012, 54) and labels from 1 to 7; the ten numbers are divided by round public bounds."""
    with np.load(found("covtype", "covtype.npz")) as arrays:
        numbers = arrays["numeric"] / np.array([4000, 360, 90, 1500, 750, 7500, 255, 255, 255, 7500])
        parts = [numbers]
        parts += [(arrays[name][:, None] == np.arange(1, top + 1)) for name, top in _KINDS.items()]
        return np.concatenate(parts, axis=1, dtype=np.float64), arrays["label"].astype(int)


_KINDS = {"wilderness": 4, "soil": 40}


def found(folder: str, name: str) -> Path:
    named = os.environ.get("RETICENT_DATA")
    path = (Path(named) if named else _BESIDE_THE_REPOSITORY) / folder / name
    if not path.is_file():
        raise NotHere(f"there is no {folder}/{name} in RETICENT_DATA or ../shared/data")
    return path
