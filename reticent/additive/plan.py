"""How many passes an additive model takes, and how much noise each release gets.

Decided by the declared number of rows and by the budget: by nothing that is private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import ROOM, USUAL, delta_owed
from reticent.accounting.theorems import gaussian_dp
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Gaussian, Repeated

# Shares of the budget, as squares of 1 / noise multiplier: these add up when Gaussians are composed.
_FIRST_COUNT, _SECOND_COUNT, _START = 0.05, 0.05, 0.02
_PASSES = 1 - _FIRST_COUNT - _SECOND_COUNT - _START

_FEWEST, _MOST = 8, 400  # passes
_OFF = 2.0**-64  # of a number from its law, in total variation
_FEWEST_NUMBERS, _MOST_NUMBERS = 1 << 16, 1 << 20  # the first are half of the usual distance


@dataclass(frozen=True, kw_only=True)
class AdditivePlan:
    """The recipe of a fit: all that decides its cost.

    Args:
        passes: how often residuals are added up over all rows.
        noise_multiplier: with which one release alone would cost as much as the whole fit.
        numbers: how many may be released in all: delta pays for what their samplers are off their laws.
    """

    passes: int
    noise_multiplier: float
    numbers: int = 1 << 16

    def __post_init__(self) -> None:
        checks.count(passes=self.passes, numbers=self.numbers)
        checks.positive(noise_multiplier=self.noise_multiplier)

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: float,
        delta: float,
        examples: int,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
        beside: Event | None = None,
        passes: int | None = None,
        sampler_share: float = 0.0,
    ) -> AdditivePlan:
        """The plan that spends (epsilon, delta), together with what else is released.

        Args:
            examples: the declared, public number of rows.
            passes: chosen by a rule unless given.
            sampler_share: the share of delta that pays for samplers, beside the usual one.

        Example:
            >>> AdditivePlan.for_budget(epsilon=1.0, delta=1e-6, examples=20_000).passes
            69
        """
        checks.positive(epsilon=epsilon)
        checks.count(examples=examples)
        if not 0 < delta < 1:
            raise InvalidArgument(
                f"Additive models add Gaussian noise, which has no guarantee with delta {delta:g}.",
                remedy="Pass a delta above 0 and below 1 / rows.",
            )
        chosen = usual_passes(epsilon, delta, examples, adjacency) if passes is None else passes
        others = () if beside is None else (beside,)
        multiplier = calibrate.noise_for(
            lambda value: Composed(events=(*others, cls(passes=chosen, noise_multiplier=value).event)),
            Neighbours(adjacency),
            epsilon=epsilon,
            delta=delta * (1 - 2 * sampler_share),
            guess=adjacency.reach * gaussian_dp.noise_multiplier(epsilon, delta),
        )
        numbers = affordable_numbers(epsilon, delta, sampler_share)
        return cls(passes=chosen, noise_multiplier=multiplier, numbers=numbers)

    @property
    def first_count(self) -> float:
        """The noise multiplier of the first count."""
        return self.noise_multiplier / math.sqrt(_FIRST_COUNT)

    @property
    def second_count(self) -> float:
        return self.noise_multiplier / math.sqrt(_SECOND_COUNT)

    @property
    def start(self) -> float:
        """The noise multiplier of the sums that the first pass starts from."""
        return self.noise_multiplier / math.sqrt(_START)

    @property
    def each_pass(self) -> float:
        return self.noise_multiplier * math.sqrt(self.passes / _PASSES)

    @property
    def event(self) -> Event:
        """What a fit releases: two counts, a start and the passes."""
        before = (self.first_count, self.second_count, self.start)
        passes = Repeated(event=Gaussian(noise_multiplier=self.each_pass), times=self.passes)
        return Composed(events=(*(Gaussian(noise_multiplier=value) for value in before), passes))

    @property
    def in_words(self) -> str:
        return f"{self.passes} passes over all rows, noise multiplier {self.each_pass:.3g}"

    def to_json(self) -> dict[str, Any]:
        return {"passes": self.passes, "noise_multiplier": self.noise_multiplier, "numbers": self.numbers}

    @property
    def distance(self) -> float:
        """How far all released numbers together may be off their laws, in total variation."""
        return max(USUAL, self.numbers * _OFF)


def usual_passes(
    epsilon: float, delta: float, examples: int, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE
) -> int:
    """The root of the rows over the noise: accelerated descent comes that far before noise takes over."""
    noise = adjacency.reach * gaussian_dp.noise_multiplier(epsilon, delta)
    return int(min(max(round(math.sqrt(examples / noise)), _FEWEST), _MOST))


def affordable_numbers(epsilon: float, delta: float, sampler_share: float) -> int:
    """How many numbers a fit may release, where this share of delta pays for their samplers."""
    affordable = sampler_share * delta / (ROOM * delta_owed(_OFF, epsilon))
    return int(min(max(_FEWEST_NUMBERS, affordable), _MOST_NUMBERS))


def curve_room(counts: Sequence[int], outputs: int, passes: int, numbers: int) -> int:
    """How many features each curve may have, so that no more numbers are released than are paid for.

    Args:
        counts: of each column, how many cells are counted at most.

    >>> curve_room([256] * 20, outputs=1, passes=100, numbers=1 << 16)
    30
    """
    each_pass = (numbers - sum(counts)) // (passes * outputs) - 2
    return each_pass // len(counts)
