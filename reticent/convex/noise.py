"""Noise in 64 bits, and sums that are rounded to a grid.

Weights are computed in 64 bits. Noise of fewer bits would leave the lower ones bare: whoever guesses the data
could solve for the noise, and see whether it lies on the coarser grid. So noise is drawn with all 53 bits,
and what is published is rounded to a public grid, 2^-20 of the noise's scale, each cell of which holds
very many of the numbers that can be drawn.
"""

from __future__ import annotations

import math

import numpy as np

_FINE = 2.0**-20  # of the noise's scale: a cell of the grid

MARGIN = 1 + 1e-9  # noise is this much larger than the proof asks, for rounding before it


def gaussian(source: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    return deviation * MARGIN * source.standard_normal(shape)


def vector_laplace(source: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Density proportional to exp(-|noise| / scale): a uniform direction, and a Gamma-distributed length."""
    direction = source.standard_normal(shape)
    length = source.standard_gamma(direction.size)
    return direction * (scale * MARGIN * length / np.linalg.norm(direction))


def on_grid(values: np.ndarray, scale: float) -> np.ndarray:
    """The nearest multiples of a power of two, about 2^-20 of the noise's scale."""
    cell = 2.0 ** math.floor(math.log2(scale * _FINE))
    return np.round(values / cell) * cell
