"""The expected error of a strategy: how much noise the sums of all gradients so far carry.

The numbers are for a record of length 1 and a noise multiplier of 1 against what a record adds in all: at
equal privacy, the strategy with less error has less noise. Amplification by sampling is not in them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from reticent.noise.series import noise_of_sums


class ExpectedError(NamedTuple):
    """The deviation of the noise on a prefix sum: its root mean square over all steps, and the largest.

    Example:
        >>> toeplitz_error(np.array([1.0]), 4, sensitivity=1.0)
        ExpectedError(rmse=1.58..., largest=2.0)
    """

    rmse: float
    largest: float


def toeplitz_error(column: np.ndarray, steps: int, sensitivity: float) -> ExpectedError:
    """The expected error of a Toeplitz strategy, given by its first column."""
    return of_sums(noise_of_sums(np.asarray(column, float)[:steps], steps), sensitivity)


def of_sums(column: np.ndarray, sensitivity: float) -> ExpectedError:
    """The expected error, from the first column of A C^-1."""
    squares, steps = column**2, len(column)
    mean = float(np.sum(squares * np.arange(steps, 0, -1))) / steps
    return ExpectedError(sensitivity * math.sqrt(mean), sensitivity * math.sqrt(float(np.sum(squares))))


def matrix_error(matrix: np.ndarray, sensitivity: float) -> ExpectedError:
    """The expected error of a lower-triangular strategy with an inverse."""
    steps = matrix.shape[1]
    sums = np.tril(np.ones((steps, steps)))
    rows = solve_triangular(matrix, sums.T, trans=1, lower=True).T  # A C^-1
    return of_rows(rows, sensitivity)


def of_rows(rows: np.ndarray, sensitivity: float) -> ExpectedError:
    """The expected error, from the noise that each prefix sum takes: one row for each."""
    squares = np.sum(rows**2, axis=1)
    return ExpectedError(
        sensitivity * math.sqrt(float(np.mean(squares))), sensitivity * math.sqrt(float(np.max(squares)))
    )
