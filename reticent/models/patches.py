"""Features from patches: an image compared with many small pieces of other images, which nobody trains.

Every piece of an image is normalised, whitened, and multiplied with filters that are themselves whitened
pieces of public images, or of drawings. What goes beyond a threshold is averaged over each quarter of the
image. Without any training this separates photographs better than most small networks that are trained
privately.

Guarantee:
    Features of an image depend on that image alone, and filters come from pictures that are public. Computing
    features costs no privacy, and a record of features is a record.

Reference:
    Coates and Ng (2011), "The importance of encoding versus training with sparse coding and vector
    quantization", Section 3; Coates, Ng and Lee (2011), for whitened patches and the quarters.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.observer import OnProgress
from reticent.models.layers import as_image, quarters
from reticent.models.whitening import unit_rows

THRESHOLD = 1.0  # of a response, beyond which it counts

_DIM = (10 / 255) ** 2  # added to the variance of a piece, so that flat ones stay flat
_SHRINK = 0.1  # added to the variances of all pieces together, before they are made alike
_PIECES = 100_000  # from which the whitening is found
_AT_ONCE = 32  # images


class Patches(NamedTuple):
    """Filters that were fixed before any record was seen.

    filters: (side, side, colours, count), applied to normalised pieces. shifts: (count,), added to responses.
    stride: how many pixels from one piece to the next.

    Example:
        >>> patches_of(np.random.default_rng(0).integers(0, 256, (50, 8, 8, 3), np.uint8), 4).filters.shape
        (6, 6, 3, 4)
    """

    filters: Float[np.ndarray, "side side colours count"]
    shifts: Float[np.ndarray, " count"]
    stride: int = 2

    @property
    def width(self) -> int:
        """How many features an image has."""
        return 8 * self.filters.shape[-1]


def patches_of(
    images: np.ndarray, count: int = 800, *, side: int = 6, stride: int = 2, seed: int = 0
) -> Patches:
    """Takes pieces of images as filters.

    Args:
        images: (n, height, width, colours) bytes or numbers from 0 to 1, public or drawn: never rows of the
            private data.
        stride: 1 sees four times as many pieces as 2, for four times the time and a little accuracy.

    Example:
        >>> patches_of(np.zeros((2, 4, 4, 3), np.uint8), 4)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: Patches of 6 x 6 pixels do not fit into images of shape
        (4, 4, 3). Use larger images, or a smaller side.
    """
    checks.count(count=count, side=side, stride=stride)
    images = np.asarray(images)
    if images.ndim != 4 or min(images.shape[1:3]) < side:
        raise InvalidArgument(
            f"Patches of {side} x {side} pixels do not fit into images of shape {images.shape[1:]}.",
            remedy="Use larger images, or a smaller side.",
        )
    rng = np.random.default_rng(seed)
    pieces = _normalise(_draw(images, side, max(_PIECES, 2 * count), rng))
    centre = pieces.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(pieces - centre, rowvar=False))
    whiten = (directions / np.sqrt(np.maximum(variances, 0) + _SHRINK)) @ directions.T
    chosen = unit_rows((_distinct(pieces, count, rng) - centre) @ whiten)  # (count, pixels)
    filters = (chosen @ whiten).T  # (pixels, count)
    shape = (side, side, images.shape[3], count)
    kept = np.ascontiguousarray(filters.reshape(shape), np.float32)
    return Patches(kept, (-centre @ filters).astype(np.float32), stride)


def patch_features(images: np.ndarray, patches: Patches, on_progress: OnProgress | None = None) -> np.ndarray:
    """The features of many images, (n, 8 * count) rows of length 1.

    Example:
        >>> images = np.random.default_rng(0).integers(0, 256, (50, 8, 8, 3), np.uint8)
        >>> patch_features(images[:2], patches_of(images, 4)).shape
        (2, 32)
    """
    found = np.empty((len(images), patches.width), np.float32)
    for start in range(0, len(images), _AT_ONCE):
        chunk = np.asarray(images[start : start + _AT_ONCE])
        full = np.pad(chunk, [(0, _AT_ONCE - len(chunk))] + [(0, 0)] * (chunk.ndim - 1))
        found[start : start + _AT_ONCE] = np.asarray(_features(full, *patches))[: len(chunk)]
        if on_progress is not None:
            on_progress(min(start + _AT_ONCE, len(images)) / len(images))
    return found


@partial(jax.jit, static_argnames="stride")
def _features(images: jax.Array, filters: jax.Array, shifts: jax.Array, stride: int) -> jax.Array:
    pictures = jax.vmap(as_image)(images)  # (n, height, width, colours)
    side, _, colours, _ = filters.shape
    layout = ("NHWC", "HWIO", "NHWC")
    window = jnp.full((side, side, colours, 1), 1 / (side * side * colours))
    mean, square = (
        jax.lax.conv_general_dilated(each, window, (stride, stride), "VALID", dimension_numbers=layout)
        for each in (pictures, jnp.square(pictures))
    )
    found = jax.lax.conv_general_dilated(
        pictures, filters, (stride, stride), "VALID", dimension_numbers=layout
    )
    spread = jnp.sqrt(jnp.maximum(square - jnp.square(mean), 0) + _DIM)
    responses = (
        found - mean * jnp.sum(filters, axis=(0, 1, 2))
    ) / spread + shifts  # (n, rows, columns, count)
    kept = jnp.concatenate(
        [jnp.maximum(responses - THRESHOLD, 0), jnp.maximum(-responses - THRESHOLD, 0)], axis=-1
    )
    means = jax.vmap(quarters)(kept)  # (n, 2, 2, 2 * count)
    rows = jnp.sqrt(means.reshape(len(images), -1))  # (n, 8 * count)
    return rows / jnp.maximum(jnp.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def _draw(images: np.ndarray, side: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pieces at random places of random images, (count, pixels) from 0 to 1."""
    which = rng.integers(len(images), size=count)
    tops, lefts = (rng.integers(images.shape[axis] - side + 1, size=count) for axis in (1, 2))
    rows, columns = tops[:, None, None] + np.arange(side)[:, None], lefts[:, None, None] + np.arange(side)
    found = images[which[:, None, None], rows, columns].reshape(count, -1)
    return found.astype(np.float32) / (255 if images.dtype == np.uint8 else 1)


def _normalise(pieces: np.ndarray) -> np.ndarray:
    away = pieces - pieces.mean(axis=1, keepdims=True)
    return away / np.sqrt(np.mean(np.square(away), axis=1, keepdims=True) + _DIM)


def _distinct(pieces: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """The first `count` pieces, those that show something first: a flat one is a filter for nothing."""
    shows = np.mean(np.square(pieces), axis=1) > 0.1
    order = rng.permutation(len(pieces))
    return pieces[np.concatenate([order[shows[order]], order[~shows[order]]])[:count]]
