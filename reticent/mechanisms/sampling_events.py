"""The event of each way to draw batches: the one place that turns sampling into privacy cost.

Samplers (`reticent.data.sampling`) and settings (`reticent.accounting.setting`) both ask here, so
what is drawn and what is accounted for cannot disagree. Each function takes the release of one step and plain
numbers, and returns the event of all steps.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from reticent.core import checks
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    Allocated,
    Composed,
    Event,
    FixedSizeSampled,
    PoissonSampled,
    Repeated,
    TruncatedPoissonSampled,
)


class Sampling(StrEnum):
    """How batches are drawn."""

    POISSON = "poisson"
    SHUFFLED = "shuffled"
    FIXED = "fixed"
    FULL = "full"
    CYCLIC = "cyclic"
    CYCLIC_POISSON = "cyclic-poisson"
    ALLOCATION = "allocation"

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """The adjacencies under which a theorem covers it; the first is the default.

        Example:
            >>> [str(adjacency) for adjacency in Sampling.SHUFFLED.adjacencies]
            ['zero-out', 'replace']
        """
        return {
            Sampling.POISSON: (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE),
            # A record more would push all later ones into other batches: only its value may change.
            Sampling.SHUFFLED: (Adjacency.ZERO_OUT, Adjacency.REPLACE),
            Sampling.FIXED: (Adjacency.REPLACE,),
            Sampling.FULL: (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE),
            Sampling.CYCLIC: (Adjacency.ZERO_OUT, Adjacency.REPLACE),
            # A record's part is that of its place, which no other record decides.
            Sampling.CYCLIC_POISSON: (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE),
            Sampling.ALLOCATION: (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT),
        }[self]


def poisson(release: Event, *, rate: float, steps: int) -> Event:
    """Every record joins every batch by its own coin of probability `rate`.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> poisson(Gaussian(noise_multiplier=1.0), rate=0.5, steps=3).event.rate
        0.5
    """
    return Repeated(event=PoissonSampled(rate=rate, event=release), times=steps)


def truncated_poisson(
    release: Event, *, rate: float, capacity: int, most: int, steps: int, parts: int = 1
) -> Event:
    """As `poisson`, with room for `capacity` records per batch; a larger draw keeps a random `capacity`.

    Args:
        most: the most records that the data, or one of their parts, may have. It decides how rarely a batch
            is overfull.
        parts: of the records, if batches are drawn from one of several in turn.
    """
    step = TruncatedPoissonSampled(rate=rate, capacity=capacity, examples=most, event=release, parts=parts)
    return Repeated(event=step, times=steps)


def fixed_size(release: Event, *, examples: int, batch_size: int, steps: int) -> Event:
    """Every batch is a fresh random `batch_size` of `examples` records."""
    step = FixedSizeSampled(batch_size=batch_size, examples=examples, event=release)
    return Repeated(event=step, times=steps)


def shuffled(release: Event, *, examples: int, batch_size: int, steps: int) -> Event:
    """The records in a new order each epoch, cut into batches: one release per epoch begun.

    Batches get no amplification. Treating them as Poisson batches would under-report epsilon many times over.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> shuffled(Gaussian(noise_multiplier=1.0), examples=10, batch_size=4, steps=3).times
        1
    """
    return Repeated(event=release, times=epochs_begun(examples=examples, batch_size=batch_size, steps=steps))


def allocation(
    release: Event,
    *,
    steps_per_round: int,
    steps: int,
    times: int = 1,
    capacity: int | None = None,
    most: int | None = None,
) -> Event:
    """Every record is in a random `times` steps of each round; the last round may have been cut short.

    Args:
        capacity: of a batch; None where it has room for everybody.
        most: the most records that the data may have; it decides how rarely a batch is overfull.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> run = allocation(Gaussian(noise_multiplier=1.0), steps_per_round=10, steps=25)
        >>> [(part.event.steps_released, part.times) for part in run.events]
        [(10, 2), (5, 1)]
    """
    whole = Allocated(steps=steps_per_round, times=times, capacity=capacity, examples=most, event=release)
    rounds, left = divmod(steps, steps_per_round)
    if left == 0:
        return Repeated(event=whole, times=rounds)
    begun = Repeated(event=replace(whole, released=left), times=1)
    return Composed(events=(Repeated(event=whole, times=rounds), begun)) if rounds else begun


def full_batch(release: Event, *, steps: int) -> Event:
    """Every step uses every record."""
    return Repeated(event=release, times=steps)


def steps_per_epoch(*, examples: int, batch_size: int) -> int:
    """How many batches hold every record once; the last of them may be short.

    Example:
        >>> steps_per_epoch(examples=10, batch_size=4), steps_per_epoch(examples=8, batch_size=4)
        (3, 2)
    """
    checks.count(examples=examples, batch_size=batch_size)
    return -(-examples // batch_size)


def steps_per_round(*, examples: int, batch_size: int, times: int = 1) -> int:
    """How many batches hold every record `times` times, if they are no larger than expected.

    Example:
        >>> [steps_per_round(examples=10, batch_size=4, times=times) for times in (1, 2)]
        [3, 5]
    """
    checks.count(examples=examples, batch_size=batch_size, times=times)
    return -(-examples * times // batch_size)


def epochs_begun(*, examples: int, batch_size: int, steps: int) -> int:
    """In how many epochs a run of `steps` steps takes a batch: a record is in at most one batch of each.

    Example:
        >>> [epochs_begun(examples=10, batch_size=4, steps=steps) for steps in (0, 1, 3, 4)]
        [0, 1, 1, 2]
    """
    checks.count(minimum=0, steps=steps)
    return -(-steps // steps_per_epoch(examples=examples, batch_size=batch_size))
