"""The plain numbers of a training run, and the event that they mean.

    examples, batch_size, steps, noise_multiplier, sampling -> event, adjacency, assumptions

Every sampling has one event and the adjacencies it can be accounted under. Shuffled batches get no
amplification: treating them as Poisson would under-report epsilon many times over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, FixedSizeSampled, Gaussian, PoissonSampled, Repeated


class Sampling(StrEnum):
    """How batches are drawn."""

    POISSON = "poisson"
    SHUFFLED = "shuffled"
    FIXED = "fixed"
    FULL = "full"

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Those under which a theorem covers it; the first is the default."""
        return {
            Sampling.POISSON: (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE),
            # A record more would push all later ones into other batches: only its value may change.
            Sampling.SHUFFLED: (Adjacency.ZERO_OUT, Adjacency.REPLACE),
            Sampling.FIXED: (Adjacency.REPLACE,),
            Sampling.FULL: (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE),
        }[self]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A training run in plain numbers. `examples` is declared and public."""

    examples: int
    batch_size: int
    steps: int
    noise_multiplier: float
    sampling: Sampling = Sampling.POISSON
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE
    group: int = 1

    def __post_init__(self) -> None:
        checks.count(examples=self.examples, batch_size=self.batch_size, group=self.group)
        checks.count(minimum=0, steps=self.steps)
        checks.positive(noise_multiplier=self.noise_multiplier)
        if self.batch_size > self.examples:
            raise InvalidArgument(
                f"A batch of {self.batch_size} cannot be drawn from {self.examples} examples.",
                remedy=f"Pass a batch size of at most {self.examples}.",
            )
        if self.adjacency not in self.sampling.adjacencies:
            known = ", ".join(f"'{item}'" for item in self.sampling.adjacencies)
            raise Unproven(
                f"There is no theorem for {self.sampling.value} batches under '{self.adjacency}'.",
                remedy=f"Account for them under {known}.",
            )

    @property
    def event(self) -> Event:
        noisy_sum = Gaussian(noise_multiplier=self.noise_multiplier)
        match self.sampling:
            case Sampling.POISSON:
                return Repeated(event=PoissonSampled(rate=self.rate, event=noisy_sum), times=self.steps)
            case Sampling.FIXED:
                step = FixedSizeSampled(batch_size=self.batch_size, examples=self.examples, event=noisy_sum)
                return Repeated(event=step, times=self.steps)
            case Sampling.SHUFFLED:  # a record is in one batch an epoch
                return Repeated(event=noisy_sum, times=self.epochs_begun)
            case Sampling.FULL:
                return Repeated(event=noisy_sum, times=self.steps)

    @property
    def rate(self) -> float:
        """Batch over examples, rounded up."""
        rate = self.batch_size / self.examples
        return min(math.nextafter(rate, 1.0), 1.0)

    @property
    def epochs_begun(self) -> int:
        return -(-self.steps * self.batch_size // self.examples)

    @property
    def epochs(self) -> float:
        return self.steps * self.batch_size / self.examples

    @property
    def assumptions(self) -> tuple[str, ...]:
        drawn = {
            Sampling.POISSON: "every example joins every batch by its own coin of probability "
            f"{self.batch_size}/{self.examples}",
            Sampling.FIXED: f"every batch is a fresh random {self.batch_size} of {self.examples} examples",
            Sampling.SHUFFLED: "every example is in one batch an epoch",
            Sampling.FULL: "every step uses every example",
        }[self.sampling]
        return f"the number of examples, {self.examples}, is public", drawn

    def with_epochs(self, epochs: float) -> Setting:
        return replace(self, steps=steps_for(epochs, self.examples, self.batch_size))


def steps_for(epochs: float, examples: int, batch_size: int) -> int:
    """How many steps make that many epochs, rounded up: half a step is a step."""
    checks.not_negative(epochs=epochs)
    checks.count(examples=examples, batch_size=batch_size)
    exact = epochs * examples / batch_size
    return math.ceil(exact * (1 - 1e-12))
