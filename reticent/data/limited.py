"""A sampler for clients that come when they can: nobody is in too many batches, or in two too soon.

Who of those that may come is taken is nobody's secret and nothing is amplified. What counts is what is kept
to: how often, and how far apart. Correlated noise needs no more (`reticent.noise`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.data.sampling import Batch
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Repeated
from reticent.mechanisms.sampling_events import Sampling
from reticent.noise.participation import Participation


@dataclass(frozen=True, kw_only=True)
class Limited:
    """At most `batch_size` of those that are there, none of them more than `times`, nor sooner than allowed.

    Where everybody is always there, as in a simulation, they take turns in the order of their places. Whoever
    is chosen and does not answer has had the turn. Under add-or-remove nothing is proved: one unit more takes
    the turn of another.

    Args:
        times: the most steps that a unit is in.
        separation: so many steps later it may be in another one.

    Example:
        >>> sampler = Limited(examples=10, batch_size=4, times=2, separation=2)
        >>> sampler.participation(9)
        Participation(times=2, separation=2, is_cyclic=False)
        >>> sampler.choose(2, {0: [0], 1: [0], 2: [1]}, range(5))  # of five that are there
        (3, 4, 0, 1)
    """

    examples: int
    batch_size: int
    times: int
    separation: int = 1

    def __post_init__(self) -> None:
        checks.count(examples=self.examples, batch_size=self.batch_size)
        checks.count(times=self.times, separation=self.separation)
        if self.batch_size * self.separation > self.examples:
            raise InvalidArgument(
                f"Batches of {self.batch_size} with nobody back before {self.separation} steps need "
                f"{self.batch_size * self.separation} examples, and there are {self.examples}.",
                remedy="Use smaller batches, or a smaller separation.",
            )

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
        """How often a unit is in a batch of the first `steps` steps, at most."""
        return Participation(times=self.times, separation=self.separation).within(max(steps, 1))

    def event(self, release: Event, steps: int) -> Event:
        """The event of independent releases: one for each time that a unit takes part."""
        return Repeated(event=release, times=self.participation(steps).times if steps else 0)

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        """Draws as if everybody were there: the next in line, without those who had all their turns."""
        at = steps[:, None] * self.batch_size + jnp.arange(self.batch_size, dtype=jnp.int32)
        indices, turn = at % self.examples, at // self.examples
        is_real = (turn < self.times) & (indices < rows)
        return Batch(jnp.where(is_real, indices, 0).astype(jnp.int32), is_real)

    def choose(
        self, step: int, earlier: Mapping[int, Sequence[int]], there: Collection[int]
    ) -> tuple[int, ...]:
        """Chooses among those that are there: the ones that waited longest, in the order of `draw`.

        Args:
            earlier: the steps, in order, that each unit was in.
        """
        may_come = [
            unit
            for unit in there
            if len(earlier.get(unit, ())) < self.times
            and not (earlier.get(unit) and step - earlier[unit][-1] < self.separation)
        ]

        def place_in_row(unit: int) -> tuple[int, int]:
            last = earlier[unit][-1] if earlier.get(unit) else -1
            return last, (unit - max(last, 0) * self.batch_size) % self.examples

        return tuple(sorted(may_come, key=place_in_row)[: self.batch_size])
