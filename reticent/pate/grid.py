"""The grid of votes: noise on counts is whole numbers in parts of a vote.

Finer than elsewhere: the data-dependent costs have formulas for real noise, and hold for the noise that is
drawn if every gap between two counts is taken to be one step smaller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.mechanisms.whole import deviation_of, parts_of_one, power_of_two, whole_laplace, whole_normals

_FINE = 1 << 32  # steps in a deviation
_FINE_LAPLACE = 1 << 36  # steps in a scale
_FARTHEST = 1 << 61  # steps


class NormalGrid(NamedTuple):
    """A vote in so many parts, and whole normals of so many levels.

    Guarantee:
        Counts with this noise cost no more than with real Gaussian noise of the deviation asked for, up to
        2^-64 per count: see `whole_normals`.
    """

    levels: int
    parts: int

    @classmethod
    def of(cls, deviation: float) -> NormalGrid:
        return cls(*parts_of_one(deviation, fine=_FINE))

    @property
    def deviation(self) -> float:
        """The deviation of the noise, in votes: what was asked for, or up to one part in 2^31 more."""
        return deviation_of(self.levels) / self.parts

    @property
    def step(self) -> float:
        """In votes."""
        return 1 / self.parts

    def noise(self, source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """In steps."""
        return whole_normals(source, shape, levels=self.levels)


class LaplaceGrid(NamedTuple):
    """A vote in so many parts, and whole Laplace noise of a scale in steps.

    Guarantee:
        Moved votes change the log odds of a result by at most their number over the scale asked for, up to
        2^-70 per count: see `whole_laplace`.
    """

    parts: int
    scale: float

    @classmethod
    def of(cls, scale: float) -> LaplaceGrid:
        parts = round(1 / min(power_of_two(scale / _FINE_LAPLACE), 1.0))
        return cls(parts, scale * parts * (1 + 2.0**-50))

    @property
    def step(self) -> float:
        """In votes: at most the scale over 2^36, or a vote where the scale is as large as that."""
        return 1 / self.parts

    def noise(self, source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """In steps."""
        return whole_laplace(source, shape, self.scale)


def in_steps(counts: np.ndarray, parts: int, teachers: int) -> np.ndarray:
    """Counts of so many teachers' votes in parts of a vote, as int64.

    Raises:
        InvalidArgument: there are too many teachers for so little noise; public, and so no count decides it.
    """
    if not teachers * parts <= _FARTHEST:
        raise InvalidArgument(
            f"The votes of {teachers} teachers, each in {parts} parts, do not fit into 64 bits.",
            remedy="Use more noise, or fewer teachers.",
        )
    return counts * np.int64(parts)
