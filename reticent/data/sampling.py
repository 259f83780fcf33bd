"""Samplers: who is in a batch, exactly, and which event that costs (`reticent.mechanisms.sampling_events`).

Each draws batches of one static shape inside compiled code, padded with rows that do not count, and
each knows which adjacencies a theorem covers it for. Coins are exact: whole-number comparisons with
96 random bits, never a rounded float. The work of a draw grows with the batch, not with the data.

Steps are mapped over one after the other, never by `vmap`: keys of the `rbg` kind give other bits, all
from the first key, when a function of them is vectorised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int
from scipy.special import betainc

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import step_key
from reticent.data.chance import BinomialTable, binomial_table, distinct_rows, random_order
from reticent.mechanisms import sampling_events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.mechanisms.sampling_events import Sampling

SAMPLING_DISTANCE = 2.0**-78  # of the law of a drawn batch from that of its event, in total variation
_NEVER = 1e-25  # a probability far below any delta
_DENSE = 16  # up to this many records per batch place, one coin per record is faster


class Batch(NamedTuple):
    """Rows of the data, and which of them are really in the batch; the others are padding.

    Of a batch that is divided over devices, each has a part: its rows, counted from the first one that the
    device holds, and the places that they have in the whole batch.

    Example:
        >>> Batch(jnp.array([4, 7, 0]), jnp.array([True, True, False])).is_real.sum().item()
        2
    """

    indices: Int[Array, "*steps places"]  # (capacity,) int32
    is_real: Bool[Array, "*steps places"]  # (capacity,) bool
    places: jax.Array | None = None  # (capacity,) int32
    end: jax.Array | None = None  # of the places that were drawn, empty ones included; None: of the real ones

    @property
    def drawn(self) -> jax.Array:
        """How many of the first places may hold a record. The same for neighbours, unlike `is_real`."""
        return jnp.sum(self.is_real, dtype=jnp.int32) if self.end is None else self.end


class Sampler(Protocol):
    """Draws batches from `examples` records, a declared and public number."""

    @property
    def examples(self) -> int: ...

    @property
    def batch_size(self) -> int:
        """The expected number of records in a batch: what sums are divided by."""
        ...

    @property
    def capacity(self) -> int:
        """The static number of places in a batch."""
        ...

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """The adjacencies under which a theorem covers this sampler; the first is the default."""
        ...

    @property
    def allowed_difference(self) -> int:
        """How far the real number of records may be from the declared one.

        Never zero where a neighbour may have one more: the two would be told apart by the error alone.
        """
        ...

    def event(self, release: Event, steps: int) -> Event:
        """What `steps` releases cost, each on a batch of its own."""
        ...

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        """The batches of these consecutive steps from `rows` records: arrays (steps, capacity).

        Real rows come first in a batch, each at most once. The places after them are not real and point at
        row 0: work stops with the last real row, and nobody who stood behind a gap would be counted.
        """
        ...


def require_sampler(value: Any) -> Sampler:
    """
    Raises:
        InvalidArgument: the value lacks something that a sampler has; the message says what.
    """
    wanted = [name for name in vars(Sampler) if not name.startswith("_")]
    missing = [name for name in wanted if not hasattr(value, name)]
    if missing:
        raise InvalidArgument(
            f"{type(value).__name__} is not a sampler: it has no {', '.join(missing)}.",
            remedy="See reticent.data.sampling.Sampler for what each of them means.",
        )
    return value


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Every record joins every batch by its own coin of probability batch_size / examples.

    Args:
        largest: keep a random `largest` of a draw that has more. Without it, room is made for
            every draw that will ever happen (probability of a larger one below 1e-25).

    Example:
        >>> import jax
        >>> sampler = Poisson(examples=1000, batch_size=10)
        >>> batch = sampler.draw(jax.random.key(0), jax.numpy.arange(5), rows=1000)
        >>> batch.indices.shape == (5, sampler.capacity), bool(batch.is_real.sum() < 5 * sampler.capacity)
        (True, True)
    """

    examples: int
    batch_size: int
    largest: int | None = None

    def __post_init__(self) -> None:
        _check_sizes(self.examples, self.batch_size)
        if self.largest is not None:
            checks.count(largest=self.largest)

    @property
    def rate(self) -> float:
        """The probability of a coin: a multiple of 2^-32, at most batch_size / examples."""
        return math.floor(self.batch_size / self.examples * 2.0**32) / 2.0**32

    @property
    def most(self) -> int:
        """The most records for which there is room: four roots more than declared, and one.

        What secret coins leave of a table differs from what is expected by half a root or so.
        """
        return self.examples + spare_records(self.examples)

    @property
    def capacity(self) -> int:
        room = room_for_counts(self.most, self.rate, at_least=self.batch_size)
        return min(self.largest or room, room)

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.POISSON.adjacencies

    @property
    def allowed_difference(self) -> int:
        return self.most - self.examples

    def event(self, release: Event, steps: int) -> Event:
        return sampling_events.truncated_poisson(
            release, rate=self.rate, capacity=self.capacity, most=self.most, steps=steps
        )

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        if rows <= _DENSE * self.batch_size:
            return jax.lax.map(lambda step: self._draw_by_coins(step_key(root, step), rows), steps)
        table = binomial_table(rows, self.rate, self.capacity)
        return jax.lax.map(lambda step: self._draw_by_count(step_key(root, step), rows, table), steps)

    def _draw_by_coins(self, key: jax.Array, rows: int) -> Batch:
        """One coin per record; then a random choice of them, if there are too many."""
        coin_key, order_key = jax.random.split(key)
        if self.rate == 1:
            joins = jnp.ones(rows, bool)
        else:
            threshold = jnp.uint32(round(self.rate * 2.0**32))
            joins = jax.random.bits(coin_key, (rows,), jnp.uint32) < threshold
        if self.largest is not None:  # the kept ones are random, so shuffle before taking the first
            order = random_order(order_key, rows)
            joins, places = joins[order], order
        else:
            places = jnp.arange(rows, dtype=jnp.int32)
        chosen = jnp.flatnonzero(joins, size=self.capacity, fill_value=0)
        is_real = jnp.arange(self.capacity, dtype=jnp.int32) < jnp.sum(joins, dtype=jnp.int32)
        return Batch(jnp.where(is_real, places[chosen], 0).astype(jnp.int32), is_real)

    def _draw_by_count(self, key: jax.Array, rows: int, table: BinomialTable) -> Batch:
        """How many join is binomial, and given that, every set of so many is equally likely."""
        count_key, rows_key = jax.random.split(key)
        return Batch(*distinct_rows(rows_key, rows, self.capacity, table.draw(count_key)))


@dataclass(frozen=True, kw_only=True)
class FixedSize:
    """Every batch is `batch_size` distinct records, each set equally likely, drawn afresh.

    Example:
        >>> sampler = FixedSize(examples=100, batch_size=10)
        >>> batch = sampler.draw(jax.random.key(0), jnp.arange(3), 100)
        >>> batch.indices.shape, len(set(batch.indices[0].tolist()))
        ((3, 10), 10)
    """

    examples: int
    batch_size: int

    def __post_init__(self) -> None:
        _check_sizes(self.examples, self.batch_size)

    @property
    def capacity(self) -> int:
        return self.batch_size

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.FIXED.adjacencies

    @property
    def allowed_difference(self) -> int:
        return 0  # only a record's value may change: the number is exact

    def event(self, release: Event, steps: int) -> Event:
        return sampling_events.fixed_size(
            release, examples=self.examples, batch_size=self.batch_size, steps=steps
        )

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        def one(step: jax.Array) -> Batch:
            key = step_key(root, step)
            if rows <= _DENSE * self.batch_size:
                order = random_order(key, rows)[: self.batch_size]
                return Batch(order, jnp.ones(self.batch_size, bool))
            return Batch(*distinct_rows(key, rows, self.capacity, jnp.int32(self.batch_size)))

        return jax.lax.map(one, steps)


@dataclass(frozen=True, kw_only=True)
class FullBatch:
    """Every record, every step.

    Example:
        >>> FullBatch(examples=100).batch_size
        100
    """

    examples: int

    def __post_init__(self) -> None:
        checks.count(examples=self.examples)

    @property
    def batch_size(self) -> int:
        return self.examples

    @property
    def capacity(self) -> int:
        return self.examples + 1  # a neighbour may have one more

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.FULL.adjacencies

    @property
    def allowed_difference(self) -> int:
        return 1

    def event(self, release: Event, steps: int) -> Event:
        return sampling_events.full_batch(release, steps=steps)

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        places = jnp.arange(self.capacity, dtype=jnp.int32)
        batch = Batch(jnp.where(places < rows, places, 0), places < rows)
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(steps), *leaf.shape)), batch)


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """The records in a new random order each epoch, cut into batches. No privacy amplification.

    Under add-or-remove nothing is proved: one more record moves all later ones into other batches.

    Example:
        >>> Shuffled(examples=100, batch_size=30).steps_per_epoch
        4
    """

    examples: int
    batch_size: int

    def __post_init__(self) -> None:
        _check_sizes(self.examples, self.batch_size)

    @property
    def capacity(self) -> int:
        return self.batch_size

    @property
    def steps_per_epoch(self) -> int:
        return sampling_events.steps_per_epoch(examples=self.examples, batch_size=self.batch_size)

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        return Sampling.SHUFFLED.adjacencies

    @property
    def allowed_difference(self) -> int:
        return 0  # only a record's value may change: the number is exact

    def event(self, release: Event, steps: int) -> Event:
        return sampling_events.shuffled(
            release, examples=self.examples, batch_size=self.batch_size, steps=steps
        )

    def first_fresh_step(self, step: int) -> int:
        """The first step of an epoch, from `step` on: an order that is drawn anew would repeat records."""
        return -(-step // self.steps_per_epoch) * self.steps_per_epoch

    def draw(self, root: jax.Array, steps: jax.Array, rows: int) -> Batch:
        epochs = steps // self.steps_per_epoch
        begun = -(-(len(steps) + self.steps_per_epoch - 1) // self.steps_per_epoch)  # at most so many
        first = epochs[0]
        orders = jax.lax.map(  # (epochs begun, rows)
            lambda epoch: random_order(step_key(root, epoch), rows),
            first + jnp.arange(begun, dtype=jnp.int32),
        )

        def one(step: jax.Array) -> Batch:
            epoch, position = step // self.steps_per_epoch, step % self.steps_per_epoch
            places = position * self.batch_size + jnp.arange(self.batch_size, dtype=jnp.int32)
            is_real = places < rows
            indices = orders[epoch - first, jnp.where(is_real, places, 0)]
            return Batch(jnp.where(is_real, indices, 0).astype(jnp.int32), is_real)

        return jax.vmap(one)(steps)


def spare_records(examples: int) -> int:
    """How many records more than declared there is room for: four roots of the number, and one."""
    return 4 * math.isqrt(examples) + 1


def room_for_counts(most: int, rate: float, *, at_least: int) -> int:
    """The size of batches that every record of `most`, and one more, joins with a chance of `rate`.

    More of them come with a probability of at most 1e-25.
    """
    everybody = most + 1  # a neighbour's record too: then no draw is ever too large
    if not rate < 1:
        return everybody
    room = _smallest(lambda size: size >= most or _tail(size, most, rate) <= _NEVER, at_least)
    return everybody if room >= most else room


def places_among(sampler: Sampler, rows: int) -> int:
    """Places for those of a batch that are among `rows` records; more are drawn with probability 1e-25.

    Example:
        >>> sampler = Poisson(examples=1000, batch_size=100)
        >>> places_among(sampler, 500) <= sampler.capacity
        True
    """
    room = rows
    rate = float(getattr(sampler, "rate", 1.0))  # of coins, or of steps that records take by themselves
    if rate < 1:
        room = _smallest(lambda size: size >= rows or _tail(size, rows, rate) <= _NEVER, 0)
    return max(min(room, sampler.capacity), 1)


def _tail(size: int, rows: int, rate: float) -> float:
    """The chance of more than `size` of fewer than 2^53 rows; `bdtrc` has no value from 2^31 on."""
    return float(betainc(size + 1, rows - size, rate))


def _smallest(holds, start: int) -> int:
    """The smallest whole number from `start` on at which `holds`, given that it stays true."""
    low, high = start - 1, max(start, 1)
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check_sizes(examples: int, batch_size: int) -> None:
    checks.count(examples=examples, batch_size=batch_size)
    if batch_size > examples:
        raise InvalidArgument(
            f"A batch of {batch_size} cannot be drawn from {examples} examples.",
            remedy=f"Pass a batch_size of at most {examples}.",
        )
