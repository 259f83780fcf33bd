"""A kernel machine whose centres are public records, fitted directly to values with noise of a known size.

It is the posterior mean of a Gaussian process that knows the noise, so nothing has to be tuned: the more
noise an answer has, the more it leans on its neighbours.

Reference:
    Williams and Seeger (2001), Using the Nystroem method to speed up kernel machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.models.initialisers import zeros
from reticent.models.layers import as_numbers
from reticent.models.model import Model, Params

_AT_ONCE = 4096  # rows
_WIDTH = 1.0  # of the kernel, in mean squared distances of the pool
_QUIET = 1e-4  # added to the kernel's diagonal: two centres may be alike


def kernel_machine(centres: int, features: int, classes: int) -> Model:
    """Sums of bells around centres: weights times exp(-|x - centre|^2 / width), and a bias per class."""
    checks.count(centres=centres, features=features, classes=classes)

    def apply(params: Params, x: jax.Array) -> jax.Array:
        apart = jnp.square(params["centres"] - as_numbers(x).ravel()).sum(axis=1)
        return jnp.exp(-apart / params["width"]) @ params["w"] + params["b"]  # (classes,)

    starts = {
        "centres": zeros(centres, features),
        "width": zeros(),
        "w": zeros(centres, classes),
        "b": zeros(classes),
    }
    return Model(
        name="kernel machine",
        description=f"{centres} centres of {features} features, {classes} outputs",
        starts=starts,
        apply=apply,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelBasis:
    """Public records as centres, and the functions that bells around them span.

    Args:
        centres: (centres, features).
        width: of a bell, as a squared distance.
    """

    centres: np.ndarray = field(repr=False)
    width: float

    @classmethod
    def of(cls, pool: Any, *, centres: int = 2000, seed: int = 0) -> KernelBasis:
        """Chooses `centres` records of a public pool at random, and a width that fits their distances."""
        rows = np.asarray(pool, np.float32).reshape(len(pool), -1)
        checks.count(centres=centres)
        if len(rows) < 2:
            raise DataError("A public pool of one record is too small.", remedy="Pass more public records.")
        drawn = np.random.default_rng(seed).permutation(len(rows))[:centres]
        apart = 2 * rows[drawn].var(axis=0, dtype=np.float64).sum()  # the mean squared distance of two
        return cls(centres=rows[drawn], width=_WIDTH * max(float(apart), 1e-12))

    def __call__(self, x: Any) -> np.ndarray:
        """Rows as coordinates of which products are the kernel: (rows, centres)."""
        rows = np.asarray(x, np.float32).reshape(len(x), -1)
        pieces = range(0, len(rows), _AT_ONCE)
        return np.concatenate([self._bells(rows[at : at + _AT_ONCE]) @ self._roots for at in pieces])

    def _bells(self, rows: np.ndarray) -> np.ndarray:
        lengths = np.square(self.centres).sum(axis=1)
        apart = np.square(rows).sum(axis=1)[:, None] + lengths - 2 * rows @ self.centres.T
        return np.exp(-np.maximum(apart, 0) / np.float32(self.width))

    @cached_property
    def _roots(self) -> np.ndarray:
        """A matrix R with R R' = the inverse of the centres' kernel."""
        kernel = self._bells(self.centres).astype(np.float64)
        lower = cholesky(kernel + _QUIET * np.eye(len(kernel)), lower=True)
        return solve_triangular(lower, np.eye(len(kernel)), lower=True).T.astype(np.float32)

    def params(self, weights: np.ndarray, bias: np.ndarray) -> Params:
        """The parameters of a `kernel_machine`, from weights (centres, classes) of the coordinates."""
        return {
            "centres": jnp.asarray(self.centres),
            "width": jnp.float32(self.width),
            "w": jnp.asarray(self._roots @ weights, jnp.float32),
            "b": jnp.asarray(bias, jnp.float32),
        }


class Regression:
    """Fits values at the same rows again and again: the matrix is decomposed once.

    Args:
        coordinates: (rows, centres), by a `KernelBasis`.
        noise: the variance of a value's noise, where functions have variance 1.
    """

    def __init__(self, coordinates: np.ndarray, noise: float) -> None:
        checks.positive(noise=noise)
        self._coordinates = coordinates
        self._is_short = len(coordinates) < coordinates.shape[1]  # then the matrix of rows is the smaller one
        left = coordinates if self._is_short else coordinates.T
        products = (left @ left.T).astype(np.float64)
        self._factor = cho_factor(products + noise * np.eye(len(products)))

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (centres, columns) and biases (columns,) for values (rows, columns)."""
        bias = values.mean(axis=0)
        away = values - bias
        if self._is_short:
            weights = self._coordinates.T @ cho_solve(self._factor, away)
        else:
            weights = cho_solve(self._factor, self._coordinates.T @ away)
        return weights.astype(np.float32), bias
