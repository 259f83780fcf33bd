"""The noise of private preparation: how much each release gets, and what all of them cost together.

Counts are whole, and so is their noise, in parts of one: see `add_whole_normals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import jax
import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator_of
from reticent.core.keys import step_key
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event, Gaussian, Repeated
from reticent.mechanisms.whole import add_whole_normals, deviation_of, normal_grid

_MOST_DELTA = 0.1  # of words; from there on the step of the noise would not be covered by its deviation


class PreparationRelease(IntEnum):
    """The four releases; each is one vector of counts."""

    KINDS = 0
    RANGES = 1
    QUANTILES = 2
    WORDS = 3


# How loud each is beside the others: a majority is easily seen, the number of a word's rows less so.
_LOUDNESS = {
    PreparationRelease.KINDS: 3.0,
    PreparationRelease.RANGES: 1.5,
    PreparationRelease.QUANTILES: 1.0,
    PreparationRelease.WORDS: 1.0,
}


@dataclass(frozen=True, kw_only=True)
class PreparationNoise:
    """What decides the cost of preparing a table.

    Args:
        noise_multiplier: of the quietest release; the others have more.
        delta: the probability that a word which only one row has is shown.
        releases: those that will be made. Which they are may depend on what is declared, never on data.

    Example:
        >>> noise = PreparationNoise(noise_multiplier=20.0, delta=1e-6)
        >>> noise.multiplier(noise.releases[0]) >= 20.0
        True
    """

    noise_multiplier: float
    delta: float
    releases: tuple[PreparationRelease, ...] = tuple(PreparationRelease)
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)
        checks.inside_unit(delta=self.delta)
        if PreparationRelease.WORDS in self.releases and not self.delta <= _MOST_DELTA:
            raise InvalidArgument(
                f"A word that only one row has must not be shown with probability {self.delta:g}.",
                remedy=f"Choose a delta of {_MOST_DELTA:g} or less, preferably less than 1 / rows.",
            )

    @property
    def event(self) -> Event:
        """The cost of the releases, whatever they find.

        A word that only one row has is shown with probability at most delta: that part, by itself, is
        (-ln(1 - delta), delta)-DP. A replaced row may take one such set of words away and bring another.
        """
        sums = tuple(Gaussian(noise_multiplier=self.multiplier(release)) for release in self.releases)
        if PreparationRelease.WORDS not in self.releases:
            return Composed(events=sums)
        shown = ApproximateDp(epsilon=-math.log1p(-self.delta), delta=self.delta, adjacency=self.adjacency)
        times = 2 if self.adjacency is Adjacency.REPLACE else 1
        return Composed(events=(*sums, Repeated(event=shown, times=times)))

    def multiplier(self, release: PreparationRelease) -> float:
        return self.noise_multiplier * _LOUDNESS[release]

    def deviation(self, release: PreparationRelease, columns: int) -> float:
        """The deviation of the noise on a count, if a row counts once in each of `columns`, rounded up.

        By a step: noise on a grid passes any threshold of z >= 1 such deviations, on the grid or between, no
        more often than real Gaussian noise does, since a sum over whole numbers beyond a threshold is at
        most the integral from one before it on.
        """
        levels, step = self._grid(release, columns)
        return (deviation_of(levels) + 1) * step * (1 + 1e-12)

    def _grid(self, release: PreparationRelease, columns: int) -> tuple[int, float]:
        """The levels and the step of the noise."""
        norm = math.sqrt(max(columns, 1))
        return normal_grid(1, max_norm=norm, deviation=self.multiplier(release) * norm, are_whole=True)

    def noisy(
        self, root: jax.Array, release: PreparationRelease, counts: np.ndarray, columns: int
    ) -> np.ndarray:
        """The counts, each row counting at most once in each of `columns` columns, with their noise.

        Guarantee:
            Costs the release's own Gaussian of `event`, up to 2^-64 a count.
        """
        if release not in self.releases:
            raise AssertionError(f"{release!r} was not paid for")
        norm = math.sqrt(max(columns, 1))
        return add_whole_normals(
            generator_of(step_key(root, int(release))),
            counts,
            max_norm=norm,
            deviation=self.multiplier(release) * norm,
            are_whole=True,
        )
