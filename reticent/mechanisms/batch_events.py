"""Events of releases that are computed on random batches; `reticent.mechanisms.events` has all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reticent.core import checks
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.mechanisms.events import Event


@dataclass(frozen=True, kw_only=True)
class PoissonSampled:
    """`event`, computed on a batch that every record joins by its own coin of probability `rate`.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0)).rate
        0.01
        >>> PoissonSampled(rate=1.5, event=Gaussian(noise_multiplier=1.0))
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: rate must be a probability between 0 and 1, got 1.5.
        Pass another rate.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        checks.probability(rate=self.rate)


@dataclass(frozen=True, kw_only=True)
class TruncatedPoissonSampled:
    """As `PoissonSampled`, but of a batch above `capacity` only a random `capacity` is kept.

    `examples` is the declared, public size of the dataset: it decides how rarely that happens.

    Args:
        parts: of the records, if batches are drawn from one of several; `examples` is then that of a part.
            A record is in one part alone, but those of a group may be in several: that has no theorem here.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> TruncatedPoissonSampled(
        ...     rate=0.01, capacity=64, examples=1000, event=Gaussian(noise_multiplier=1.0)
        ... ).capacity
        64
    """

    rate: float
    capacity: int
    examples: int
    event: Event
    parts: int = 1

    def __post_init__(self) -> None:
        checks.probability(rate=self.rate)
        checks.count(capacity=self.capacity, examples=self.examples, parts=self.parts)


@dataclass(frozen=True, kw_only=True)
class FixedSizeSampled:
    """`event`, computed on `batch_size` of `examples` records drawn without replacement.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> FixedSizeSampled(batch_size=10, examples=1000, event=Gaussian(noise_multiplier=1.0)).rate
        0.01
    """

    batch_size: int
    examples: int
    event: Event

    def __post_init__(self) -> None:
        checks.count(batch_size=self.batch_size, examples=self.examples)
        if self.batch_size > self.examples:
            raise InvalidArgument(
                f"A batch of {self.batch_size} cannot be drawn from {self.examples} examples.",
                remedy="Pass a batch_size of at most examples.",
            )

    @property
    def rate(self) -> float:
        return self.batch_size / self.examples


@dataclass(frozen=True, kw_only=True)
class Allocated:
    """A round of `steps` releases of `event`; each record, by itself, is in a secret, random `times` of them.

    Args:
        released: how many of these steps were taken, the first ones; None for all.
        capacity: of a batch with more, only so many are kept: those that come first in an order that no
            record decides. None where every batch has room for everybody.
        examples: the declared, public size of the dataset, which decides how rarely a batch is overfull.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> Allocated(steps=235, event=Gaussian(noise_multiplier=1.0)).steps_released
        235
        >>> Allocated(steps=4, times=5, event=Gaussian(noise_multiplier=1.0))
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: A record cannot be in 5 of 4 steps. Pass a times of at most 4.
    """

    steps: int
    event: Event
    times: int = 1
    released: int | None = None
    capacity: int | None = None
    examples: int | None = None

    def __post_init__(self) -> None:
        checks.count(steps=self.steps, times=self.times)
        if self.times > self.steps:
            raise InvalidArgument(
                f"A record cannot be in {self.times} of {self.steps} steps.",
                remedy=f"Pass a times of at most {self.steps}.",
            )
        if self.released is not None:
            checks.count(released=self.released)
            if self.released > self.steps:
                raise InvalidArgument(
                    f"A round of {self.steps} steps does not release {self.released}.",
                    remedy="Describe each round by an event of its own, with Repeated or Composed.",
                )
            if self.released == self.steps:
                object.__setattr__(self, "released", None)
        if (self.capacity is None) != (self.examples is None):
            raise InvalidArgument(
                "The room in a batch and the number of examples go together.",
                remedy="Pass both capacity and examples, or neither.",
            )
        if self.capacity is not None and self.examples is not None:
            checks.count(capacity=self.capacity, examples=self.examples)

    @property
    def steps_released(self) -> int:
        return self.steps if self.released is None else self.released
