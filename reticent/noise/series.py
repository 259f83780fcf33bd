"""Lower-triangular Toeplitz matrices as power series: the first column is all there is of them.

A strategy C multiplies the sums of all steps, noise Z is added, and C^-1 (C X + Z) = X + C^-1 Z is released.
The workload is the prefix sum A, all ones: what an optimizer without momentum makes of gradients. Its error
is A C^-1 Z.
"""

from __future__ import annotations

import numpy as np

from reticent.core import checks
from reticent.noise.filters import fftconvolve, lfilter


def square_root(steps: int) -> np.ndarray:
    """The first column of the square root of the prefix sum: 1, 1/2, 3/8, 5/16, ...

    Reference:
        Fichtenberger, Henzinger and Upadhyay (2023), arXiv:2202.11205v2; Henzinger, Upadhyay and Upadhyay
        (2023), arXiv:2211.05006v1.

    Example:
        >>> square_root(5).tolist()
        [1.0, 0.5, 0.375, 0.3125, 0.2734375]
    """
    checks.count(steps=steps)
    factors = np.ones(steps)
    at = np.arange(1, steps)
    factors[1:] = (2 * at - 1) / (2 * at)
    return np.cumprod(factors)


def inverse(column: np.ndarray, steps: int) -> np.ndarray:
    """The first column of the inverse, `steps` long.

    Example:
        >>> inverse(square_root(5), 5).tolist()
        [1.0, -0.5, -0.125, -0.0625, -0.0390625]
    """
    start = np.zeros(steps)
    start[0] = 1.0
    return np.asarray(lfilter([1.0], column, start))


def noise_of_sums(column: np.ndarray, steps: int) -> np.ndarray:
    """The first column of A C^-1: how much of each noise is in a later prefix sum."""
    return np.asarray(lfilter([1.0], column, np.ones(steps)))


def shifted_sum(column: np.ndarray, steps: int, separation: int, times: int) -> np.ndarray:
    """What a record of length 1 adds to C X: from step 0 on, `times` times, `separation` apart."""
    total = np.zeros(steps)
    short = column[:steps]
    for start in range(0, min(times * separation, steps), separation):
        reach = min(len(short), steps - start)
        total[start : start + reach] += short[:reach]
    return total


def correlate(weights: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Sums over m of weights[m] values[m - i], for i below `count`."""
    if len(values) * count < 200_000:
        padded = np.concatenate([np.zeros(count - 1), values])
        rows = np.lib.stride_tricks.sliding_window_view(padded, len(values))[::-1]
        return rows[:count] @ weights
    return fftconvolve(weights, values[::-1])[len(values) - 1 :][:count]
