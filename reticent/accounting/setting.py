"""The plain numbers of a training run, and the event that they mean.

    examples, batch_size, steps, noise_multiplier, sampling -> event, adjacency, assumptions

Every sampling has one event and the adjacencies it can be accounted under. Shuffled batches get no
amplification: treating them as Poisson would under-report epsilon many times over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms import sampling_events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian
from reticent.mechanisms.sampling_events import Sampling


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A training run in plain numbers. `examples` is declared and public.

    Example:
        >>> run = Setting(examples=60_000, batch_size=256, steps=100, noise_multiplier=1.1)
        >>> run.event.times, round(run.epochs, 2)
        (100, 0.43)
    """

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
        sizes = {"examples": self.examples, "batch_size": self.batch_size}
        match self.sampling:
            case Sampling.POISSON:
                return sampling_events.poisson(noisy_sum, rate=self.rate, steps=self.steps)
            case Sampling.FIXED:
                return sampling_events.fixed_size(noisy_sum, **sizes, steps=self.steps)
            case Sampling.SHUFFLED:
                return sampling_events.shuffled(noisy_sum, **sizes, steps=self.steps)
            case Sampling.FULL:
                return sampling_events.full_batch(noisy_sum, steps=self.steps)

    @property
    def rate(self) -> float:
        """Batch over examples, rounded up."""
        rate = self.batch_size / self.examples
        return min(math.nextafter(rate, 1.0), 1.0)

    @property
    def epochs_begun(self) -> int:
        """In how many shuffled epochs the run takes a batch."""
        return sampling_events.epochs_begun(
            examples=self.examples, batch_size=self.batch_size, steps=self.steps
        )

    @property
    def epochs(self) -> float:
        return self.steps * self.batch_size / self.examples

    @property
    def assumptions(self) -> tuple[str, ...]:
        drawn = {
            Sampling.POISSON: "every example joins every batch by its own coin of probability "
            f"{self.batch_size}/{self.examples}",
            Sampling.FIXED: f"every batch is a fresh random {self.batch_size} of {self.examples} examples",
            Sampling.SHUFFLED: "every epoch is a new order of the examples, cut into "
            f"batches of {self.batch_size} of which only the last may be short",
            Sampling.FULL: "every step uses every example",
        }[self.sampling]
        return f"the number of examples, {self.examples}, is public", drawn

    def with_epochs(self, epochs: float) -> Setting:
        return replace(self, steps=steps_for(epochs, self.examples, self.batch_size))


def steps_for(epochs: float, examples: int, batch_size: int) -> int:
    """How many steps make that many epochs, rounded up: half a step is a step.

    Example:
        >>> steps_for(60, examples=60_000, batch_size=256), steps_for(0, examples=60_000, batch_size=256)
        (14063, 0)
    """
    checks.not_negative(epochs=epochs)
    checks.count(examples=examples, batch_size=batch_size)
    exact = epochs * examples / batch_size
    return math.ceil(exact * (1 - 1e-12))
