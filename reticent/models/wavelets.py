"""Morlet wavelets and the Gaussian that blurs what they find, as constant arrays.

Computed in NumPy's float64: they depend on the size of an image alone.

Reference:
    Bruna and Mallat (2013), arXiv:1203.1513v2. Widths, frequencies and the slant of the
    envelopes are those of the ScatNet and Kymatio software (Andreux et al. 2020, arXiv:1812.11214).
"""

from __future__ import annotations

import numpy as np

ANGLES = 8
SCALES = 2  # features are blurred and subsampled by 2^SCALES

_WIDTH = 0.8  # of the envelope at the finest scale, in pixels
_FREQUENCY = 3 * np.pi / 4
_SLANT = 4 / ANGLES  # envelopes are longer across the wave than along it


def morlet_filters(height: int, width: int, scale: int) -> np.ndarray:
    """The Fourier transforms of the wavelets of one scale, one for each angle; they are real.

    A wave e^(i k u) under a Gaussian g(u), less the multiple of g(u) that makes the mean zero.
    """
    filters = []
    for angle in range(ANGLES):
        theta = (ANGLES // 2 - 1 - angle) * np.pi / ANGLES
        wave = _envelope(height, width, theta, 2**scale, frequency=_FREQUENCY / 2**scale)
        bump = _envelope(height, width, theta, 2**scale, frequency=0.0)
        filters.append(np.fft.fft2(wave - wave.sum() / bump.sum() * bump).real)
    return np.stack(filters)  # (angles, height, width)


def _envelope(height: int, width: int, theta: float, stretch: float, *, frequency: float) -> np.ndarray:
    """A wave in direction theta under a slanted Gaussian of integral 1, on a torus."""
    deviation = _WIDTH * stretch
    rows = _circular_positions(height)[:, None, None, None]
    columns = _circular_positions(width)[None, :, None, None]
    copies = np.arange(-1, 2)  # the Gaussian is zero long before it comes round a second time
    rows = rows + height * copies[None, None, :, None]
    columns = columns + width * copies[None, None, None, :]
    along = rows * np.cos(theta) + columns * np.sin(theta)
    across = columns * np.cos(theta) - rows * np.sin(theta)
    gaussian = np.exp(-(along**2 + (_SLANT * across) ** 2) / (2 * deviation**2))
    wave = gaussian * np.exp(1j * frequency * along)
    return wave.sum(axis=(2, 3)) * _SLANT / (2 * np.pi * deviation**2)  # (height, width)


def blur_matrix(side: int, thinned: int) -> np.ndarray:
    """A Gaussian blur along one axis, then subsampling, then cutting off the borders: one matrix.

    Args:
        side: of the padded image, in pixels.
        thinned: how many times the signal was already subsampled by 2.
    """
    deviation = _WIDTH * 2 ** (SCALES - 1)
    places = _circular_positions(side)[:, None] + side * np.arange(-1, 2)[None, :]
    gaussian = np.exp(-(places**2) / (2 * deviation**2)).sum(axis=1) / np.sqrt(2 * np.pi * deviation**2)
    length = side // 2**thinned
    # A subsampled signal has only low frequencies: the blur keeps the same ones.
    frequencies = np.fft.fft(gaussian).real[_circular_positions(length).astype(int)]
    kernel = np.fft.ifft(frequencies).real  # (length,)
    step = 2 ** (SCALES - thinned)
    kept = np.arange(step, length - step, step)
    return kernel[(kept[:, None] - np.arange(length)[None, :]) % length]  # (kept, length)


def _circular_positions(length: int) -> np.ndarray:
    """0, 1, ... , -2, -1: places on a circle, in the order of a discrete Fourier transform."""
    return np.fft.fftfreq(length, 1 / length)
