"""Asks a model that is known only as a function, and checks its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reticent.attacks.scores import Outputs
from reticent.core.errors import DataError, ReticentError

Predict = Callable[[np.ndarray], Any]  # from records, one per row, to probabilities (records, classes)
Records = Mapping[str, Any]  # `x`, one record per row, and `y`, its class

_ROWS_AT_ONCE = 8192


def outputs_of(predict: Predict, records: Records, *, name: str = "records") -> Outputs:
    """Asks a model about records.

    Raises:
        DataError: the model failed, or its answers are not probabilities for these classes.

    Example:
        >>> records = {"x": np.linspace(0.1, 0.9, 10)[:, None], "y": np.arange(10) % 2}
        >>> outputs = outputs_of(lambda x: np.hstack([1 - x, x]), records)
        >>> len(outputs), outputs.classes
        (10, 2)
    """
    x, y = check_records(records, name=name)
    return Outputs.from_probabilities(ask(predict, x, name=name), y, features=x, name=name)


def ask(predict: Predict, x: np.ndarray, *, name: str = "records") -> np.ndarray:
    """Asks a model in pieces that fit into memory; returns one row per record."""
    pieces = [x[start : start + _ROWS_AT_ONCE] for start in range(0, len(x), _ROWS_AT_ONCE)]
    try:
        answers = [np.asarray(predict(piece), float) for piece in pieces]
    except ReticentError:
        raise
    except Exception as error:
        raise DataError(
            f"The model failed when it was asked about {name}: {type(error).__name__}: {error}",
            remedy="Give a function from records, one per row, to one row of probabilities each.",
        ) from error
    for piece, answer in zip(pieces, answers, strict=True):
        if answer.ndim != 2 or len(answer) != len(piece):
            raise DataError(
                f"Asked about {len(piece)} {name}, the model gave an array of shape {answer.shape}.",
                remedy="Return one row of probabilities per record and one column per class.",
            )
    return np.concatenate(answers)


def check_records(records: Records, *, name: str = "records") -> tuple[np.ndarray, np.ndarray]:
    """Returns `x` and `y` as arrays, after a check that they have the same length."""
    missing = [key for key in ("x", "y") if key not in records]
    if missing or len(records["x"]) != len(records["y"]):
        raise DataError(
            f"The {name} need `x` and `y` with the same number of rows.", remedy='Pass {"x": ..., "y": ...}.'
        )
    return np.asarray(records["x"]), np.asarray(records["y"])
