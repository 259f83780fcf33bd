"""Random Fourier features: directions that nobody learned, in which a linear model bends."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Num
from scipy.special import ndtri

from reticent.core import checks

COUNT = 1024  # features; whole registers of any processor, so that no row is a remainder
WIDTH = 4.0  # how far a function may bend; over the root of the inputs, for inputs within [-1, 1]
_SEED = 19_480_229  # public, like everything here
_PIECE = 4096  # rows at a time


class FourierFeatures:
    """cos(w . x + b) for `count` random w and b, each row scaled to length 1.

    Inner products of such rows approximate a Gaussian kernel of the inputs, so that a linear model of them
    is one of smooth functions. The numbers come from a stream that no version of NumPy changes, and from
    nothing else: features of a row depend on that row alone.

    Args:
        inputs: of a row, each about within [-1, 1].
        width: the deviation of w times the root of the inputs. Wider ones bend more, and take more rows.

    Reference:
        Rahimi and Recht (2007), "Random features for large-scale kernel machines", Section 3.

    Example:
        >>> features = FourierFeatures(64)
        >>> rows = np.random.default_rng(0).uniform(-1, 1, (5, 64))
        >>> features(rows).shape, bool(np.allclose(np.linalg.norm(features(rows), axis=1), 1))
        ((5, 1024), True)
    """

    def __init__(self, inputs: int, count: int = COUNT, *, width: float = WIDTH) -> None:
        checks.count(inputs=inputs, features=count)
        checks.positive(width=width)
        words = np.random.Philox(key=_SEED).random_raw((inputs + 1) * count).reshape(inputs + 1, count)
        shares = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # within (0, 1)
        self.count = count
        self._directions = ndtri(shares[:-1]) * width / np.sqrt(inputs)  # (inputs, features)
        self._phases = 2 * np.pi * shares[-1]  # (features,)

    def __call__(self, rows: Num[np.ndarray, "rows inputs"]) -> Float[np.ndarray, "rows features"]:
        """The features of rows.

        Columns are added one after the other, and not by a matrix product: how that rounds a row would
        depend on where it stands.
        """
        found = np.empty((len(rows), len(self._phases)), np.float32)
        for start in range(0, len(rows), _PIECE):
            piece = np.asarray(rows[start : start + _PIECE], np.float64)
            angles = np.tile(self._phases, (len(piece), 1))
            for column, directions in zip(piece.T, self._directions, strict=True):
                angles += column[:, None] * directions
            waves = np.cos(angles, out=angles)
            lengths = np.sqrt(np.add.reduce(waves * waves, axis=1, keepdims=True))
            found[start : start + _PIECE] = waves / np.maximum(lengths, 1e-6)
        return found
