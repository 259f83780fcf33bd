"""Random allocation: each record is in one random step of t, or in k of them. Bounds on that pair.

Seen from the law without the record, the likelihood ratio of t steps with it is

    S = (X_1 + ... + X_t) / t,    X_i = exp(mu z_i - mu^2 / 2),    z_i standard normal

Both directions of delta are means of *convex* functions of S, so a law of S that is larger in the convex
order bounds both from above, and one that is smaller bounds both from below. Section 2.7 of
docs/accounting.md has the proofs, `lognormal_sums` the laws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import gammaln

from reticent.accounting.loss_distribution.lognormal_sums import Law, law_of_sum, power_of, product, scaled
from reticent.accounting.loss_distribution.pairs import (
    UNIT,
    AtomPair,
    CoinPair,
    GaussianPair,
    Masses,
    MixturePair,
    Pair,
    ReversedPair,
    SampledPair,
)
from reticent.accounting.overfull import overfull

ChangedSide = Literal["removed", "added"]

_UNDERFLOW = 1e-32  # more than all that is lost to numbers below the smallest float
_MOST_MU = 16.0  # beyond it numbers leave the range of float64
_MOST_STEPS = 10**7  # beyond it one waits for nothing: a record in one of fewer steps costs more
_MOST_TIMES = 200
_RARE = 1e-12
_CERTAIN = 1 - 2.0**-50  # a little less than 1: a rate that is rounded down


@dataclass(frozen=True)
class AllocatedPair:
    """One Gaussian release in each of `times` blocks of `steps`, at a random step of it, against none.

    A bound on that pair, not the pair itself.

    Args:
        mu: how far the record moves the sum, in standard deviations.
        longer: how many of the blocks have a step more; of an upper bound alone.
        side: the direction that is to be bounded; `added` is meant for `ReversedPair`.
        is_upper: whether the pair dominates the real one, or is dominated by it.
    """

    mu: float
    steps: int
    times: int = 1
    side: ChangedSide = "removed"
    is_upper: bool = True
    longer: int = 0

    def masses(self, edges: np.ndarray) -> Masses:
        table = _table(self)
        if not self.is_upper:
            return _smear(table, edges)
        cells = np.searchsorted(edges, table.losses)
        count = len(edges) + 1
        p, q = (np.bincount(cells, weights=part, minlength=count) for part in (table.p, table.q))
        p[-1] += table.infinite
        q[0] += table.zero
        error = table.error + UNIT * (8 + len(table.losses))
        return Masses(p, q, error * p, error * q)

    def span(self) -> tuple[float, float]:
        table = _table(self)
        return float(table.losses[0]), float(table.losses[-1])

    def atoms(self) -> tuple[float, ...]:
        return ()


class AllocatedRound(NamedTuple):
    """Each record is in a random `times` of `steps`, of which the first `released` are made.

    Args:
        capacity: a batch with more keeps the first so many; None where every batch has room.
        examples: the most records that may be allocated.
    """

    mu: float
    steps: int
    times: int
    released: int
    capacity: int | None
    examples: int | None

    @property
    def chance_of_overfull(self) -> float:
        """That a given step has no room for one record more."""
        if self.capacity is None or self.examples is None:
            return 0.0
        return overfull(self.capacity - 1, self.examples, math.nextafter(self.times / self.steps, 1.0))


def dominating_pairs(asked: AllocatedRound, *, is_absent: bool) -> tuple[Pair, Pair]:
    """Pairs that dominate the round, for a record that is removed and for one that is added.

    Args:
        is_absent: whether the record is not there at all on the other side, instead of blank. A blank one
            still takes a place, and pushes another out of a full batch.
    """
    removed, added = (_above(asked, side) for side in ("removed", "added"))
    chance = min(asked.released * asked.chance_of_overfull, 1.0)
    if chance == 0:
        return removed, ReversedPair(added)
    # Given the steps of all others: where one of them has no room, the record moves its sum twice as far. If
    # it is blank, its step shows on both sides: then nothing is amplified.
    rare = asked._replace(mu=2 * asked.mu if is_absent else asked.mu)
    if chance < _RARE or not is_absent:  # a loss without amplification will do, and takes no time
        rare = rare._replace(steps=asked.times, released=asked.times)
    return (
        CoinPair(removed, _above(rare, "removed"), chance),
        CoinPair(ReversedPair(added), ReversedPair(_above(rare, "added")), chance),
    )


def attained_pairs(asked: AllocatedRound) -> tuple[Pair, Pair]:
    """Pairs that the round of some dataset dominates: there, all other records contribute nothing."""
    kept = max(1 - asked.times * asked.chance_of_overfull, 0.0) * _CERTAIN
    if kept == 0:
        nothing = AtomPair((0.0,), (1.0,), (1.0,))
        return nothing, nothing
    if asked.times > 1 or _is_extreme(asked.mu, asked.released):
        pair = _of_the_sum(asked, kept)
        return pair, ReversedPair(pair)
    rate = asked.released / asked.steps * kept
    removed, added = (
        SampledPair(_one_of(asked.mu, asked.released, 1, side, is_upper=False), rate)
        for side in ("removed", "added")
    )
    return removed, ReversedPair(added)


def _above(asked: AllocatedRound, side: ChangedSide) -> Pair:
    if asked.times > 1:
        block, longer = divmod(asked.steps, asked.times)
        return _one_of(asked.mu, block, asked.times, side, is_upper=True, longer=longer)
    # A record whose step is not made has joined nothing: a coin that nobody sees.
    seen = _one_of(asked.mu, asked.released, 1, side, is_upper=True)
    if asked.released == asked.steps:
        return seen
    return SampledPair(seen, math.nextafter(asked.released / asked.steps, 1.0))


def _one_of(mu: float, steps: int, times: int, side: ChangedSide, *, is_upper: bool, longer: int = 0) -> Pair:
    """A random step in each of so many blocks; without amplification where there is nothing else."""
    if (steps == 1 and not longer) or mu > _MOST_MU or times > _MOST_TIMES:
        return GaussianPair(mu * math.sqrt(times))
    if is_upper and steps >= _MOST_STEPS:
        steps, longer = _MOST_STEPS, 0
    return AllocatedPair(mu, steps, times, side, is_upper, longer)


def _is_extreme(mu: float, steps: int) -> bool:
    return steps > 1 and (mu > _MOST_MU or steps > _MOST_STEPS)


def _of_the_sum(asked: AllocatedRound, kept: float) -> Pair:
    """All that is seen is the sum of what is released; how often the record is in it is hypergeometric."""
    t, k, r = asked.steps, asked.times, asked.released
    count = np.arange(max(0, k + r - t), min(k, r) + 1)
    log_weights = _log_choose(k, count) + _log_choose(t - k, r - count)
    weights = np.exp(log_weights - log_weights.max())
    weights *= kept / weights.sum()
    nobody = 1 - float(weights.sum())
    means = asked.mu / math.sqrt(r) * count
    return MixturePair((nobody, *weights.tolist()), (0.0, *means.tolist()), (1.0,), (0.0,))


def _log_choose(of: int, some: np.ndarray) -> np.ndarray:
    return gammaln(of + 1) - gammaln(some + 1) - gammaln(of - some + 1)


class _Table(NamedTuple):
    losses: np.ndarray
    p: np.ndarray
    q: np.ndarray
    infinite: float  # P mass of an infinite loss
    zero: float  # Q mass of a loss of minus infinity
    error: float


@lru_cache(maxsize=64)
def _table(pair: AllocatedPair) -> _Table:
    law = law_of_sum(pair.mu, pair.steps, is_upper=pair.is_upper)
    if not pair.is_upper:
        return _table_below(pair, law)
    law, rest = scaled(law, pair.steps)
    law, rest = power_of(law, pair.times - pair.longer), rest * (pair.times - pair.longer)
    if pair.longer:
        other, more = scaled(law_of_sum(pair.mu, pair.steps + 1, is_upper=True), pair.steps + 1)
        law, rest = product(law, power_of(other, pair.longer)), rest + more * pair.longer
    keep = law.masses > 0
    q = law.masses[keep]
    losses = law.spacing * (law.first + np.flatnonzero(keep)) + rest
    # Numbers may be off by this factor; losses count on the safe side of it.
    largest = float(np.abs(losses).max()) + pair.times * math.log(pair.steps + 1)
    slack = law.mean_error + 8 * UNIT * (1 + largest)
    losses = losses + (slack if pair.side == "removed" else -slack)
    p = q * np.exp(losses)
    error = law.mass_error + 4 * UNIT * (2 + largest)
    infinite = law.infinite * math.exp(rest) + _UNDERFLOW
    return _Table(losses, p, q, infinite, law.zero + _UNDERFLOW, error)


def _table_below(pair: AllocatedPair, law: Law) -> _Table:
    assert law.means is not None
    keep = law.masses > 0
    p, q = law.means[keep] / pair.steps, law.masses[keep]
    losses = np.log(p / q)
    order = np.argsort(losses)
    losses, p, q = losses[order], p[order], q[order]
    return _Table(losses, p, q, 0.0, 0.0, law.mass_error + law.mean_error + 4 * UNIT)


def _smear(table: _Table, edges: np.ndarray) -> Masses:
    """Masses between edges if an outcome is told with a coin: it shows a random loss near its own.

    Such a coin is post-processing, and so is merging by what it shows. With it, cells may be cut anywhere.
    """
    middle = (table.losses[1:] + table.losses[:-1]) / 2
    ends = (
        2 * table.losses[[0, -1]] - middle[[0, -1]]
        if len(middle)
        else table.losses[0] + np.array([-1.0, 1.0])
    )
    tiles = np.concatenate([ends[:1], middle, ends[1:]])
    inner = np.clip(edges, tiles[0], tiles[-1])
    cuts = np.sort(np.concatenate([tiles, inner]))
    length = np.diff(cuts)
    where = (cuts[1:] + cuts[:-1]) / 2
    tile = np.clip(np.searchsorted(tiles, where) - 1, 0, len(table.losses) - 1)
    share = length / np.maximum(np.bincount(tile, weights=length, minlength=len(table.losses)), 1e-300)[tile]
    cells = np.searchsorted(edges, where)
    p, q = (
        np.bincount(cells, weights=part[tile] * share, minlength=len(edges) + 1)
        for part in (table.p, table.q)
    )
    error = table.error + UNIT * (16 + len(cuts))
    return Masses(p, q, error * p, error * q)
