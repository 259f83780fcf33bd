"""How a record of a run looks to a person: a picture, or the cells of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from reticent.core.errors import DataError
from reticent.core.observer import NOBODY
from reticent.data.domain import Category, Domain, Integer, Number
from reticent.data.encoding import feature_names
from reticent.data.kinds import format_bound
from reticent.runs.arrays import divided_by
from reticent.runs.reopen import Again
from reticent.runs.request import request_of
from reticent.runs.source import Source

_PUBLIC = 2000  # held-out records that an attacker is given, as records of the same kind
_RIDGE = 1e-3  # of the map from features to pixels, as a share of their mean variance

Draw = Callable[[np.ndarray], np.ndarray]


class View(NamedTuple):
    """Held-out records as the model takes them, and how to look at them.

    Args:
        records: as numbers; bytes became numbers from 0 to 1.
        box: in which they lie.
        draw: from such records to pictures (records, height, width) from 0 to 1; None for tables.
        pictures: those of the held-out records, where there are pictures.
        is_direct: whether the pixels of a picture are what the model takes, and not features of them.
    """

    records: np.ndarray
    labels: np.ndarray
    box: tuple[float, float]
    draw: Draw | None
    pictures: np.ndarray | None
    is_direct: bool

    @property
    def public(self) -> np.ndarray:
        return self.records[:_PUBLIC]


def view_of(again: Again) -> View:
    """Shows images as they are, and features of images through the best linear map back to pixels.

    Raises:
        DataError: the model sees features of rows, from which nothing leads back to their cells.
    """
    require_cells(again, "This attack")
    x, y = again.held_out["x"], again.held_out["y"]
    if again.learner.rounds_by_place:  # features of images, and not images
        return _view_of_features(again)
    records = (x / 255 if x.dtype == np.uint8 else x).astype(np.float32)
    shape = _picture_shape(again)
    if shape is None:
        reach = float(max(np.abs(records).max(initial=0.0), 1e-6))
        return View(records, y, (-reach, reach), None, None, True)
    high = float(max(records.max(initial=0.0), 1e-6))
    box = (min(float(records.min(initial=0.0)), 0.0), high)

    def draw(rows: np.ndarray) -> np.ndarray:
        pictures = np.asarray(rows, float).reshape(len(rows), *shape, -1).mean(axis=-1)  # colours become grey
        return (pictures - box[0]) / (box[1] - box[0])

    return View(records, y, box, draw, draw(records), True)


def require_cells(again: Again, what: str) -> None:
    """Refuses a model whose inputs are waves of all cells at once.

    Raises:
        DataError: it is one.
    """
    if again.learner.name == "fourier":
        raise DataError(
            f"{what} asks about cells of a row, and the model 'fourier' is given features of whole rows.",
            remedy="Run membership attacks, or train a linear, additive or mlp model of the same rows.",
        )


def _picture_shape(again: Again) -> tuple[int, int] | None:
    problem = again.problem
    if problem.is_image:
        return problem.shape[0], problem.shape[1]
    side = math.isqrt(math.prod(problem.shape))
    # Without names for its columns, a row of 64 numbers is a picture of 8 x 8.
    return (side, side) if again.domain is None and side * side == math.prod(problem.shape) else None


def _view_of_features(again: Again) -> View:
    source = Source(request_of(again.record))
    source.split = again.split
    images = divided_by(source, again.domain, NOBODY).held_out["x"]
    pictures = np.asarray(images, np.float64) / (255 if images.dtype == np.uint8 else 1)
    features = np.asarray(again.held_out["x"], np.float64)
    half = len(features) // 2
    draw = _fit_decoder(features[half:][: 2 * _PUBLIC], pictures[half:][: 2 * _PUBLIC])
    box = (float(features.min()), float(features.max()))
    return View(again.held_out["x"], again.held_out["y"], box, draw, pictures, False)


def _fit_decoder(features: np.ndarray, pictures: np.ndarray) -> Draw:
    """Fits a ridge regression from features to pixels, as an attacker would on public images."""
    centre, mean = features.mean(axis=0), pictures.mean(axis=0)
    away, target = features - centre, (pictures - mean).reshape(len(pictures), -1)
    square = away.T @ away
    square[np.diag_indices(len(square))] += _RIDGE * np.trace(square) / len(square) + 1e-12
    back = np.linalg.solve(square, away.T @ target)

    def draw(rows: np.ndarray) -> np.ndarray:
        found = (np.asarray(rows, float) - centre) @ back
        return np.clip(found.reshape(len(rows), *mean.shape) + mean, 0, 1)

    return draw


def cells(domain: Domain, row: np.ndarray) -> dict[str, str]:
    """Decodes a row of features, before scaling, into the cells that it came from.

    A category becomes the value with the largest feature; numbers are in the units of their column.
    """
    found, places = {}, {name: place for place, name in enumerate(feature_names(domain))}
    for name, column in domain.columns.items():
        if name == domain.target or not isinstance(column, (Number, Integer, Category)):
            continue
        words = [feature for feature in places if feature.startswith(f"{name} = ")]
        if isinstance(column, Category) and column.ordered:
            values = column.values or ("",)
            found[name] = values[round(float(np.clip(row[places[name]], 0, 1)) * (len(values) - 1))]
        elif isinstance(column, Category):
            found[name] = max(words, key=lambda feature: row[places[feature]]).partition(" = ")[2]
        elif words and row[places[words[0]]] > 0.5:
            found[name] = "(missing)"
        else:
            low, high = column.bounds or (-1.0, 1.0)
            value = low + (high - low) * (float(np.clip(row[places[name]], -1, 1)) + 1) / 2
            found[name] = f"{round(value)}" if isinstance(column, Integer) else format_bound(column, value)
    return found
