"""Scattering features: fixed filters like those a convolutional network learns first.

Wavelets of 2 scales and 8 angles, the modulus, wavelets again, the modulus again, and a blur: 1 + 16 + 64
= 81 channels at a quarter of the resolution.

    features = scattering_features(images, groups=27)       # (n, 28, 28) bytes -> (n, 7, 7, 81)
    model = scattering_linear((7, 7, 81))

Guarantee:
    Features of an image depend on that image alone: the wavelets are fixed and the normalisation is
    within one image. Computing them costs no privacy, and a record of features is a record.

Reference:
    Bruna and Mallat (2013), arXiv:1203.1513v2; Oyallon and Mallat (2015), arXiv:1412.8659v2; before private
    training, Tramèr and Boneh (2021), arXiv:2011.11660v3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.models.layers import as_numbers, normalise_groups
from reticent.models.wavelets import ANGLES, SCALES, blur_matrix, morlet_filters

CHANNELS = 1 + SCALES * ANGLES + ANGLES**2  # of an image of one colour: 81

_THINNED = 2**SCALES
_BORDER = 2**SCALES  # pixels mirrored at each side before the transform
_CHUNK = 64  # planes at once: more do not fit the processor's caches, and take longer each


def scattering_features(images: ArrayLike, *, groups: int | None = None) -> np.ndarray:
    """The scattering of many images, in pieces that fit into memory.

    Args:
        images: (n, height, width) or (n, height, width, colours), bytes or floats; bytes become numbers
            from 0 to 1. Sides are multiples of 4.
        groups: given, each image's features are normalised on the way; see `normalise_features`.

    Returns:
        (n, height / 4, width / 4, 81 * colours) float32, the channels of a colour side by side: the blurred
        image, then one wavelet (by scale, by angle), then two (by first angle, by second).

    Example:
        >>> scattering_features(np.zeros((1, 8, 8), np.uint8)).shape
        (1, 2, 2, 81)
    """
    images = np.asarray(images)
    _check_images(images)
    if groups is not None:
        checks.count(groups=groups)
    count, height, width, *colours = images.shape
    planes = colours[0] if colours else 1
    features = np.empty((count, height // _THINNED, width // _THINNED, planes * CHANNELS), np.float32)
    scatter = _scatter_chunk(bool(colours), groups)
    size = max(_CHUNK // planes, 1)

    def scatter_rows(start: int) -> None:
        chunk = images[start : start + size]
        features[start : start + size] = scatter(_fill(chunk, size))[: len(chunk)]

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # XLA transforms one chunk on one core
        list(pool.map(scatter_rows, range(0, count, size)))
    return features


def normalise_features(features: ArrayLike, groups: int = 27) -> jax.Array:  # (height, width, channels)
    """Mean 0 and variance 1 over every group of channels of one image, (height, width, channels).

    Free of charge, where a mean over the training images would have to be paid for.

    Example:
        >>> features = jnp.arange(32.0).reshape(2, 2, 8)
        >>> normalise_features(features, groups=2).shape
        (2, 2, 8)

    Reference:
        Tramèr and Boneh (2021), arXiv:2011.11660v3, their first choice of normalisation.
    """
    return normalise_groups(jnp.asarray(features), groups)


def scatter_image(image: jax.Array) -> jax.Array:
    """The scattering of one image of one colour: (height, width) -> (height / 4, width / 4, 81)."""
    fine, coarse, blur, blur_thinned = _constants(*image.shape)
    image = jnp.pad(as_numbers(image), _BORDER, mode="reflect")  # (side, side), 36 for MNIST
    spectrum = jnp.fft.fft2(image)
    first_fine = jnp.abs(jnp.fft.ifft2(spectrum * fine))  # (angles, side, side)
    first_coarse = jnp.abs(jnp.fft.ifft2(_fold(spectrum * coarse)))  # (angles, side / 2, side / 2)
    # A second wavelet finds something only where it is coarser than the first.
    spectra = jnp.fft.fft2(first_fine)[:, None]  # (angles, 1, side, side)
    second = jnp.abs(jnp.fft.ifft2(_fold(spectra * coarse)))  # (angles, angles, side / 2, side / 2)
    whole = jnp.concatenate([image[None], first_fine])
    thinned = jnp.concatenate([first_coarse, second.reshape(-1, *second.shape[2:])])
    channels = [_flatten(whole) @ blur, _flatten(thinned) @ blur_thinned]  # (9, places), (72, places)
    height, width = (side // _THINNED - 2 for side in image.shape)
    return jnp.concatenate(channels).T.reshape(height, width, CHANNELS)


def _fold(spectrum: jax.Array) -> jax.Array:
    """Every second sample of a signal, in Fourier space: the four quarters of its spectrum, averaged."""
    height, width = (side // 2 for side in spectrum.shape[-2:])
    upper, lower = spectrum[..., :height, :], spectrum[..., height:, :]
    halves = upper + lower
    return (halves[..., :width] + halves[..., width:]) / 4


def _flatten(maps: jax.Array) -> jax.Array:
    return maps.reshape(maps.shape[0], -1)


@lru_cache(maxsize=8)
def _constants(height: int, width: int) -> tuple[np.ndarray, ...]:
    """Fine and coarse wavelets, and the blur of whole and of thinned maps as a product of two matrices."""
    rows, columns = height + 2 * _BORDER, width + 2 * _BORDER
    wavelets = [morlet_filters(rows, columns, scale) for scale in range(SCALES)]
    blurs = [
        np.kron(blur_matrix(rows, thinned), blur_matrix(columns, thinned)).T for thinned in range(SCALES)
    ]
    return tuple(constant.astype(np.float32) for constant in (*wavelets, *blurs))


@lru_cache(maxsize=8)
def _scatter_chunk(has_colours: bool, groups: int | None) -> Callable[[np.ndarray], jax.Array]:
    def scatter(image: jax.Array) -> jax.Array:
        if has_colours:
            planes = jax.vmap(scatter_image, in_axes=2, out_axes=2)(image)  # (height, width, colours, 81)
            features = planes.reshape(*planes.shape[:2], -1)
        else:
            features = scatter_image(image)
        return features if groups is None else normalise_features(features, groups)

    return jax.jit(jax.vmap(scatter))


def _fill(chunk: np.ndarray, size: int) -> np.ndarray:
    """Pads a chunk with empty images, so that the last one needs no compilation of its own."""
    return np.pad(chunk, [(0, size - len(chunk))] + [(0, 0)] * (chunk.ndim - 1))


def _check_images(images: np.ndarray) -> None:
    if images.ndim not in (3, 4):
        raise DataError(
            f"Images come as (n, height, width) or (n, height, width, colours), got shape {images.shape}.",
            remedy="Reshape them to one row per image.",
        )
    height, width = images.shape[1:3]
    if height % _THINNED or width % _THINNED or min(height, width) <= _BORDER:
        raise DataError(
            f"Images of {height} x {width} pixels cannot be subsampled by {_THINNED}.",
            remedy="Pad or cut them to sides of 8, 12, 16 and so on.",
        )
