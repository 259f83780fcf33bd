"""A model that was trained with differential privacy, as scikit-learn knows models.

This file stands alone: `reticent export --format sklearn` copies it into a folder, beside `arrays.npz` and
`encoding.json`. It needs NumPy and scikit-learn, executes nothing that it reads, and does not need reticent.

    from released_model import load

    model = load(".")
    model.predict([{"age": 50, "town": "a"}])   # rows by column, or a pandas DataFrame
    model.predict_proba(x)                      # or encoded features, in the order of model.feature_names_in_
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

_BLANKS = " \t\n\v\f\r"  # removed from both ends of every cell


class _Released(BaseEstimator):
    """What both kinds of model have in common: the folder, the encoding of rows, and the layers."""

    def __init__(self, folder: str = ".") -> None:
        self.folder = folder

    def fit(self, x: Any, y: Any = None) -> Any:
        raise TypeError("This model was trained with differential privacy, and cannot be fitted again.")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def feature_names_in_(self) -> np.ndarray:
        return np.array(self._spec["features"], dtype=object)

    @property
    def n_features_in_(self) -> int:
        return len(self._spec["features"])

    @property
    def guarantee_(self) -> str:
        """The sentence about privacy that may be published with the model."""
        return self._spec["guarantee"]

    def encode(self, rows: Any) -> np.ndarray:
        """Rows, as dictionaries or a DataFrame, as float32 features (rows, features)."""
        if hasattr(rows, "columns"):
            cells = {str(name): list(rows[name]) for name in rows.columns}
            rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        found = [_encode(row, self._spec) for row in rows]
        return np.array(found, np.float32).reshape(len(found), self.n_features_in_)

    def _scores(self, x: Any) -> np.ndarray:
        if hasattr(x, "columns") or (len(x) and isinstance(x[0], Mapping)):
            x = self.encode(x)
        hidden = np.asarray(x, np.float32).reshape(len(x), self.n_features_in_)
        if "kinds" in self._spec:
            found = self._arrays["curve"][_cells(hidden, self._spec["kinds"])]  # (rows, columns, outputs)
            return self._arrays["constant"] + found.sum(axis=1)
        for number, (weights, constants) in enumerate(self._layers):
            hidden = (np.tanh(hidden) if number else hidden) @ weights + constants
        return hidden

    @property
    def _spec(self) -> dict[str, Any]:
        if "_read_spec" not in self.__dict__:
            self._read_spec = json.loads((Path(self.folder) / "encoding.json").read_text(encoding="utf-8"))
        return self._read_spec

    @property
    def _layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        arrays = self._arrays
        return [(arrays[f"weights{at}"], arrays[f"constants{at}"]) for at in range(len(arrays) // 2)]

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        if "_read_arrays" not in self.__dict__:
            with np.load(Path(self.folder) / "arrays.npz", allow_pickle=False) as arrays:
                self._read_arrays = {name: arrays[name] for name in arrays.files}
        return self._read_arrays


class ReleasedClassifier(ClassifierMixin, _Released):
    """A released model that predicts classes."""

    @property
    def classes_(self) -> np.ndarray:
        return np.array(self._spec["classes"], dtype=object)

    def predict_proba(self, x: Any) -> np.ndarray:
        """Probabilities (rows, classes)."""
        scores = self._scores(x).astype(np.float64)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, x: Any) -> np.ndarray:
        return self.classes_[self._scores(x).argmax(axis=1)]


class ReleasedRegressor(RegressorMixin, _Released):
    """A released model that predicts a number, in its own units and within its public bounds."""

    def predict(self, x: Any) -> np.ndarray:
        return np.clip(self._scores(x)[:, 0], *self._spec["bounds"])


def load(folder: str = ".") -> ReleasedClassifier | ReleasedRegressor:
    """The model in a folder."""
    spec = json.loads((Path(folder) / "encoding.json").read_text(encoding="utf-8"))
    return ReleasedClassifier(folder) if spec["classes"] else ReleasedRegressor(folder)


def _cells(x: np.ndarray, kinds: Iterable[int]) -> np.ndarray:
    """The cell of each column that a row is in, for an additive model: places among the cells of all columns.

    A kind is -1 for a number, -2 for a number and its mark for missing cells, or how many words there are. A
    number has 2,049 cells from -1 to 1 and one where it is missing, a category one per word and one for none.
    """
    found, at, first = [], 0, 0
    for kind in kinds:
        part, at = x[:, at : at + abs(kind)], at + abs(kind)
        if kind > 0:
            cell = np.where((part > 0.5).any(axis=1), part.argmax(axis=1), kind)
        else:
            is_missing = np.isnan(part[:, 0]) | (part[:, -1] > 0.5 if kind == -2 else False)
            inside = np.clip(np.where(is_missing, 0.0, part[:, 0]), -1.0, 1.0)
            cell = np.where(is_missing, 2049, np.rint((inside + 1.0) * 1024).astype(int))
        found.append(first + cell)
        first += kind + 1 if kind > 0 else 2050
    return np.stack(found, axis=1)


def _encode(row: Mapping[str, Any], spec: Mapping[str, Any]) -> list[float]:
    features: list[float] = []
    for column in spec["columns"]:
        cell = _cell(row, column["name"], spec["missing_markers"])
        features += _of_words(cell, column, spec) if "values" in column else _of_number(cell, column)
    return features


def _cell(row: Mapping[str, Any], name: str, markers: Iterable[str]) -> Any:
    """The cell without blanks around it; None where it is missing."""
    if name not in row:
        raise ValueError(f"A row has no column '{name}'.")
    cell = row[name]
    if isinstance(cell, str):
        cell = cell.strip(_BLANKS)
        return None if cell in markers else cell
    return None if cell is None or cell != cell else cell


def _of_number(cell: Any, column: Mapping[str, Any]) -> list[float]:
    value = None if cell is None else _number(cell, column)
    is_missing = value is None
    if is_missing:
        value = None if column["missing"] else column["typical"]
    low, high = column["bounds"]
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    scaled = 0.0
    if value is not None and half:
        scaled = min(max((min(max(value, low), high) - middle) / half, -1.0), 1.0)
    parts = _parts(None if is_missing else value, column.get("parts", {}))
    if column["missing"]:
        return [scaled, float(is_missing), *parts]
    if value is None:
        raise ValueError(f"A cell of '{column['name']}' is missing, which this model does not expect.")
    return [scaled, *parts]


def _parts(day: float | None, parts: Mapping[str, list[str]]) -> list[float]:
    """The month and the weekday of a day since 2000, where they are features."""
    features = []
    for part, names in parts.items():
        found = None if day is None else date(2000, 1, 1) + timedelta(days=math.floor(day))
        place = None if found is None else found.month - 1 if part == "month" else found.weekday()
        features += [float(place == at) for at in range(len(names))]
    return features


def _number(cell: Any, column: Mapping[str, Any]) -> float | None:
    """The number in a cell; None if there is none and the column counts that as missing."""
    try:
        if column["date"]:
            day = cell if isinstance(cell, date) else date.fromisoformat(str(cell)[:10])
            return float((date(day.year, day.month, day.day) - date(2000, 1, 1)).days)
        value = float(cell)
        if not math.isfinite(value):
            raise ValueError(cell)
        return value
    except ValueError:
        if column["lenient"]:
            return None
        what = "a date" if column["date"] else "a finite number"
        raise ValueError(f"{cell!r} in column '{column['name']}' is not {what}.") from None


def _of_words(cell: Any, column: Mapping[str, Any], spec: Mapping[str, Any]) -> list[float]:
    words, prior = column["values"], column["prior"]
    word, known = None if cell is None else str(cell), words
    if spec["ignore_case"] and word is not None:
        word, known = word.lower(), [each.lower() for each in words]
    if word is not None and column.get("buckets"):
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        word = known[int.from_bytes(digest, "big") % column["buckets"]]
    features = [float(word == each) for each in known]
    is_other = word is not None and word not in known
    if prior is not None and ((is_other and not column["other"]) or (word is None and not column["missing"])):
        features = list(prior)
    elif is_other and not column["other"]:
        raise ValueError(f"{cell!r} in column '{column['name']}' is none of the {len(words)} declared words.")
    elif word is None and not column["missing"]:
        raise ValueError(f"A cell of '{column['name']}' is missing, which this model does not expect.")
    if column["ordered"]:
        last = max(len(words) - 1, 1)
        features = [sum(share * place / last for place, share in enumerate(features))]
    features += [float(is_other)] * column["other"]
    return features + [float(word is None)] * column["missing"]
