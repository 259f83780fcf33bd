"""Models for images: networks on pixels, and one product on features that nobody's records made.

Features are whitened by drawings (`reticent.models.prior_images`), so no run here needs public images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reticent import models
from reticent.core.errors import InvalidArgument
from reticent.models import Model
from reticent.models.initialisers import zeros
from reticent.models.whitening import unit_rows
from reticent.runs.problem import Problem

IMAGE_MODELS = ("cnn", "wide_resnet", "scattering", "patches")

_PRIOR_IMAGES = 8000
_KEPT = 1500  # directions of the whitened features
_PIECE = 2000  # images at a time
_PATCHES = 800
_RIDGE_OF_PATCHES = 1e-4


def silently(done: float) -> None:
    pass


def as_they_are(x: np.ndarray, on_progress: Callable[[float], None] = silently, /) -> np.ndarray:
    return x


class ImageLearner(NamedTuple):
    """A model for images, and what it takes.

    Args:
        rounds_by_place: the last bits of a row's inputs depend on its place among the rows.
    """

    model: Model
    inputs: Callable[..., np.ndarray]
    rounds_by_place: bool


def image_learner(name: str, problem: Problem) -> ImageLearner | str:
    """The model of this name; or, in words, which images it is for, if the problem has others."""
    match name:
        case "cnn" if problem.shape == (32, 32, 3):
            network = models.with_public_scale(models.tanh_cnn_colour(problem.outputs))
            return ImageLearner(network, as_they_are, False)
        case "cnn" if problem.shape in ((28, 28), (28, 28, 1)):
            return ImageLearner(models.tanh_cnn(problem.outputs), as_they_are, False)
        case "cnn":
            return "grey images of 28 x 28 pixels and colour images of 32 x 32"
        case "wide_resnet" if _is_picture(problem):
            channels = problem.shape[2] if len(problem.shape) == 3 else 1
            network = models.wide_resnet(10, 1, classes=problem.outputs, channels=channels)
            return ImageLearner(models.with_public_scale(network), as_they_are, False)
        case "scattering" if fits_scattering(problem):
            return ImageLearner(one_product(_KEPT, problem.outputs), _Whitened(problem.shape), True)
        case "patches" if _is_colour(problem):
            return ImageLearner(one_product(_KEPT, problem.outputs), _Patched(problem.shape), True)
        case "patches":
            return "colour images with sides of 16 to 64 pixels"
        case _:
            return "images whose sides are multiples of 4, from 16 to 64 pixels"


def refuse_images(request: Any) -> None:
    """
    Raises:
        InvalidArgument: the model is for images, and the rows are those of a table.
    """
    if request.model in IMAGE_MODELS or request.start is not None:
        what = f"model='{request.model}' is" if request.start is None else "Public weights are"
        raise InvalidArgument(
            f"{what} for images, and {request.source} is a table.",
            remedy="Choose linear, additive or mlp, or leave it to auto.",
        )


def fits_scattering(problem: Problem) -> bool:
    return _is_picture(problem) and problem.is_classification


def one_product(inputs: int, outputs: int) -> Model:
    """One product, without a bias."""
    return Model(
        name="product",
        description=f"one product {inputs}-{outputs}",
        starts={"w": zeros(inputs, outputs)},
        apply=lambda params, x: x @ params["w"],
    )


def _is_picture(problem: Problem) -> bool:
    shape = problem.shape
    is_image = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    return is_image and all(side % 4 == 0 and 16 <= side <= 64 for side in shape[:2])


def _is_colour(problem: Problem) -> bool:
    return len(problem.shape) == 3 and problem.shape[2] == 3 and _is_picture(problem)


class _FromDrawings:
    """Features of images, whitened by drawings that nobody made; the whitening is found once."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._side, self._has_colours = shape[0], len(shape) == 3 and shape[2] == 3
        self._whiten: models.Whitening | None = None

    def __call__(self, images: np.ndarray, on_progress: Callable[[float], None] = silently, /) -> np.ndarray:
        if self._whiten is None:
            self._whiten = self._whitening(self._drawings())
        found = np.empty((len(images), _KEPT), np.float32)
        for start in range(0, len(images), _PIECE):
            piece = slice(start, start + _PIECE)
            found[piece] = self._whiten(self._raw(np.asarray(images[piece])))
            on_progress(min(start + _PIECE, len(images)) / len(images))
        return found

    def _drawings(self) -> np.ndarray:
        if self._has_colours:
            return models.random_scenes(_PRIOR_IMAGES, side=self._side)
        draws = (models.random_strokes, models.random_shapes)
        return np.concatenate([draw(_PRIOR_IMAGES // 2, side=self._side) for draw in draws])

    def _whitening(self, drawings: np.ndarray) -> models.Whitening:
        return models.whitening(self._raw(drawings), kept=_KEPT)

    def _raw(self, images: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class _Whitened(_FromDrawings):
    """Scattering features; of colours, means over 2 x 2 places: as many as the whitening can hold."""

    def _raw(self, images: np.ndarray) -> np.ndarray:
        found = models.scattering_features(images, groups=27)
        for colour in range(found.shape[-1] // 81):
            # What two wavelets find is noisier than what one finds.
            found[..., 81 * colour + 17 : 81 * (colour + 1)] *= 0.7
        if self._has_colours:
            count, height, width, channels = found.shape
            found = found.reshape(count, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))
        return unit_rows(found.reshape(len(found), -1))


class _Patched(_FromDrawings):
    """What an image has in common with small pieces of drawings."""

    def _whitening(self, drawings: np.ndarray) -> models.Whitening:
        self._patches = models.patches_of(drawings, _PATCHES)
        return models.whitening(self._raw(drawings), kept=_KEPT, ridge=_RIDGE_OF_PATCHES)

    def _raw(self, images: np.ndarray) -> np.ndarray:
        return models.patch_features(images, self._patches)
