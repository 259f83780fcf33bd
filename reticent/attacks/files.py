"""What other frameworks hand over: outputs in .npz files, ready scores in a table.

Nothing is unpickled unless the caller trusts the file.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reticent.attacks.scores import Outputs, Scores
from reticent.core.errors import DataError

Predictor = Callable[[np.ndarray], Any]  # from features to probabilities, (rows, classes)

_TRUE, _FALSE = {"1", "true", "yes", "member"}, {"0", "false", "no", "outsider"}


def read_outputs(
    path: Path, *, name: str, predictor: Predictor | None = None, trust: bool = False
) -> Outputs:
    """`labels`, and `probabilities` or `logits`, from a .npz file; or `features` for a predictor.

    Raises:
        DataError: the file is not there or not such a file, something is missing in it, or the model fails.
    """
    arrays = _arrays(path, trust=trust)
    labels, features = _needed(arrays, "labels", path), arrays.get("features")
    if predictor is not None:
        answers = _asked(predictor, _needed(arrays, "features", path), name)
        return Outputs.from_probabilities(answers, labels, features=features, name=name)
    if "logits" in arrays:
        return Outputs.from_logits(arrays["logits"], labels, features=features, name=name)
    probabilities = _needed(arrays, "probabilities", path)
    return Outputs.from_probabilities(probabilities, labels, features=features, name=name)


def read_scores(path: Path) -> Scores:
    """A table with the columns `score` and `is_member`, the higher the likelier a member."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"Cannot read {path}: {error}.", remedy="Give a CSV file.") from error
    if not rows or not {"score", "is_member"} <= set(rows[0]):
        raise DataError(
            f"{path} has no columns 'score' and 'is_member', or no rows.",
            remedy="Write a header and one line a record: score,is_member.",
        )
    sides: dict[bool, list[float]] = {True: [], False: []}
    for line, row in enumerate(rows, start=2):
        sides[_side(row["is_member"], path, line)].append(_number(row["score"], path, line))
    return Scores(members=np.array(sides[True]), outsiders=np.array(sides[False]))


def _arrays(path: Path, *, trust: bool) -> dict[str, np.ndarray]:
    try:
        if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle
            raise _no_arrays(path)
        with np.load(path, allow_pickle=trust) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.", remedy="Check the path.") from None
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds pickled objects, which run code when they are read.",
                remedy="Save plain arrays of numbers, or pass --trust if the file is your own.",
            ) from None
        raise _no_arrays(path) from error


def _no_arrays(path: Path) -> DataError:
    return DataError(
        f"{path} is no .npz file of arrays.",
        remedy="Write one with numpy.savez(path, labels=..., probabilities=...), or give a table of ready "
        "scores as --scores.",
    )


def _needed(arrays: dict[str, np.ndarray], key: str, path: Path) -> np.ndarray:
    if key not in arrays:
        raise DataError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, and no '{key}'.",
            remedy="Save 'labels' with 'probabilities' (rows x classes), or 'features' for --model.",
        )
    return arrays[key]


def _asked(predictor: Predictor, features: np.ndarray, name: str) -> Any:
    try:
        return predictor(features)
    except Exception as error:
        raise DataError(
            f"The model failed on the features of the {name}: {type(error).__name__}: {error}.",
            remedy="Give a function from (rows, features) to probabilities (rows, classes).",
        ) from error


def _side(text: str | None, path: Path, line: int) -> bool:
    word = (text or "").strip().lower()
    if word not in _TRUE | _FALSE:
        raise DataError(
            f"{path}, line {line}: is_member is {text!r}.",
            remedy="Write 1 for a member and 0 for an outsider.",
        )
    return word in _TRUE


def _number(text: str | None, path: Path, line: int) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise DataError(
            f"{path}, line {line}: the score {text!r} is no number.", remedy="Correct it."
        ) from None
