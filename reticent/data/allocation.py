"""Random allocation: every record is in one random step of each round, so that a round reads every row once.

A round of t steps is about an epoch. Each record takes its step by itself, from secret bits of its own place,
so that no record decides where another one is (`reticent.training.places`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import step_key
from reticent.data.chance import uniform_below
from reticent.data.sampling import Batch, Sampler, room_for_counts, spare_records
from reticent.mechanisms import sampling_events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.mechanisms.sampling_events import Sampling

_MOST_TIMES = 64  # a record's steps are drawn one after the other


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """Every record joins `times` batches of each round, all choices alike; other records have no say in it.

    Batches differ in size, as Poisson ones do, and have room for every draw that will ever happen (a larger
    one has a probability below 1e-25, and would lose the records that come last in it).

    Args:
        batch_size: the expected number of records in a batch; a round has as many steps as that takes.
        times: so many batches of a round. More of them make the round longer, not the batches larger.

    Example:
        >>> sampler = Allocation(examples=1000, batch_size=300)
        >>> sampler.steps_per_round
        4
        >>> batch = sampler.draw(jax.random.key(0), jnp.arange(4), rows=1000)
        >>> sorted(batch.indices[batch.is_real].tolist()) == list(range(1000))
        True

    Reference:
        Feldman and Shenfeld (2025), Privacy amplification by random allocation, arXiv:2502.08202v4; Chua,
        Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha and Zhang (2025), Balls-and-Bins sampling
        for DP-SGD, AISTATS, arXiv:2412.16802.
    """

    examples: int
    batch_size: int
    times: int = 1

    def __post_init__(self) -> None:
        checks.count(examples=self.examples, batch_size=self.batch_size, times=self.times)
        if self.batch_size > self.examples:
            raise InvalidArgument(
                f"A batch of {self.batch_size} cannot be drawn from {self.examples} examples.",
                remedy=f"Pass a batch_size of at most {self.examples}.",
            )
        if self.times > _MOST_TIMES:
            raise InvalidArgument(
                f"A record is drawn for at most {_MOST_TIMES} steps of a round, not for {self.times}.",
                remedy=f"Pass a times of at most {_MOST_TIMES}: several rounds have more.",
            )

    @property
    def steps_per_round(self) -> int:
        return sampling_events.steps_per_round(
            examples=self.examples, batch_size=self.batch_size, times=self.times
        )

    @property
    def rate(self) -> Fraction:
        """How likely a record is in a given batch."""
        return Fraction(self.times, self.steps_per_round)

    @property
    def most(self) -> int:
        """The most records for which there is room, as for `Poisson`."""
        return self.examples + spare_records(self.examples)

    @property
    def capacity(self) -> int:
        return room_for_counts(self.most, float(self.rate), at_least=self.batch_size)

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.ALLOCATION.adjacencies

    @property
    def allowed_difference(self) -> int:
        return self.most - self.examples

    def event(self, release: Event, steps: int) -> Event:
        return sampling_events.allocation(
            release,
            steps_per_round=self.steps_per_round,
            times=self.times,
            capacity=self.capacity,
            most=self.most,
            steps=steps,
        )

    def first_fresh_step(self, step: int) -> int:
        """The first step of a round, from `step` on."""
        return -(-step // self.steps_per_round) * self.steps_per_round

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        length, first = self.steps_per_round, steps[0] // self.steps_per_round
        begun = -(-(len(steps) + length - 1) // length)  # rounds, at most
        rounds = first + jnp.arange(begun, dtype=jnp.int32)
        taken = jax.lax.map(lambda number: self._steps_of(step_key(root, number), rows), rounds)
        # (rounds, times, rows), in order of the steps: a batch is a piece of it.
        taken = (taken + length * jnp.arange(begun, dtype=jnp.int32)[:, None, None]).reshape(-1)
        order = jnp.argsort(taken, stable=True)
        ends = jnp.searchsorted(taken[order], steps[:, None] - first * length + jnp.arange(2))
        places = ends[:, :1] + jnp.arange(self.capacity)
        is_real = places < ends[:, 1:]
        indices = order[jnp.where(is_real, places, 0)] % rows
        return Batch(jnp.where(is_real, indices, 0).astype(jnp.int32), is_real)

    def _steps_of(self, key: jax.Array, rows: int) -> jax.Array:
        """Distinct steps of every record, all choices of so many alike: (times, rows).

        Reference:
            Bentley and Floyd (1987), A sample of brilliance.
        """
        chosen = jnp.zeros((0, rows), jnp.int32)
        for at, one in enumerate(jax.random.split(key, self.times)):
            last = self.steps_per_round - self.times + at
            step = uniform_below(one, last + 1, rows)
            is_taken = jnp.any(chosen == step, axis=0)
            chosen = jnp.concatenate([chosen, jnp.where(is_taken, last, step)[None]])
        return chosen


def fresh_step_of(sampler: Sampler, step: int) -> int:
    """From which step on a run may be resumed with other keys.

    The batches of a round are drawn together, in secret. Drawn anew in the middle of it, a record could join
    two of them, or none, which is another event: what is left of that round is not taken.
    """
    of_rounds = getattr(sampler, "first_fresh_step", None)
    return step if of_rounds is None else of_rounds(step)
