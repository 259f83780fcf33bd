"""The noise of private preparation: how much each release gets, and what all of them cost together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import checks
from reticent.core.keys import step_key
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event, Gaussian, Repeated
from reticent.mechanisms.gaussian import add_gaussian_noise
from reticent.mechanisms.sensitivity import BoundedSum

_LARGEST_COUNT = 2.0**23  # float32 counts up to here in steps of one


class Release(IntEnum):
    """The four releases; each is one vector of counts."""

    KINDS = 0
    RANGES = 1
    QUANTILES = 2
    WORDS = 3


# How loud each is beside the others: a majority is easily seen, the number of a word's rows less so.
_LOUDNESS = {Release.KINDS: 3.0, Release.RANGES: 1.5, Release.QUANTILES: 1.0, Release.WORDS: 1.0}


@dataclass(frozen=True, kw_only=True)
class PreparationNoise:
    """What decides the cost of preparing a table.

    Args:
        noise_multiplier: of the quietest release; the others have more.
        delta: the probability that a word which only one row has is shown.
        releases: those that will be made. Which they are may depend on what is declared, never on data.
    """

    noise_multiplier: float
    delta: float
    releases: tuple[Release, ...] = tuple(Release)
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)
        checks.inside_unit(delta=self.delta)

    @property
    def event(self) -> Event:
        """What the releases cost, whatever they find.

        A word that one row alone has is shown with probability at most delta: that part, by itself, is
        (-ln(1 - delta), delta)-DP. A replaced row may take one such set of words away and bring another.
        """
        sums = tuple(Gaussian(noise_multiplier=self.multiplier(release)) for release in self.releases)
        if Release.WORDS not in self.releases:
            return Composed(events=sums)
        shown = ApproximateDp(epsilon=-math.log1p(-self.delta), delta=self.delta, adjacency=self.adjacency)
        times = 2 if self.adjacency is Adjacency.REPLACE else 1
        return Composed(events=(*sums, Repeated(event=shown, times=times)))

    def multiplier(self, release: Release) -> float:
        return self.noise_multiplier * _LOUDNESS[release]

    def deviation(self, release: Release, columns: int) -> float:
        """Of the noise on a count, when a row counts once in each of so many columns."""
        return self.multiplier(release) * math.sqrt(max(columns, 1))

    def noisy(self, root: jax.Array, release: Release, counts: np.ndarray, columns: int) -> np.ndarray:
        """The counts, each row counting at most once in each of `columns` columns, with their noise.

        Guarantee:
            Costs the release's own Gaussian of `event`.
        """
        if release not in self.releases:
            raise AssertionError(f"{release!r} was not paid for")
        capped = np.minimum(np.asarray(counts, np.float64), _LARGEST_COUNT)
        total = BoundedSum(value=jnp.asarray(capped, jnp.float32), max_norm=math.sqrt(max(columns, 1)))
        gaussian = Gaussian(noise_multiplier=self.multiplier(release))
        return np.asarray(add_gaussian_noise(step_key(root, int(release)), total, gaussian), np.float64)
