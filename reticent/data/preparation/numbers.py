"""Bounds of a column of numbers, from two noisy histograms: over powers of four, then over equal cells."""

from __future__ import annotations

import numpy as np

_LEAST, _MOST = -15, 30  # exponents of four: from a billionth to a quintillion
_EXPONENTS = _MOST - _LEAST + 1
COARSE = 2 * _EXPONENTS + 1  # cells: negative, zero, positive
FINE = 32  # cells
_TAIL = 0.005  # the share of rows cut off on each side, if the noise lets one see so few


def coarse_counts(numbers: np.ndarray) -> np.ndarray:
    """How many of the numbers have each sign and power of four."""
    sizes = np.abs(numbers)
    with np.errstate(divide="ignore"):
        exponents = np.clip(np.floor(np.log2(sizes) / 2), _LEAST, _MOST).astype(int) - _LEAST
    places = np.where(numbers > 0, _EXPONENTS + 1 + exponents, _EXPONENTS - 1 - exponents)
    places = np.where(sizes < 4.0**_LEAST, _EXPONENTS, places)
    return np.bincount(places, minlength=COARSE)


def coarse_range(noisy: np.ndarray, deviation: float) -> tuple[float, float] | None:
    """The smallest range of whole cells outside of which no count stands out of the noise."""
    # The largest of the cells' noises is above this once in a thousand times.
    found = np.flatnonzero(noisy > deviation * np.sqrt(2 * np.log(1000 * COARSE)))
    if not len(found):
        return None
    return _edges(int(found[0]))[0], _edges(int(found[-1]))[1]


def _edges(place: int) -> tuple[float, float]:
    """The numbers that a coarse cell holds."""
    exponent = abs(place - _EXPONENTS) - 1 + _LEAST
    if place == _EXPONENTS:
        return 0.0, 0.0
    near, far = 4.0**exponent, 4.0 ** (exponent + 1)
    return (near, far) if place > _EXPONENTS else (-far, -near)


def fine_counts(numbers: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """How many of the numbers are in each of the equal cells; those outside count in the nearest one."""
    low, high = bounds
    if high <= low:
        return np.array([len(numbers)] + [0] * (FINE - 1))
    inside = np.clip(numbers, low, high)
    places = np.clip((inside - low) / (high - low) * FINE, 0, FINE - 1).astype(int)
    return np.bincount(places, minlength=FINE)


def quantile_bounds(noisy: np.ndarray, bounds: tuple[float, float], deviation: float) -> tuple[float, float]:
    """The edges between which all but a small share of the rows lie, as far as the noise allows.

    Where zeros alone stand out of the noise, the other numbers keep their sign: -1 to 1. Clipped to zero
    they would be lost, and in a column of yes or no the rare answer with them.
    """
    low, high = bounds
    if high <= low:
        return low - 1, high + 1
    left, right = _first_above_noise(noisy, deviation), _first_above_noise(noisy[::-1], deviation)
    if left is None or right is None or left + right >= FINE:
        return bounds
    width = (high - low) / FINE
    return low + left * width, high - right * width


def _first_above_noise(noisy: np.ndarray, deviation: float) -> int | None:
    """The first cell up to which there are more rows than noise or the tail would explain."""
    up_to = np.cumsum(noisy)
    noise = 2 * deviation * np.sqrt(np.arange(1, len(noisy) + 1))
    found = np.flatnonzero(up_to > np.maximum(noise, _TAIL * up_to[-1]))
    return int(found[0]) if len(found) else None
