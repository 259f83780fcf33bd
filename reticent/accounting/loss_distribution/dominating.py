"""From events to dominating pairs, one small function per theorem; what has no theorem is refused.

Both neighbours matter: the record may be gone (`removed`) or new (`added`), and neither order of the
two distributions is the worse one in general. A composition is accounted once with every release in
the one direction and once in the other.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from reticent.accounting.loss_distribution.allocation import AllocatedRound, attained_pairs, dominating_pairs
from reticent.accounting.loss_distribution.pairs import (
    AtomPair,
    CoinPair,
    FixedSizePair,
    GaussianPair,
    LaplacePair,
    MixturePair,
    Pair,
    ReversedPair,
    SampledPair,
)
from reticent.accounting.overfull import overfull
from reticent.accounting.theorems import group as groups
from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

MOST_RELEASES = 10**15  # beyond it a count is no longer a float to all its digits


class Neighbours(NamedTuple):
    """Which datasets are to be told apart: `group` records at once, under this adjacency.

    Example:
        >>> Neighbours(Adjacency.REPLACE).group
        1
        >>> str(Neighbours(Adjacency.ADD_OR_REMOVE, group=3).adjacency)
        'add-or-remove'
    """

    adjacency: Adjacency
    group: int = 1


class Directions(NamedTuple):
    """Pairs that dominate a release, for the neighbour with and without the record.

    attained: pairs that some dataset really produces, for the lower bound. Usually the same.
    slack: total variation by which the real release differs from the one accounted for.
    without_slack: pairs of the real release itself, where there is a slack and a theorem.
    """

    removed: Pair
    added: Pair
    attained: tuple[Pair, Pair]
    slack: float = 0.0
    without_slack: Directions | None = None


def flatten(event: Event) -> Counter[Event]:
    """The single releases of a composition and how often each is made; Gaussians join into one.

    Gaussian releases compose exactly: noise multipliers s1, s2, ... are worth one of
    (s1^-2 + s2^-2 + ...)^(-1/2), by rotational symmetry (Dong, Roth and Su 2022, Corollary 3.3).
    """
    counts = releases(event)
    gaussians = [item for item in counts if isinstance(item, events.Gaussian)]
    if len(gaussians) > 1 or any(counts[item] > 1 for item in gaussians):
        joint = math.hypot(*(math.sqrt(counts.pop(item)) / item.noise_multiplier for item in gaussians))
        counts[events.Gaussian(noise_multiplier=1 / joint)] = 1
    return counts


def releases(event: Event) -> Counter[Event]:
    """The single releases of a composition as they are made, and how often each is."""
    counts: Counter[Event] = Counter()
    _count(event, 1, counts)
    if counts.total() > MOST_RELEASES:
        raise InvalidArgument(
            "The event counts more than 10^15 releases.", remedy="Account for as many as will be made."
        )
    return counts


def _count(event: Event, times: int, counts: Counter[Event]) -> None:
    if times == 0:
        return
    if isinstance(event, events.Repeated):
        _count(event.event, times * event.times, counts)
    elif isinstance(event, events.Composed):
        for item in event.events:
            _count(item, times, counts)
    else:
        counts[event] += times


def directions(event: Event, neighbours: Neighbours) -> Directions:
    """The dominating pairs of one release.

    Raises:
        Unproven: there is no theorem for this event under these neighbours.
    """
    checks.count(group=neighbours.group)
    return _directions(event, neighbours)


@singledispatch
def _directions(event: Any, neighbours: Neighbours) -> Directions:
    raise _unproven(event, neighbours)


@_directions.register
def _(event: events.Gaussian, neighbours: Neighbours) -> Directions:
    return _symmetric(GaussianPair(_reach(neighbours) / event.noise_multiplier))


@_directions.register
def _(event: events.Laplace, neighbours: Neighbours) -> Directions:
    return _symmetric(LaplacePair(_reach(neighbours) / event.noise_multiplier))


@_directions.register
def _(event: events.RandomizedResponse, neighbours: Neighbours) -> Directions:
    # Each record answers for itself, so it can change but not vanish; a group gives several answers.
    if neighbours.adjacency is not Adjacency.REPLACE or neighbours.group != 1:
        raise _unproven(event, neighbours)
    if math.isinf(event.epsilon):
        return _symmetric(AtomPair((-math.inf, math.inf), (0.0, 1.0), (1.0, 0.0)))
    lie = (1 - event.truth) / (event.choices - 1)
    rest = (event.choices - 2) * lie
    losses = (-event.epsilon, 0.0, event.epsilon)
    return _symmetric(AtomPair(losses, (lie, rest, event.truth), (event.truth, rest, lie)))


@_directions.register
def _(event: events.ExponentialMechanism, neighbours: Neighbours) -> Directions:
    pure = _claim_directions(event, event.epsilon, 0.0, event.adjacency, neighbours)
    # Its range is bounded, so it never answers like the worst pure release. A choice between two answers
    # whose utilities trade places has losses of half of epsilon.
    epsilon, _ = claim(event, event.epsilon, 0.0, event.adjacency, neighbours)
    reached = _response(epsilon / 2, 0.0)
    return pure._replace(attained=(reached, reached))


@_directions.register
def _(event: events.PureDp, neighbours: Neighbours) -> Directions:
    return _claim_directions(event, event.epsilon, 0.0, event.adjacency, neighbours)


@_directions.register
def _(event: events.ApproximateDp, neighbours: Neighbours) -> Directions:
    return _claim_directions(event, event.epsilon, event.delta, event.adjacency, neighbours)


@_directions.register
def _(event: events.PoissonSampled, neighbours: Neighbours) -> Directions:
    base = sampled_base(event.event)
    if event.rate == 0.0:
        return _symmetric(AtomPair((0.0,), (1.0,), (1.0,)))
    if event.rate == 1.0:
        return _directions(base, neighbours)
    if neighbours.adjacency is Adjacency.ZERO_OUT and not isinstance(base, events.Gaussian | events.Laplace):
        # A blank record adds nothing to a sum, but what is known only by its guarantee may tell a batch
        # with a blank record from one without: then no coin hides the record.
        raise _unproven(event, neighbours)
    if neighbours.adjacency is Adjacency.REPLACE:
        if not isinstance(base, events.Gaussian) or neighbours.group != 1:
            raise _unproven(event, neighbours)
        return _symmetric(_replacement_under_poisson(event.rate, 1 / base.noise_multiplier))
    if isinstance(base, events.Gaussian) and neighbours.group > 1:
        removed = _group_under_poisson(event.rate, 1 / base.noise_multiplier, neighbours.group)
    elif neighbours.group > 1:
        raise _unproven(event, neighbours)
    else:
        removed = SampledPair(_directions(base, neighbours).removed, event.rate)
    return _two_sided(removed)


@_directions.register
def _(event: events.TruncatedPoissonSampled, neighbours: Neighbours) -> Directions:
    if event.parts > 1 and neighbours.group > 1:  # the group may be spread over several parts
        raise _unproven(event, neighbours)
    # Truncating changes the released value only when a draw is overfull, which has this probability
    # on either neighbour (one of them may have a record more).
    chance = overfull(event.capacity, event.examples + neighbours.group, event.rate)
    whole = _directions(events.PoissonSampled(rate=event.rate, event=event.event), neighbours)
    if chance == 0:
        return whole
    return whole._replace(slack=chance, without_slack=_truncated(event, whole, neighbours))


def _truncated(
    event: events.TruncatedPoissonSampled, whole: Directions, neighbours: Neighbours
) -> Directions | None:
    """The pair of truncated batches: in an overfull one a record may push another out.

    Section 2.5 of docs/accounting.md. The coins of all others are alike on both neighbours. Where they leave
    room, the release is the untruncated one; where they do not, a record that joins moves the sum by its own
    contribution and by that of the one it pushes out.
    """
    base, rate = sampled_base(event.event), event.rate
    if not isinstance(base, events.Gaussian) or not rate < 1:
        return None
    chance = 1.0
    if event.capacity >= neighbours.group:
        chance = overfull(event.capacity - neighbours.group, event.examples, rate)
    mu = 1 / base.noise_multiplier
    if neighbours.adjacency is not Adjacency.ADD_OR_REMOVE:
        if neighbours.group != 1:
            return None
        rare = _symmetric(_replacement_under_poisson(rate, 2 * mu))
    else:
        rare = _two_sided(_group_under_poisson(rate, 2 * mu, neighbours.group))
    # Where all other records contribute nothing, truncation is a lower rate, and nothing else.
    kept = event.rate * max(1 - chance, 0.0) * (1 - 2.0**-50)
    attained = _directions(events.PoissonSampled(rate=kept, event=base), neighbours).attained
    return Directions(
        CoinPair(whole.removed, rare.removed, chance), CoinPair(whole.added, rare.added, chance), attained
    )


@_directions.register
def _(event: events.FixedSizeSampled, neighbours: Neighbours) -> Directions:
    base = sampled_base(event.event)
    if event.batch_size == event.examples:
        return _directions(base, neighbours)
    if neighbours.adjacency is not Adjacency.REPLACE or neighbours.group != 1:
        raise _unproven(event, neighbours)
    rate = math.nextafter(event.rate, 1.0)
    inner = _directions(base, neighbours)
    pair = FixedSizePair(inner.removed, rate)
    # All other records alike, this one opposite to them: that dataset attains the sampled pair itself.
    attained = SampledPair(inner.attained[0], event.rate)
    return Directions(pair, pair, (attained, ReversedPair(attained)))


@_directions.register
def _(event: events.Allocated, neighbours: Neighbours) -> Directions:
    # Section 2.7 of docs/accounting.md. A record that is replaced has no theorem there.
    base = sampled_base(event.event)
    is_one = neighbours.group == 1 and neighbours.adjacency is not Adjacency.REPLACE
    if not is_one or not isinstance(base, events.Gaussian):
        raise _unproven(event, neighbours)
    if event.steps > MOST_RELEASES:
        raise InvalidArgument(
            "A round has more than 10^15 steps.", remedy="Account for as many as will be made."
        )
    sizes = (event.steps, event.times, event.steps_released, event.capacity, event.examples)
    asked = AllocatedRound(1 / base.noise_multiplier, *sizes)
    is_absent = neighbours.adjacency is Adjacency.ADD_OR_REMOVE
    return Directions(*dominating_pairs(asked, is_absent=is_absent), attained_pairs(asked))


def without_truncation(event: Event) -> Event:
    """The event as if every draw fitted its batch: what analyses without a largest batch assume."""
    match event:
        case events.TruncatedPoissonSampled(rate=rate, event=inner):
            return events.PoissonSampled(rate=rate, event=without_truncation(inner))
        case events.Allocated(event=inner):
            return replace(event, event=without_truncation(inner), capacity=None, examples=None)
        case events.Repeated(event=inner, times=times):
            return events.Repeated(event=without_truncation(inner), times=times)
        case events.Composed(events=parts):
            return events.Composed(events=tuple(without_truncation(part) for part in parts))
        case events.BestOfTrials(event=inner):
            return replace(event, event=without_truncation(inner))
        case _:
            return event


def sampled_base(event: Event) -> Event:
    """What is released on one batch, as a single release; several Gaussians on a batch are one."""
    counts = flatten(event)
    if len(counts) == 1 and next(iter(counts.values())) == 1:
        base = next(iter(counts))
        if isinstance(base, events.Gaussian | events.Laplace | events.PureDp | events.ApproximateDp):
            return base
    raise Unproven(
        f"There is no amplification theorem here for a batch on which this is released: {event}.",
        remedy="Release Gaussian sums on it, or one Laplace sum, or account for it without sampling.",
    )


def _reach(neighbours: Neighbours) -> int:
    return neighbours.adjacency.reach * neighbours.group


def _symmetric(pair: Pair) -> Directions:
    """A pair that looks the same from both sides."""
    return Directions(pair, pair, (pair, pair))


def _two_sided(removed: Pair) -> Directions:
    added = ReversedPair(removed)
    return Directions(removed, added, (removed, added))


def claim(
    event: Event, epsilon: float, delta: float, adjacency: Adjacency, neighbours: Neighbours
) -> tuple[float, float]:
    """What a guarantee proved under `adjacency` says about these neighbours.

    Replacing a record is removing one and adding another: a group of two. Nothing follows the other
    way round: a mechanism that prints how many records there are is perfectly private under replacement.
    """
    size = neighbours.group
    if adjacency is not neighbours.adjacency:
        if (adjacency, neighbours.adjacency) != (Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE):
            raise _unproven(event, neighbours)
        size *= 2
    return groups.approximate(epsilon, delta, size)


def _claim_directions(
    event: Event, epsilon: float, delta: float, adjacency: Adjacency, neighbours: Neighbours
) -> Directions:
    """The worst (epsilon, delta)-DP pair: randomised response, with delta of total disclosure.

    Reference:
        Kairouz, Oh and Viswanath (2017), Theorem 2.5: every (epsilon, delta)-DP mechanism is a
        post-processing of it.
    """
    epsilon, delta = claim(event, epsilon, delta, adjacency, neighbours)
    pair = _response(epsilon, delta)
    if neighbours == Neighbours(adjacency):
        return _symmetric(pair)
    # For several records that is only a bound. What some mechanism does reach is Laplace noise.
    reached = LaplacePair(epsilon) if epsilon > 0 else AtomPair((0.0,), (1.0,), (1.0,))
    return Directions(pair, pair, (reached, reached))


def _response(epsilon: float, delta: float) -> Pair:
    if not delta < 1:
        return AtomPair((-math.inf, math.inf), (0.0, 1.0), (1.0, 0.0))
    high = (1 - delta) / (1 + math.exp(-epsilon))
    low = high * math.exp(-min(epsilon, 743.0))  # the last that is not 0; the pair admits such an error
    losses = (-math.inf, -epsilon, epsilon, math.inf)
    return AtomPair(losses, (0.0, low, high, delta), (delta, high, low, 0.0))


def _replacement_under_poisson(rate: float, mu: float) -> Pair:
    """One record replaced: it joins with a coin on both sides, and pulls in opposite directions.

    Section 2.4 of docs/accounting.md: advanced joint convexity (Balle, Barthe and Gaboardi 2018, Theorem 2)
    leaves N(0) against a mixture of normals, and moving their centres onto one ray makes that worst
    (Choquette-Choo, Ganesh, Steinke and Thakurta 2024, arXiv:2310.15526, on mixtures of Gaussians).
    """
    return MixturePair((1 - rate, rate), (0.0, mu), (1 - rate, rate), (0.0, -mu))


def _group_under_poisson(rate: float, mu: float, size: int) -> Pair:
    """A group of records: how many of them join is binomial, and all pull the same way.

    Reference:
        Ganesh (2024), Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians
        mechanisms, arXiv:2401.10294, Theorem 3.1.
    """
    count = np.arange(size + 1)
    log_binomial = gammaln(size + 1) - gammaln(count + 1) - gammaln(size - count + 1)
    weights = np.exp(log_binomial + count * math.log(rate) + (size - count) * math.log1p(-rate))
    weights /= weights.sum()
    centres = tuple(mu * int(joined) if joined else 0.0 for joined in count)
    return MixturePair(tuple(weights.tolist()), centres, (1.0,), (0.0,))


def _unproven(event: Any, neighbours: Neighbours) -> Unproven:
    what = type(event).__name__
    some = "one record" if neighbours.group == 1 else f"{neighbours.group} records"
    return Unproven(
        f"There is no theorem here that bounds {what} when {some} may change by '{neighbours.adjacency}'.",
        remedy=_ADVICE.get(
            what, "Account for it under another adjacency, or declare its cost as ApproximateDp."
        ),
    )


_ADVICE = {
    "FixedSizeSampled": "Use adjacency 'replace' with batches of a fixed size, or Poisson sampling.",
    "Allocated": "Use adjacency 'add-or-remove' or 'zero-out' and Gaussian noise, for one record.",
    "RandomizedResponse": "Use adjacency 'replace' and no group: an answer can change, not vanish.",
    "BestOfTrials": "Use Renyi accounting, which has one.",
    "TruncatedPoissonSampled": "Ask about one record: those of a group may be in several parts.",
    "PoissonSampled": "Use adjacency 'add-or-remove', which Poisson sampling is made for.",
}
