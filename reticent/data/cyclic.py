"""Samplers with a schedule: records are divided into parts, and each step draws from the next part in turn.

A record is then in batches at least `parts` steps apart, which correlated noise needs (`reticent.noise`).
The part of a record is decided by its place alone, counted from 0: place i is in part i mod parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unproven
from reticent.data.sampling import Batch, FullBatch, Poisson, Sampler, Shuffled
from reticent.mechanisms import sampling_events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.mechanisms.sampling_events import Sampling
from reticent.noise.participation import Participation
from reticent.noise.released import has_disjoint_turns, one_turn, whole_run
from reticent.noise.strategies import NoiseStrategy


@dataclass(frozen=True, kw_only=True)
class Cyclic:
    """The records in a fixed order, cut into parts of `batch_size`; step t takes part t mod parts, whole.

    Example:
        >>> sampler = Cyclic(examples=10, batch_size=4)
        >>> sampler.parts, sampler.participation(7)
        (3, Participation(times=3, separation=3, is_cyclic=True))
    """

    examples: int
    batch_size: int

    def __post_init__(self) -> None:
        checks.count(examples=self.examples, batch_size=self.batch_size)
        if self.batch_size > self.examples:
            raise InvalidArgument(
                f"A batch of {self.batch_size} cannot be drawn from {self.examples} examples.",
                remedy=f"Pass a batch_size of at most {self.examples}.",
            )

    @property
    def parts(self) -> int:
        return sampling_events.steps_per_epoch(examples=self.examples, batch_size=self.batch_size)

    @property
    def capacity(self) -> int:
        return self.batch_size

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.CYCLIC.adjacencies

    @property
    def allowed_difference(self) -> int:
        return 0  # only a record's value may change: the number is exact

    def participation(self, steps: int) -> Participation:
        """How often a record is in a batch of the first `steps` steps."""
        return Participation.cyclic(max(steps, 1), self.parts)

    def event(self, release: Event, steps: int) -> Event:
        """The event of independent releases: one for each time that a record takes part."""
        return sampling_events.shuffled(
            release, examples=self.examples, batch_size=self.batch_size, steps=steps
        )

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        # `rows` is `examples`, and part j has the rows j, j + parts, ...: at most batch_size of them.
        at = jnp.arange(self.batch_size, dtype=jnp.int32) * self.parts + (steps % self.parts)[:, None]
        return Batch(jnp.where(at < rows, at, 0).astype(jnp.int32), at < rows)


@dataclass(frozen=True, kw_only=True)
class CyclicPoisson:
    """Every record of the part whose turn it is joins by its own coin; the others wait.

    Args:
        batch_size: the expected number of records in a batch.
        parts: so many steps later it is the turn of the same part again.

    Example:
        >>> sampler = CyclicPoisson(examples=1000, batch_size=10, parts=4)
        >>> round(sampler.rate, 3), sampler.participation(12).separation
        (0.04, 4)
    """

    examples: int
    batch_size: int
    parts: int

    def __post_init__(self) -> None:
        checks.count(examples=self.examples, batch_size=self.batch_size, parts=self.parts)
        if not self.batch_size * self.parts <= self.examples:
            raise InvalidArgument(
                f"Batches of {self.batch_size} from each of {self.parts} parts need "
                f"{self.batch_size * self.parts} examples, and there are {self.examples}.",
                remedy=f"Use at most {self.examples // self.batch_size} bands or parts, or smaller batches.",
            )

    @property
    def _of_part(self) -> Poisson:
        """How a part is drawn from: as many records as the largest part has."""
        return Poisson(examples=-(-self.examples // self.parts), batch_size=self.batch_size)

    @property
    def rate(self) -> float:
        """The probability of a record's coin when it is the turn of its part."""
        return self._of_part.rate

    @property
    def capacity(self) -> int:
        return self._of_part.capacity

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.CYCLIC_POISSON.adjacencies

    @property
    def allowed_difference(self) -> int:
        room = (
            self.parts * self._of_part.most - self.examples
        )  # in no part are there more than it has room for
        return min(4 * math.isqrt(self.examples) + 1, room)

    def participation(self, steps: int) -> Participation:
        """How often a record may be in a batch of the first `steps` steps."""
        return Participation.cyclic(max(steps, 1), self.parts)

    def event(self, release: Event, steps: int) -> Event:
        """A release for each turn of a part: records of other parts are in none of its batches."""
        part = self._of_part
        turns = -(-steps // self.parts)
        return sampling_events.truncated_poisson(
            release, rate=part.rate, capacity=part.capacity, most=part.most, steps=turns, parts=self.parts
        )

    def first_fresh_turn(self, step: int) -> int:
        """The first step of the first part, from `step` on."""
        return -(-step // self.parts) * self.parts

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        drawn = self._of_part.draw(root, steps, -(-rows // self.parts))
        at = drawn.indices * self.parts + (steps % self.parts)[:, None]
        is_real = drawn.is_real & (at < rows)  # the last row of a part may be one that only others have
        order = jnp.argsort(~is_real, axis=1, stable=True)
        at, is_real = (jnp.take_along_axis(each, order, axis=1) for each in (at, is_real))
        return Batch(jnp.where(is_real, at, 0).astype(jnp.int32), is_real)


def participation_of(sampler: Sampler, steps: int) -> Participation:
    """How often, and how far apart, a record is in the batches of a sampler: what its schedule enforces.

    Raises:
        Unproven: nothing keeps a record out of the next batch.
    """
    own: Any = getattr(sampler, "participation", None)
    if own is not None:
        return own(steps)
    if isinstance(sampler, FullBatch):
        return Participation.cyclic(max(steps, 1), 1)
    if isinstance(
        sampler, Shuffled
    ):  # the last batch of an epoch and the first of the next may share a record
        begun = sampling_events.epochs_begun(
            examples=sampler.examples, batch_size=sampler.batch_size, steps=max(steps, 1)
        )
        return Participation(times=begun, separation=1)
    raise Unproven(
        f"There is no theorem for correlated noise on {type(sampler).__name__} batches: a record may be in "
        "any of them.",
        remedy="Use sampling='cyclic', or rt.data.CyclicPoisson with as many parts as the noise has bands.",
    )


def correlated_event(noise: NoiseStrategy, noise_multiplier: float, sampler: Sampler, steps: int) -> Event:
    """What the first `steps` steps of a run with correlated noise cost; see `reticent.noise.released`."""
    if isinstance(sampler, CyclicPoisson) and has_disjoint_turns(noise, steps, sampler.parts):
        return sampler.event(one_turn(noise, noise_multiplier, steps), steps)
    return whole_run(noise, noise_multiplier, steps, participation_of(sampler, steps))
