"""How votes become an answer: noise on the counts, then the largest.

    LaplaceMax       LNMax: Laplace noise of scale 1 / gamma on every count (the course's first form)
    ExponentialMax   a class with probability proportional to exp(gamma * count)
    GaussianMax      GNMax: Gaussian noise on every count
    Confident        GNMax, but only where the largest count passes a noisy threshold; with a student's own
                     beliefs it is Interactive-GNMax: only where the votes would surprise the student

A record is in the shard of one teacher. Adding or removing it can change that teacher and no other, which
moves one vote from a class to another: two counts by one each, the largest count by at most one. Noise is
whole numbers in parts of a vote; of equal noisy counts the first is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.mechanisms.choosing import choose_whole
from reticent.mechanisms.events import Event, ExponentialMechanism, Gaussian, Laplace, Repeated
from reticent.pate.grid import LaplaceGrid, NormalGrid, in_steps
from reticent.pate.votes import Votes

ONE_VOTE_MOVES = 2  # counts, by one each


@dataclass(frozen=True, kw_only=True)
class LaplaceMax:
    """The largest count after Laplace noise of scale 1 / gamma: 2 gamma-DP per answer.

    Example:
        >>> import numpy as np
        >>> votes = Votes(counts=[[95, 5], [2, 98]], teachers=100)
        >>> LaplaceMax(gamma=0.5).answer(np.random.default_rng(0), votes).tolist()
        [0, 1]

    Reference:
        Papernot et al. (2017), Section 2.1, arXiv:1610.05755.
    """

    gamma: float

    def __post_init__(self) -> None:
        checks.positive(gamma=self.gamma)

    @property
    def event(self) -> Event:
        """The event of one answer: each of the two counts that a vote moves is a Laplace release."""
        return Repeated(event=Laplace(noise_multiplier=1 / self.gamma), times=ONE_VOTE_MOVES)

    @property
    def grid(self) -> LaplaceGrid:
        return LaplaceGrid.of(1 / self.gamma)

    def answer(self, source: np.random.Generator, votes: Votes) -> Int[np.ndarray, " queries"]:
        """One noisy label for each row of votes: (queries,)."""
        counts = in_steps(votes.counts, self.grid.parts, votes.teachers)
        return (counts + self.grid.noise(source, counts.shape)).argmax(axis=1)


@dataclass(frozen=True, kw_only=True)
class ExponentialMax:
    """A class with probability proportional to exp(gamma * count): 2 gamma-DP, and of that range.

    Example:
        >>> import numpy as np
        >>> votes = Votes(counts=[[95, 5], [2, 98]], teachers=100)
        >>> ExponentialMax(gamma=0.5).answer(np.random.default_rng(0), votes).tolist()
        [0, 1]
    """

    gamma: float

    def __post_init__(self) -> None:
        checks.positive(gamma=self.gamma)

    @property
    def event(self) -> Event:
        return ExponentialMechanism(epsilon=2 * self.gamma)

    def answer(self, source: np.random.Generator, votes: Votes) -> Int[np.ndarray, " queries"]:
        """One label for each row of votes, by weights that are whole numbers: see `choose_whole`."""
        return choose_whole(source, votes.counts, Fraction(self.gamma), most=votes.teachers)


@dataclass(frozen=True, kw_only=True)
class GaussianMax:
    """The largest count after Gaussian noise.

    What is accounted for is the whole noisy histogram, so a student may have that too.

    Example:
        >>> import numpy as np
        >>> votes = Votes(counts=[[95, 5], [2, 98]], teachers=100)
        >>> GaussianMax(sigma=5.0).answer(np.random.default_rng(0), votes).tolist()
        [0, 1]

    Reference:
        Papernot et al. (2018), Section 4.1, arXiv:1802.08908.
    """

    sigma: float

    def __post_init__(self) -> None:
        checks.positive(sigma=self.sigma)

    @property
    def event(self) -> Gaussian:
        return Gaussian(noise_multiplier=self.sigma / math.sqrt(ONE_VOTE_MOVES))

    @property
    def grid(self) -> NormalGrid:
        return NormalGrid.of(self.sigma)

    def noisy(self, source: np.random.Generator, votes: Votes) -> Float[np.ndarray, "queries classes"]:
        """All counts with their noise: (queries, classes)."""
        counts = in_steps(votes.counts, self.grid.parts, votes.teachers)
        return (counts + self.grid.noise(source, counts.shape)) / self.grid.parts

    def answer(self, source: np.random.Generator, votes: Votes) -> Int[np.ndarray, " queries"]:
        return self.noisy(source, votes).argmax(axis=1)


@dataclass(frozen=True, kw_only=True)
class Confident:
    """GNMax where teachers agree: the largest count has to pass `threshold` with noise of its own.

    Args:
        sigma_check: of the noise on the largest count; every question pays for it.
        sigma: of the noise on the counts; only answers pay for it.

    Example:
        >>> import numpy as np
        >>> votes = Votes(counts=[[95, 5], [52, 48]], teachers=100)
        >>> aggregator = Confident(threshold=75, sigma_check=4.0, sigma=5.0)
        >>> aggregator.passes(np.random.default_rng(0), votes).tolist()
        [True, False]

    Reference:
        Papernot et al. (2018), Algorithms 1 and 2, arXiv:1802.08908.
    """

    threshold: float
    sigma_check: float
    sigma: float

    def __post_init__(self) -> None:
        checks.finite(threshold=self.threshold)
        checks.positive(sigma_check=self.sigma_check, sigma=self.sigma)

    @property
    def vote(self) -> GaussianMax:
        return GaussianMax(sigma=self.sigma)

    @property
    def event(self) -> Gaussian:
        """The event of one answer, without its check."""
        return self.vote.event

    @property
    def check_event(self) -> Gaussian:
        return Gaussian(noise_multiplier=self.sigma_check)

    @property
    def check_grid(self) -> NormalGrid:
        return NormalGrid.of(self.sigma_check)

    def require_reachable(self, teachers: int) -> None:
        """
        Raises:
            InvalidArgument: even if all teachers agree, the check passes by luck alone.
        """
        if self.threshold > teachers + 3 * self.sigma_check:
            raise InvalidArgument(
                f"A threshold of {self.threshold:g} cannot be reached by {teachers} teachers who all agree: "
                f"it is more than three deviations ({self.sigma_check:g}) of the noise above.",
                remedy=f"Choose one of about {0.8 * teachers:.0f}, or more teachers.",
            )

    def passes(
        self, source: np.random.Generator, votes: Votes, beliefs: np.ndarray | None = None
    ) -> np.ndarray:
        """Which questions pass the check and get an answer: (queries,) bool.

        Args:
            beliefs: the student's own probabilities, (queries, classes). What the votes say beyond them is
                what has to pass the threshold. They are public, and move with no teacher.
        """
        grid = self.check_grid
        counts = in_steps(votes.counts, grid.parts, votes.teachers)
        if beliefs is not None:  # to the same grid before they meet a count: no count is rounded
            counts = counts - np.rint(votes.teachers * grid.parts * _check_beliefs(beliefs, votes)).astype(
                np.int64
            )
        noisy = counts.max(axis=1) + grid.noise(source, (votes.queries,))
        return noisy / grid.parts >= self.threshold


Aggregator = LaplaceMax | ExponentialMax | GaussianMax | Confident


def _check_beliefs(beliefs: np.ndarray, votes: Votes) -> np.ndarray:
    beliefs = np.asarray(beliefs, np.float64)
    if beliefs.shape != votes.counts.shape:
        raise DataError(
            f"The student's beliefs have shape {beliefs.shape}, and the votes {votes.counts.shape}.",
            remedy="Pass one probability for each class of each record.",
        )
    if not np.all(beliefs >= 0) or np.any(np.abs(beliefs.sum(axis=1) - 1) > 1e-3):
        raise DataError(
            "The student's beliefs are not probabilities.",
            remedy="Pass numbers from 0 to 1 whose rows add up to 1.",
        )
    return beliefs
