"""From an event to pairs in ball arithmetic: one line per theorem, and nothing that has none.

The theorems are those of section 2 of docs/accounting.md. Nothing here is shared with the fast accountant:
what it reads of an event, and which pair it takes for it, is written a second time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from reticent.accounting.certificate.balls import (
    AtomBalls,
    Ball,
    BallPair,
    FixedSizeBalls,
    GaussianBalls,
    GroupBalls,
    LaplaceBalls,
    MixedBalls,
    ReplacedBalls,
    ReversedBalls,
    SampledBalls,
    ball_of,
)
from reticent.core.errors import Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

LARGEST_GROUP = 64
_TERMS = 20_000  # of a binomial tail
_CLAIMS = (events.PureDp, events.ApproximateDp, events.ExponentialMechanism)


@dataclass(frozen=True)
class Release:
    """Pairs that dominate a release, with records removed and with them added, and how often it is made."""

    removed: BallPair
    added: BallPair
    times: int


@dataclass(frozen=True)
class Released:
    """An event, and which datasets are to be told apart after it."""

    event: Event
    adjacency: Adjacency
    group: int

    @property
    def reach(self) -> int:
        """How far a sum moves, in units of the largest contribution of one record."""
        return (2 if self.adjacency is Adjacency.REPLACE else 1) * self.group

    def counts(self) -> Counter[Event]:
        """The single releases, and how often each is made."""
        counts: Counter[Event] = Counter()
        stack: list[tuple[Event, int]] = [(self.event, 1)]
        while stack:
            item, times = stack.pop()
            if isinstance(item, events.Repeated):
                stack.append((item.event, times * item.times))
            elif isinstance(item, events.Composed):
                stack += [(part, times) for part in reversed(item.events)]
            elif times > 0:
                counts[item] += times
        return counts

    def releases(self) -> list[Release]:
        """A pair for every kind of release; all Gaussian ones together are the last.

        Raises:
            Unproven: there is no theorem here for one of them.
        """
        counts = self.counts()
        gaussians = {item: n for item, n in counts.items() if isinstance(item, events.Gaussian)}
        found = [self._release(item, times) for item, times in counts.items() if item not in gaussians]
        if gaussians:
            # Noises s1, s2, ... are worth one of (s1^-2 + s2^-2 + ...)^(-1/2): rotational symmetry.
            square = sum(n / Fraction(item.noise_multiplier) ** 2 for item, n in gaussians.items())
            found.append(_same(GaussianBalls(self.reach * ball_of(square).sqrt()), 1))
        return found

    def claims(self) -> tuple[Ball, Ball] | None:
        """The sums of epsilon and of delta over releases, where all of them were proved elsewhere."""
        epsilon, delta = ball_of(0), ball_of(0)
        for item, times in self.counts().items():
            if not isinstance(item, _CLAIMS):
                return None
            each = self._claim(item)
            epsilon, delta = epsilon + times * each[0], delta + times * each[1]
        return epsilon, delta

    def _release(self, event: Event, times: int) -> Release:
        match event:
            case events.PoissonSampled(rate=rate, event=inner) if 0 < rate < 1:
                return self._poisson(ball_of(rate), self._base(inner), times)
            case events.TruncatedPoissonSampled(parts=parts) if parts > 1 and self.group > 1:
                raise self._unproven(event)  # the group may be spread over several parts
            case events.TruncatedPoissonSampled(rate=rate, event=inner) if 0 < rate < 1:
                base = self._base(inner)
                usual = self._poisson(ball_of(rate), base, times)
                return self._truncated(event, usual, base)
            case events.PoissonSampled(rate=1.0, event=inner):
                return _same(self._plain(self._base(inner)), times)
            case events.PoissonSampled(rate=0.0) | events.TruncatedPoissonSampled(rate=0.0):
                return _same(
                    AtomBalls(((ball_of(0), ball_of(1), ball_of(1)),), ball_of(0), ball_of(0)), times
                )
            case events.TruncatedPoissonSampled(rate=1.0, capacity=room, examples=most, event=inner) if (
                room >= most + self.group
            ):
                return _same(self._plain(self._base(inner)), times)
            case events.FixedSizeSampled(batch_size=size, examples=examples, event=inner):
                pair = self._plain(self._base(inner))
                if size == examples:
                    return _same(pair, times)
                if self.adjacency is Adjacency.REPLACE and self.group == 1:
                    rate = ball_of(Fraction(size, examples))
                    return _same(FixedSizeBalls(SampledBalls(pair, rate)), times)
                raise self._unproven(event)
            case _:
                return _same(self._plain(event), times)

    def _plain(self, event: Event) -> BallPair:
        """The pair of a release on all records. It looks the same from both sides."""
        match event:
            case events.Gaussian(noise_multiplier=noise):
                return GaussianBalls(ball_of(self.reach / Fraction(noise)))
            case events.Laplace(noise_multiplier=noise):
                return LaplaceBalls(ball_of(self.reach / Fraction(noise)))
            case events.PureDp() | events.ApproximateDp() | events.ExponentialMechanism():
                return _response(*self._claim(event))
            case events.RandomizedResponse(truth=truth, choices=choices):
                if self.adjacency is Adjacency.REPLACE and self.group == 1 and truth < 1:
                    return _answers(Fraction(truth), choices)
        raise self._unproven(event)

    def _base(self, event: Event) -> Event:
        """What is released on one batch: a single release."""
        counts = Released(event, self.adjacency, self.group).counts()
        base = next(iter(counts), None)
        if counts.total() == 1 and isinstance(
            base, events.Gaussian | events.Laplace | events.PureDp | events.ApproximateDp
        ):
            return base
        raise self._unproven(event)

    def _poisson(self, rate: Ball, base: Event, times: int) -> Release:
        is_sum = isinstance(base, events.Gaussian | events.Laplace)
        if self.adjacency is Adjacency.REPLACE or self.group > 1:
            if not isinstance(base, events.Gaussian):
                raise self._unproven(base)
            return self._gaussian_poisson(rate, 1 / Fraction(base.noise_multiplier), times, self.adjacency)
        if self.adjacency is Adjacency.ZERO_OUT and not is_sum:
            raise self._unproven(base)
        return _two_sided(SampledBalls(self._plain(base), rate), times)

    def _gaussian_poisson(self, rate: Ball, mu: Fraction, times: int, adjacency: Adjacency) -> Release:
        """Records of a contribution of `mu` standard deviations, on a batch that each joins by a coin."""
        if adjacency is Adjacency.REPLACE:
            if self.group > 1:
                raise self._unproven(self.event)
            return _same(ReplacedBalls(ball_of(mu), rate), times)
        weights = _binomial(self.group, rate)
        return _two_sided(GroupBalls(ball_of(mu), weights), times)

    def _truncated(self, event: events.TruncatedPoissonSampled, usual: Release, base: Event) -> Release:
        """A batch that is overfull by a coin that everybody sees: see section 2.5 of docs/accounting.md."""
        others = event.capacity - self.group
        chance = overfull(others, event.examples, Fraction(event.rate)) if others >= 0 else ball_of(1)
        if chance == 0:
            return usual
        if not isinstance(base, events.Gaussian):
            raise self._unproven(event)
        is_added = self.adjacency is Adjacency.ADD_OR_REMOVE
        rare = self._gaussian_poisson(
            ball_of(event.rate),
            2 / Fraction(base.noise_multiplier),
            usual.times,
            Adjacency.ADD_OR_REMOVE if is_added else Adjacency.REPLACE,
        )
        removed = MixedBalls(((1 - chance, usual.removed), (chance, rare.removed)))
        return Release(removed, MixedBalls(((1 - chance, usual.added), (chance, rare.added))), usual.times)

    def _claim(self, event: Event) -> tuple[Ball, Ball]:
        """A claim for one record, made one for the group. Replacing is removing one record and adding one."""
        assert isinstance(event, events.PureDp | events.ApproximateDp | events.ExponentialMechanism)
        size = self.group
        if event.adjacency is not self.adjacency:
            if (event.adjacency, self.adjacency) != (Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE):
                raise self._unproven(event)
            size *= 2
        epsilon = ball_of(event.epsilon)
        delta = ball_of(event.delta if isinstance(event, events.ApproximateDp) else 0)
        # From one dataset to the next, what came before grows by e^epsilon and delta is added.
        growth = sum(((k * epsilon).exp() for k in range(size)), ball_of(0))
        return size * epsilon, delta * growth

    def _unproven(self, event: Event) -> Unproven:
        records = "one record" if self.group == 1 else f"{self.group} records"
        return Unproven(
            f"No certificate covers {type(event).__name__} when {records} may change by '{self.adjacency}'.",
            remedy="Rely on the numerical upper bound, or account for it under another adjacency.",
        )


def overfull(capacity: int, most: int, rate: Fraction) -> Ball:
    """An upper bound on the probability that more than `capacity` of `most` coins fall on the side of `rate`.

    The terms of a binomial tail fall faster and faster: where two of them have the ratio r < 1, what
    follows the second is at most r / (1 - r) of it.
    """
    k = capacity + 1
    if k > most:
        return ball_of(0)
    odds = rate / (1 - rate)
    logs = [ball_of(count + 1).lgamma() for count in (most, k, most - k)]
    joined = k * ball_of(rate).log() + (most - k) * ball_of(1 - rate).log()
    term = (logs[0] - logs[1] - logs[2] + joined).exp()
    total, growth = ball_of(0), ball_of(odds)
    for _ in range(_TERMS):
        total += term
        if k == most:
            return total
        ratio = (most - k) * growth / (k + 1)
        k += 1
        if ratio < 1 and term * ratio / (1 - ratio) < total * ball_of(Fraction(1, 2**60)):
            return total + term * ratio / (1 - ratio)
        term *= ratio
    return ball_of(1)


def _binomial(size: int, rate: Ball) -> tuple[Ball, ...]:
    chances = [ball_of(1)]
    for _ in range(size):
        stays = [*chances, ball_of(0)]
        joins = [ball_of(0), *chances]
        chances = [(1 - rate) * one + rate * other for one, other in zip(stays, joins, strict=True)]
    return tuple(chances)


def _response(epsilon: Ball, delta: Ball) -> BallPair:
    """The worst (epsilon, delta)-DP pair: randomised response, with delta of full disclosure."""
    high = (1 - delta) / (1 + (-epsilon).exp())
    low = high * (-epsilon).exp()
    return AtomBalls(((epsilon, high, low), (-epsilon, low, high)), delta, delta)


def _answers(truth: Fraction, choices: int) -> BallPair:
    lie = (1 - truth) / (choices - 1)
    loss, rest = ball_of(truth / lie).log(), ball_of((choices - 2) * lie)
    zero = ball_of(0)
    atoms = ((loss, ball_of(truth), ball_of(lie)), (zero, rest, rest), (-loss, ball_of(lie), ball_of(truth)))
    return AtomBalls(atoms, zero, zero)


def _same(pair: BallPair, times: int) -> Release:
    return Release(pair, pair, times)


def _two_sided(removed: BallPair, times: int) -> Release:
    return Release(removed, ReversedBalls(removed), times)
