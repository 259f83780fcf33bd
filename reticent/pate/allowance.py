"""How many questions a budget covers, decided before the first is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import (
    NEARLY_EXACT,
    ROOM,
    USUAL,
    delta_left_for,
    delta_owed,
    is_paid,
    noise_too_small,
)
from reticent.accounting.search import smallest_count
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import has_visible_ends, tight
from reticent.core import checks
from reticent.core.errors import CannotMeet
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Gaussian, Repeated
from reticent.pate.aggregators import Aggregator, Confident, GaussianMax

_MOST_ANSWERS = 1 << 24
_MOST_CLASSES = 1 << 10
_OFF = 2.0**-64  # no count or check is drawn further from its law, in total variation: docs/arithmetic.md


class Allowance(NamedTuple):
    """How much may be spent, what a check and an answer take of it, and what all of it costs.

    A privacy filter: adaptive questions stop when the next one could exceed the limit.

    Guarantee:
        However questions are chosen from earlier answers, all of it costs at most `event`.
        For Gaussian noise the limit is on the sum of squared ratios of sensitivity to noise, and a sum that
        never passes mu^2 on any path is worth one Gaussian release of mu, even if each ratio is chosen by
        looking at what came before (Smith and Thakurta 2022, arXiv:2210.17520). For the
        others it is on the number of answers, all of which cost the same.

    Example:
        >>> allowance = allowance_for(GaussianMax(sigma=40.0), epsilon=1.0, delta=1e-6)
        >>> [allowance.affords_one_more(asked=count, answered=count) for count in (43, 44)]
        [True, False]
    """

    limit: float
    check: float
    answer: float
    event: Event

    @property
    def distance(self) -> float:
        """The distance of all samplers from their laws, in total variation, for up to 1,024 classes."""
        checked = self.limit / self.check if self.check else 0.0
        return _OFF * (checked + _MOST_CLASSES * self.limit / (self.check + self.answer))

    def left(self, *, asked: int, answered: int) -> float:
        return self.limit - asked * self.check - answered * self.answer

    def affords_one_more(self, *, asked: int, answered: int) -> bool:
        """Whether the next question is covered even if it is answered."""
        return self.left(asked=asked, answered=answered) >= self.check + self.answer

    def most_asked(self, passed: np.ndarray) -> int:
        """How many of these questions are asked, in their order, if these pass the check."""
        before = np.cumsum(passed) - passed
        spent = self.check * np.arange(len(passed)) + self.answer * before
        return int(np.sum(spent + self.check + self.answer <= self.limit))


def allowance_for(aggregator: Aggregator, *, epsilon: float, delta: float) -> Allowance:
    """The allowance that (epsilon, delta) covers, for any votes.

    A part of delta is set aside for the samplers of the noise, enough for every answer with up to 1,024
    classes; there are no more answers than half of delta is enough for.

    Raises:
        CannotMeet: not even one answer fits.

    Example:
        >>> allowance = allowance_for(GaussianMax(sigma=40.0), epsilon=1.0, delta=1e-6)
        >>> int(allowance.limit / allowance.answer)  # questions
        44
    """
    checks.positive(epsilon=epsilon)
    checks.inside_unit(delta=delta)
    found = _allowance_within(aggregator, epsilon, delta_left_for(epsilon, delta))
    if is_paid(epsilon, delta) and (distance := found.distance) > USUAL:
        share = min(1.0, (1 - 1e-9) * delta / 2 / (ROOM * delta_owed(distance, epsilon)))
        most = share * found.limit  # with less of delta there are fewer answers still
        found = _allowance_within(
            aggregator, epsilon, delta_left_for(epsilon, delta, max(share * distance, USUAL))
        )
        found = found._replace(limit=min(found.limit, most))
    if not found.affords_one_more(asked=0, answered=0):
        raise CannotMeet(
            f"Not even one answer fits into epsilon {epsilon:g} and delta {delta:g} with this noise.",
            remedy="Use more noise (and more teachers, so that the votes stand out), or a larger epsilon.",
        )
    return found


def _allowance_within(aggregator: Aggregator, epsilon: float, delta: float) -> Allowance:
    """The allowance by the laws of the noise alone."""
    match aggregator:
        case GaussianMax() | Confident():
            return allowance_of(aggregator, gaussian_dp.noise_multiplier(epsilon, delta))
        case _:
            times = _most_answers(aggregator.event, epsilon, delta)
            return Allowance(
                limit=times, check=0.0, answer=1.0, event=Repeated(event=aggregator.event, times=times)
            )


def about_samplers(counts: int) -> tuple[str, ...]:
    """What a guarantee rests on where so many counts are drawn, and delta pays for the usual distance.

    A quarter of that is left to whatever is released beside them.
    """
    return () if counts * _OFF <= 0.75 * USUAL else (NEARLY_EXACT,)


def allowance_of(aggregator: GaussianMax | Confident, multiplier: float) -> Allowance:
    """What one Gaussian release of this noise, over one moved vote, is worth in questions: what was paid."""
    checks.positive(multiplier=multiplier)
    check = aggregator.check_event.noise_multiplier**-2 if isinstance(aggregator, Confident) else 0.0
    return Allowance(
        limit=multiplier**-2 * (1 - 1e-9),
        check=check,
        answer=aggregator.event.noise_multiplier**-2,
        event=Gaussian(noise_multiplier=multiplier),
    )


def release_of(multiplier: float, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE) -> Gaussian:
    """The event of answers that are worth one Gaussian release of this noise, over one moved vote.

    Whoever is replaced stays with their teacher, so one vote moves under every adjacency: where an accountant
    takes a replaced record to move twice as much as a removed one, half as much is said to begin with.
    """
    return Gaussian(noise_multiplier=adjacency.reach * multiplier)


def multiplier_for(
    *,
    epsilon: float,
    delta: float,
    beside: Event | None = None,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
) -> float:
    """The least noise, over one moved vote, with which all answers and what is released beside them fit.

    The usual share of delta is set aside for samplers: see `about_samplers`.

    Raises:
        CannotMeet: so little noise that the ends of its sampler show.
    """
    alone = gaussian_dp.noise_multiplier(epsilon, delta_left_for(epsilon, delta)) * (
        1 + 1e-7
    )  # room for the accountant's last digits
    if beside is None:
        neighbours = Neighbours(adjacency)
        if not is_paid(epsilon, delta) and has_visible_ends(release_of(alone, adjacency), delta, neighbours):
            raise noise_too_small(epsilon, delta)
        return alone
    return calibrate.noise_for(
        lambda multiplier: Composed(events=(beside, release_of(multiplier, adjacency))),
        Neighbours(adjacency),
        epsilon=epsilon,
        delta=delta,
        guess=alone,
    )


def _most_answers(event: Event, epsilon: float, delta: float) -> int:
    """The most answers that fit, by doubling, then halving: the cost grows with their number."""

    def fits(times: int) -> bool:
        return tight(Repeated(event=event, times=times), delta).upper <= epsilon

    if not fits(1):
        return 0
    low = 1
    while low < _MOST_ANSWERS and fits(2 * low):
        low *= 2
    return smallest_count(lambda times: not fits(times), low, 2 * low) - 1
