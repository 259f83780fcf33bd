"""Files from other frameworks: outputs in .npz files, finished scores in a table.

Nothing is unpickled unless the caller trusts the file.
"""

from __future__ import annotations

import csv
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from reticent.attacks.predictors import Predict
from reticent.attacks.scores import Outputs, Scores
from reticent.core.errors import DataError
from reticent.core.files import MISFITS

# What is raised for an archive that is damaged, encrypted or packed in an unknown way: NumPy reads the header
# of an array as Python source.
BROKEN_ARCHIVE = (
    *MISFITS,
    EOFError,
    RuntimeError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_TRUE, _FALSE = {"1", "true", "yes", "member"}, {"0", "false", "no", "outsider"}


def read_outputs(path: Path, *, name: str, predictor: Predict | None = None, trust: bool = False) -> Outputs:
    """Reads `labels`, and `probabilities` or `logits`, from a .npz file; or `features` for a predictor.

    Raises:
        DataError: the file does not exist or is of another kind, lacks an array, or the model fails.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "outputs.npz"
        >>> np.savez(path, labels=np.arange(12) % 3, logits=np.zeros((12, 3)))
        >>> read_outputs(path, name="members").classes
        3
        >>> read_outputs(Path("nowhere.npz"), name="members")
        Traceback (most recent call last):
            ...
        reticent.core.errors.DataError: There is no file nowhere.npz. Check the path.
    """
    arrays = _load_arrays(path, trust=trust)
    labels, features = _require_array(arrays, "labels", path), arrays.get("features")
    if predictor is not None:
        answers = _ask_predictor(predictor, _require_array(arrays, "features", path), name)
        return Outputs.from_probabilities(answers, labels, features=features, name=name)
    if "logits" in arrays:
        return Outputs.from_logits(arrays["logits"], labels, features=features, name=name)
    probabilities = _require_array(arrays, "probabilities", path)
    return Outputs.from_probabilities(probabilities, labels, features=features, name=name)


def read_scores(path: Path) -> Scores:
    """Reads a table with the columns `score` and `is_member`; a higher score means likelier a member.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "scores.csv"
        >>> _ = path.write_text("score,is_member\\n" + "0.9,1\\n" * 10 + "0.1,0\\n" * 10)
        >>> read_scores(path).values.shape
        (20,)
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"Cannot read {path}: {error}.", remedy="Give a CSV file.") from error
    if not rows or not {"score", "is_member"} <= set(rows[0]):
        raise DataError(
            f"{path} has no columns 'score' and 'is_member', or no rows.",
            remedy="Write a header and one line per record: score,is_member.",
        )
    sides: dict[bool, list[float]] = {True: [], False: []}
    for line, row in enumerate(rows, start=2):
        sides[_parse_side(row["is_member"], path, line)].append(_parse_score(row["score"], path, line))
    return Scores(members=np.array(sides[True]), outsiders=np.array(sides[False]))


def _load_arrays(path: Path, *, trust: bool) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as opened:
            if not zipfile.is_zipfile(opened):  # NumPy would take it for a pickle
                raise _wrong_file(path)
        with np.load(path, allow_pickle=trust) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.", remedy="Check the path.") from None
    except (OSError, *BROKEN_ARCHIVE) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds pickled objects, which run code when they are read.",
                remedy="Save plain arrays of numbers, or pass --trust if the file is your own.",
            ) from None
        raise _wrong_file(path) from error


def _wrong_file(path: Path) -> DataError:
    return DataError(
        f"{path} is not a .npz file of arrays.",
        remedy="Write one with numpy.savez(path, labels=..., probabilities=...), or pass a table of "
        "scores as --scores.",
    )


def _require_array(arrays: dict[str, np.ndarray], key: str, path: Path) -> np.ndarray:
    if key not in arrays:
        raise DataError(
            f"{path} has no '{key}'; it holds {', '.join(sorted(arrays)) or 'nothing'}.",
            remedy="Save 'labels' with 'probabilities' (rows x classes), or 'features' for --model.",
        )
    return arrays[key]


def _ask_predictor(predictor: Predict, features: np.ndarray, name: str) -> Any:
    try:
        return predictor(features)
    except Exception as error:
        raise DataError(
            f"The model failed on the features of the {name}: {type(error).__name__}: {error}.",
            remedy="Give a function from (rows, features) to probabilities (rows, classes).",
        ) from error


def _parse_side(text: str | None, path: Path, line: int) -> bool:
    word = (text or "").strip().lower()
    if word not in _TRUE | _FALSE:
        raise DataError(
            f"{path}, line {line}: is_member is {text!r}.",
            remedy="Write 1 for a member and 0 for an outsider.",
        )
    return word in _TRUE


def _parse_score(text: str | None, path: Path, line: int) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise DataError(
            f"{path}, line {line}: the score {text!r} is not a number.", remedy="Correct it."
        ) from None
