"""The plain numbers of a training run, and the event that they mean.

    examples, batch_size, steps, noise_multiplier, sampling -> event, adjacency, assumptions

Every sampling has one event and the adjacencies it can be accounted under. Shuffled batches get no
amplification: treating them as Poisson would under-report epsilon many times over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms import sampling_events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian
from reticent.mechanisms.sampling_events import Sampling
from reticent.noise.participation import Participation
from reticent.noise.released import has_disjoint_turns, one_turn, whole_run

if TYPE_CHECKING:  # strategies need NumPy
    from reticent.noise.strategies import NoiseStrategy


def _independent() -> NoiseStrategy:
    from reticent.noise.named import independent

    return independent()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A training run in plain numbers. `examples` is declared and public.

    Args:
        noise: whether the noise of a step takes back some of that of earlier ones, settled for the whole run.
        parts: of the records, from which cyclic Poisson batches are drawn in turn.

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
    noise: NoiseStrategy = field(default_factory=_independent)
    parts: int = 1

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
        self._check_parts()
        if self.noise.bands(max(self.steps, 1)) > 1 and self.sampling is not Sampling.CYCLIC_POISSON:
            _ = self.participation  # is refused where there is no theorem

    def _check_parts(self) -> None:
        checks.count(parts=self.parts)
        if self.parts > 1 and self.sampling is not Sampling.CYCLIC_POISSON:
            raise InvalidArgument(
                f"Parts take turns in cyclic-poisson batches, not in {self.sampling.value} ones.",
                remedy="Leave out parts, or choose sampling 'cyclic-poisson'.",
            )
        if not self.batch_size * self.parts <= self.examples:
            raise InvalidArgument(
                f"Batches of {self.batch_size} from each of {self.parts} parts need "
                f"{self.batch_size * self.parts} examples, and there are {self.examples}.",
                remedy=f"Use at most {self.examples // self.batch_size} bands or parts, or smaller batches.",
            )
        if self.parts > 1 and self.group > 1:
            raise Unproven(
                f"There is no theorem for {self.group} records at once in {self.parts} parts.",
                remedy="Use sampling 'cyclic', or protect one record.",
            )

    @property
    def participation(self) -> Participation:
        """How often, and how far apart, a record is in the batches.

        Raises:
            Unproven: nothing keeps a record out of the next batch.
        """
        steps = max(self.steps, 1)
        match self.sampling:
            case Sampling.CYCLIC_POISSON:
                return Participation.cyclic(steps, self.parts)
            case Sampling.CYCLIC:
                return Participation.cyclic(steps, -(-self.examples // self.batch_size))
            case Sampling.FULL:
                return Participation.cyclic(steps, 1)
            case Sampling.SHUFFLED:
                return Participation(times=max(self.epochs_begun, 1), separation=1)
            case _:
                raise Unproven(
                    f"There is no theorem for correlated noise on {self.sampling.value} batches: a record "
                    "may be in any of them.",
                    remedy="Use sampling 'cyclic', or bands, which divide the records into parts.",
                )

    @property
    def event(self) -> Event:
        if self.sampling is Sampling.CYCLIC_POISSON:
            return self._cyclic_poisson()
        if self.noise.bands(max(self.steps, 1)) > 1:
            return whole_run(self.noise, self.noise_multiplier, self.steps, self.participation)
        noisy_sum = Gaussian(noise_multiplier=self.noise_multiplier)
        sizes = {"examples": self.examples, "batch_size": self.batch_size}
        match self.sampling:
            case Sampling.POISSON:
                return sampling_events.poisson(noisy_sum, rate=self.rate, steps=self.steps)
            case Sampling.FIXED:
                return sampling_events.fixed_size(noisy_sum, **sizes, steps=self.steps)
            case Sampling.SHUFFLED | Sampling.CYCLIC:
                return sampling_events.shuffled(noisy_sum, **sizes, steps=self.steps)
            case Sampling.FULL:
                return sampling_events.full_batch(noisy_sum, steps=self.steps)
            case Sampling.ALLOCATION:
                length = sampling_events.steps_per_round(**sizes)
                return sampling_events.allocation(noisy_sum, steps_per_round=length, steps=self.steps)

    def _cyclic_poisson(self) -> Event:
        if not has_disjoint_turns(self.noise, self.steps, self.parts):
            raise Unproven(
                f"There is no theorem for {self.noise.in_words} on random batches from {self.parts} parts.",
                remedy=f"Use at most {self.parts} bands, or sampling 'cyclic'.",
            )
        release = one_turn(self.noise, self.noise_multiplier, self.steps)
        return sampling_events.poisson(release, rate=self.rate, steps=-(-self.steps // self.parts))

    @property
    def rate(self) -> float:
        """Batch over examples of a part, rounded up."""
        rate = self.batch_size / -(-self.examples // self.parts)
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
            Sampling.ALLOCATION: "in every epoch each example is in one batch of "
            f"{-(-self.examples // self.batch_size)}, a random one that no other example decides",
            Sampling.CYCLIC: f"batches of {self.batch_size} come in one order, the same in every epoch",
            Sampling.CYCLIC_POISSON: f"examples are in {self.parts} parts that take turns, and each "
            f"joins a batch of its part by its own coin, {self.batch_size} of them on average",
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
