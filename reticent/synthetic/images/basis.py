"""A public basis for images: what is known of a kind of picture before any is seen.

Noise on a sum grows with the number of coordinates, and 784 pixels are mostly blank corners. The main
directions of generated drawings (`reticent.models.prior_images`) say in a few dozen numbers most of
what a private image is; finding them costs no privacy, since no record is involved.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.models.prior_images import random_shapes, random_strokes

Prior = Literal["strokes", "shapes", "waves", "none"]
PRIORS = ("strokes", "shapes", "waves", "none")

_DRAWN = 4000  # prior images
_AT_ONCE = 8192  # rows
# Units are this power of the prior's spread: at 1 fine detail would be as loud as the outline, and a GAN on
# MNIST learns less of both (89 % downstream instead of 92 %).
_WHITENED = 0.6


class ImageBasis(NamedTuple):
    """Orthonormal directions in the space of records, fixed before any record was seen.

    centre: (inputs,). directions: (inputs, kept). scales: (kept,), the unit in which a network sees each.
    """

    centre: np.ndarray
    directions: np.ndarray
    scales: np.ndarray

    def coordinates(self, records: ArrayLike) -> np.ndarray:
        """Each record in this basis, (records, kept); it depends on its own record alone.

        Guarantee:
            Costs no privacy: a row of the result is a record, as what it was made from. That is true to the
            last bit, wherever a row stands and whatever stands beside it (see `exact_product`).
        """
        records = np.asarray(records)
        found = np.empty((len(records), self.directions.shape[1]), np.float32)
        centre = exact_product(self.centre[None], self.directions, 1.0, 1.0)
        for start in range(0, len(records), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            found[here] = exact_product(unit_pixels(records[here]), self.directions, 1.0, 1.0) - centre
        return found

    def pixels(self, coordinates: np.ndarray) -> np.ndarray:
        """The records at these coordinates, (records, inputs), between 0 and 1."""
        return np.clip(self.centre + coordinates @ self.directions.T, 0, 1).astype(np.float32)


@lru_cache(maxsize=8)
def public_basis(shape: tuple[int, ...], prior: Prior, kept: int) -> ImageBasis:
    """The main `kept` directions of a prior on records of this shape.

    Args:
        prior: `strokes` or `shapes` for square images of one colour, `waves` (the lowest cosines) for images
            of any size, `none` for vectors: every number is its own direction.

    Raises:
        InvalidArgument: the prior has nothing to say about this shape.
    """
    checks.one_of(PRIORS, prior=prior)
    checks.count(kept=kept)
    inputs = math.prod(shape)
    if prior == "none":
        return ImageBasis(
            np.zeros(inputs, np.float32), np.eye(inputs, dtype=np.float32), np.ones(inputs, np.float32)
        )
    if kept > inputs:
        raise InvalidArgument(
            f"{kept} directions were asked for, but a record has {inputs} numbers.",
            remedy=f"Keep at most {inputs}.",
        )
    if prior == "waves":
        return _waves(shape, kept)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InvalidArgument(
            f"Random {prior} are square images of one colour, and records have shape {shape}.",
            remedy="Pass prior='waves' for other images, or prior='none' for vectors.",
        )
    drawings = {"strokes": random_strokes, "shapes": random_shapes}[prior](_DRAWN, side=shape[0])
    rows = drawings.reshape(_DRAWN, -1).astype(np.float64) / 255
    centre = rows.mean(axis=0)
    variances, directions = np.linalg.eigh((rows - centre).T @ (rows - centre) / _DRAWN)
    largest = slice(-1, -kept - 1, -1)
    spread = np.sqrt(np.maximum(variances[largest], 1e-6))
    parts = centre, directions[:, largest], spread**_WHITENED
    return ImageBasis(*(np.ascontiguousarray(part, np.float32) for part in parts))


def _waves(shape: tuple[int, ...], kept: int) -> ImageBasis:
    """The cosines of lowest frequency, for every colour; natural images have most of their energy there."""
    if len(shape) not in (2, 3):
        raise InvalidArgument(
            f"Waves are for images, and records have shape {shape}.", remedy="Pass prior='none' for vectors."
        )
    height, width, colours = (*shape, 1)[:3]
    rows, columns = _cosines(height), _cosines(width)
    order = sorted(
        np.ndindex(height, width, colours), key=lambda at: ((at[0] / height) ** 2 + (at[1] / width) ** 2, at)
    )
    directions = np.zeros((height, width, colours, kept))
    for place, (row, column, colour) in enumerate(order[:kept]):
        directions[:, :, colour, place] = np.outer(rows[row], columns[column])
    frequency = np.array([1 + np.hypot(*at[:2]) for at in order[:kept]])
    spread = 0.25 * math.sqrt(height * width) / frequency**1.5
    parts = np.full(math.prod(shape), 0.5), directions.reshape(-1, kept), spread**_WHITENED
    return ImageBasis(*(np.ascontiguousarray(part, np.float32) for part in parts))


def _cosines(side: int) -> np.ndarray:
    """(frequency, place): an orthonormal basis of signals of this length."""
    places, frequencies = np.arange(side) + 0.5, np.arange(side)[:, None]
    waves = np.cos(np.pi / side * frequencies * places) * math.sqrt(2 / side)
    waves[0] /= math.sqrt(2)
    return waves


def exact_product(rows: np.ndarray, matrix: np.ndarray, of_rows: float, of_matrix: float) -> np.ndarray:
    """The product of rows with a matrix, in float64, each row by itself.

    A product of floats rounds differently at the edge of a block, so that one record less would move the last
    bits of others. Here entries are rounded to whole numbers of a power of two first, so coarse that all sums
    are exact.

    Args:
        of_rows, of_matrix: how large their entries are at most; larger ones are cut.
    """
    reach, across = math.frexp(of_rows)[1], math.frexp(of_matrix)[1]
    room = 52 - reach - across - len(matrix).bit_length()
    fine = (room + across - reach) // 2
    left = np.rint(np.ldexp(np.clip(rows.astype(np.float64), -of_rows, of_rows), fine))
    right = np.rint(np.ldexp(np.clip(matrix.astype(np.float64), -of_matrix, of_matrix), room - fine))
    return np.ldexp(left @ right, -room)


def unit_pixels(records: np.ndarray) -> np.ndarray:
    """Records as rows of numbers from 0 to 1, whatever they hold: bytes are divided by 255, other numbers
    cut off at both ends, and what is not a number is 0."""
    rows = records.reshape(len(records), -1)
    if records.dtype == np.uint8:
        return rows.astype(np.float32) / 255
    with np.errstate(invalid="ignore", over="ignore"):
        return np.clip(np.nan_to_num(rows.astype(np.float32), nan=0.0, posinf=1.0, neginf=0.0), 0, 1)


def check_records(x: ArrayLike, y: ArrayLike, classes: int, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Checks records and labels against each other and against what was declared.

    There may be fewer records than declared, however many coins held out, and up to twice as many: as many
    as sums are exact for.

    Raises:
        DataError: they do not; the message names no value of a record but a label that is not in the domain.
    """
    checks.count(classes=classes)
    records, labels = np.asarray(x), np.asarray(y)
    if records.ndim < 2 or labels.shape != records.shape[:1] or records.dtype.kind not in "fiub":
        raise DataError(
            f"Records of shape {records.shape} and {records.dtype} and labels of shape {labels.shape} "
            "do not make a dataset.",
            remedy="Pass images (n, height, width) or vectors (n, columns), and n labels.",
        )
    if labels.dtype.kind not in "iu" or np.any((labels < 0) | (labels >= classes)):
        raise DataError(
            f"Labels are not all whole numbers from 0 to {classes - 1}.",
            remedy="Declare the public number of classes, and number them from 0.",
        )
    if not (len(records) <= 2 * examples + 1):
        raise DataError(
            f"The plan was made for {examples} records and there are {len(records)}.",
            remedy="Make the plan with the public size of this dataset.",
        )
    return records, labels.astype(np.int32)
