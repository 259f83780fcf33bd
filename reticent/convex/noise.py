"""Noise of the convex methods, in whole numbers on a public grid.

Float noise on float weights reveals in the lower bits which data they were computed from. Here
weights and sums are moved to a grid first; see `reticent.mechanisms.whole` and `vectors`, which this module
calls with a little more noise than the proofs ask for.

Objective perturbation needs more: a random vector with a density. Whole noise has none, but it is near to one
that has: the discrete normal law of deviation S around 0 is drawn, up to 2^-64, by drawing y from the real
N(0, S^2 - t^2) with t = 1.5625 and then a whole number by the discrete normal law of deviation t around y. So
behind each tilt that is drawn there is a real one with the density of the proof, at most 16 t = 25 steps away
in each entry (but for a probability of 2^-180), and steps are below 2^-42 of an entry's deviation.
The difference between the two is hidden like the residual of the solver.
"""

from __future__ import annotations

import numpy as np

from reticent.mechanisms.vectors import add_whole_vector_laplace
from reticent.mechanisms.whole import add_whole_normals, deviation_of, normal_grid, whole_normals

MARGIN = 1 + 1e-9  # noise is this much larger than the proof asks, for rounding in its own parameters
WIDENED = 1 + 2.0**-9  # no deviation is larger than asked by more than this, for the grid

# How far an entry of a tilt is from that of a real one, over its deviation: 25 steps, and three roundings
# of a float that is below 100 deviations.
MOVED = 2.0**-37
_LEVELS = 6  # of a tilt: steps of 2^-48 of its deviation


def add_gaussian(
    source: np.random.Generator, values: np.ndarray, *, max_norm: float, deviation: float
) -> np.ndarray:
    """The values on a grid, with normal noise: `max_norm` is the distance of neighbours' values."""
    return add_whole_normals(source, values, max_norm=max_norm, deviation=deviation * MARGIN)


def deviation_on_grid(size: int, *, max_norm: float, deviation: float) -> float:
    """The deviation of the noise of `add_gaussian` on so many numbers, a little more than asked. Public."""
    levels, step = normal_grid(size, max_norm=max_norm, deviation=deviation * MARGIN)
    return deviation_of(levels) * step


def add_vector_laplace(
    source: np.random.Generator, values: np.ndarray, *, max_norm: float, epsilon: float
) -> np.ndarray:
    """The values on a grid, with noise of density exp(-epsilon |noise| / max_norm)."""
    return add_whole_vector_laplace(source, values, max_norm=max_norm * MARGIN, epsilon=epsilon)


def gaussian_tilt(source: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    """A vector that is in each entry within `MOVED` * deviation of a real Gaussian one."""
    return whole_normals(source, shape, levels=_LEVELS) * (deviation * MARGIN / deviation_of(_LEVELS))


def vector_laplace_tilt(source: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """A vector near to a real one of density exp(-|b| / scale): each entry within `MOVED` of its deviation,
    which is sqrt(size + 1) * scale."""
    return add_vector_laplace(source, np.zeros(shape), max_norm=scale, epsilon=1.0)
