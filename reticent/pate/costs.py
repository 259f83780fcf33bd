"""The cost of answers: a number that may be published, and one that may not.

allowance_for(...).event       whatever the votes are: publishable, and what is charged
unreleased_cost(...)           with these votes in view: smaller, and itself private
sanitise(...)                  the same with noise: publishable once it is paid for
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from reticent.accounting.rounding import at_most
from reticent.accounting.theorems import renyi
from reticent.core import checks
from reticent.core.errors import InvalidArgument, Unproven
from reticent.core.generators import generator
from reticent.core.keys import Keys
from reticent.pate import divergence, publishing, sensitivity
from reticent.pate.aggregators import Aggregator, Confident, GaussianMax, LaplaceMax
from reticent.pate.grid import NormalGrid
from reticent.pate.votes import Votes

ORDERS = np.concatenate(
    [np.array([1.1, 1.2, 1.5]), np.arange(2, 101, 0.5), np.geomspace(101, 500, 60)]
).astype(np.float64)

_SLOWEST = 1e-6  # beta, so that rounding cannot be seen beside it


@dataclass(frozen=True, kw_only=True, eq=False)
class UnreleasedCost:
    """A Renyi curve computed from private votes: for the holder of the votes, not for publication.

    Example:
        >>> votes = Votes(counts=[[245, 5]] * 100, teachers=250)
        >>> cost = unreleased_cost(votes, GaussianMax(sigma=40.0))
        >>> cost.epsilon(1e-6) < cost.epsilon_classical(1e-6)
        True
    """

    orders: np.ndarray
    curve: np.ndarray

    def epsilon(self, delta: float) -> float:
        return renyi.to_epsilon(self.curve, delta, self.orders)

    def epsilon_classical(self, delta: float) -> float:
        """Epsilon by the conversion that the papers used."""
        return renyi.to_epsilon_classical(self.curve, delta, self.orders)

    def in_words(self, delta: float) -> str:
        return (
            f"UNRELEASED: with these votes in view epsilon is {at_most(self.epsilon(delta))} at delta "
            f"{delta:g}. The votes are private, and so is this number: do not publish it."
        )

    def __repr__(self) -> str:
        return "UnreleasedCost(private: ask for .epsilon(delta))"


def unreleased_cost(
    votes: Votes,
    aggregator: Aggregator,
    *,
    is_answered: np.ndarray | None = None,
    orders: np.ndarray = ORDERS,
) -> UnreleasedCost:
    """The data-dependent cost of having asked about all of these votes.

    The formulas are those for real noise, at the deviation that is drawn, with every gap one step of the
    noise smaller: `divergence` says why that covers noise in whole numbers.

    Args:
        votes: of the questions that were asked, and of no others: `votes.about(questions)`.
        is_answered: which of them were answered, or with which probability they would be: None forecasts
            from the votes themselves, for `Confident`.

    Raises:
        Unproven: no theorem for this aggregator.

    Example:
        >>> votes = Votes(counts=[[245, 5]] * 100, teachers=250)
        >>> cost = unreleased_cost(votes, GaussianMax(sigma=40.0))
        >>> round(cost.epsilon(1e-6), 1)
        0.2
        >>> cost
        UnreleasedCost(private: ask for .epsilon(delta))
    """
    total = np.zeros(len(orders))
    weights = np.ones(votes.queries) if is_answered is None else _weights(is_answered, votes)
    match aggregator:
        case LaplaceMax(gamma=gamma, grid=grid):
            log_wrong = divergence.log_wrong_laplace(votes.counts, 1 / gamma, step=grid.step)
            each = divergence.pure_dp(log_wrong, 2 * gamma, orders)
        case GaussianMax(grid=grid):
            each = _answers(votes, grid, orders)
        case Confident(threshold=threshold, check_grid=grid, vote=vote):
            log_pass = divergence.log_pass_probability(
                votes.counts, threshold, grid.deviation, step=grid.step
            )
            weights = np.exp(log_pass) if is_answered is None else weights
            total += divergence.gaussian_check(log_pass, grid.deviation, orders).sum(axis=0)
            each = _answers(votes, vote.grid, orders)
        case _:
            raise Unproven(
                f"There is no data-dependent cost of {type(aggregator).__name__}.",
                remedy="Use its data-independent cost, or LaplaceMax, GaussianMax or Confident.",
            )
    return UnreleasedCost(orders=orders, curve=total + weights @ each)


def _answers(votes: Votes, grid: NormalGrid, orders: np.ndarray) -> np.ndarray:
    log_wrong = divergence.log_wrong_gaussian(votes.counts, grid.deviation, step=grid.step)
    return divergence.gaussian_max(log_wrong, grid.deviation, orders)


@dataclass(frozen=True, kw_only=True)
class CostRelease:
    """How a data-dependent cost is published: fixed before anyone looks at the votes, or it leaks them.

    Args:
        order: the one order at which the cost is published.
        beta: how fast smooth sensitivity forgets; below 1 / (2 order).
        sigma: noise over smooth sensitivity.
        confidence: that what is published is not below the truth. One half adds no margin, as in the paper.

    Example:
        >>> CostRelease(order=20.0, beta=0.01, sigma=10.0).divergence > 0
        True
    """

    order: float
    beta: float
    sigma: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        checks.positive(order_above_1=self.order - 1, beta=self.beta, sigma=self.sigma)
        checks.inside_unit(confidence=self.confidence)
        if self.confidence < 0.5 or 2 * self.beta * self.order >= 1 or self.beta < _SLOWEST:
            raise InvalidArgument(
                f"No theorem for beta {self.beta:g}, order {self.order:g}, confidence {self.confidence:g}.",
                remedy="Choose a beta from 1e-6 to 1 / (2 order), and a confidence of at least 0.5.",
            )

    @property
    def margin(self) -> float:
        """How many standard deviations are added."""
        return float(ndtri(self.confidence))

    @property
    def divergence(self) -> float:
        """What publishing costs by itself, at `order`.

        A margin in proportion to the smooth sensitivity S moves with it: by at most (e^beta - 1) S for a
        neighbour. So cost and margin together have a local sensitivity of at most 1 + margin sigma
        (e^beta - 1) times S, which is as smooth as S, and the noise is by that much smaller beside it.

        Reference:
            Papernot et al. (2018), Theorem 23, arXiv:1802.08908.
        """
        sigma = self.sigma / (1 + self.margin * self.sigma * math.expm1(self.beta))
        rest = self.order * self.beta - math.log1p(-2 * self.order * self.beta) / 2
        return self.order * math.exp(2 * self.beta) / sigma**2 + rest / (self.order - 1)


@dataclass(frozen=True, kw_only=True)
class Sanitised:
    """A data-dependent epsilon with noise on it, and its own cost in it: it may be published.

    A statement about these data: by how much an outcome is likelier on them than on a neighbour. Like
    other statements of this kind, it does not cover the other direction, and it holds except with
    probability 1 - confidence, over the noise on it. What a ledger is charged is the data-independent cost.
    """

    epsilon: float
    delta: float
    release: CostRelease

    def __str__(self) -> str:
        return (
            f"epsilon {at_most(self.epsilon)} at delta {self.delta:g} for these data, sanitised: an upper "
            f"bound except with probability {1 - self.release.confidence:.3g}"
        )


def smooth_sensitivity(
    votes: Votes, aggregator: Aggregator, release: CostRelease, *, is_answered: np.ndarray | None = None
) -> float:
    """The smooth sensitivity of these questions' data-dependent cost, at the release's order. Private."""
    if not isinstance(aggregator, GaussianMax | Confident):
        raise Unproven(
            f"The cost of {type(aggregator).__name__} cannot be sanitised.",
            remedy="Use GaussianMax or Confident, or publish the data-independent cost.",
        )
    vote = aggregator.vote.grid if isinstance(aggregator, Confident) else aggregator.grid
    sigma, order = vote.deviation, release.order
    cost = sensitivity.GaussianMaxCost(sigma=sigma, order=order, classes=votes.classes)
    if not all(cost.conditions_hold()):
        raise Unproven(
            f"The theorem's conditions do not hold for sigma {sigma:g} at order {order:g}.",
            remedy="Choose a lower order or more noise.",
        )
    weights = np.ones(votes.queries) if is_answered is None else _weights(is_answered, votes)
    local = sensitivity.gaussian_max(votes.counts, votes.teachers, sigma=sigma, order=order, step=vote.step)
    if isinstance(aggregator, Confident):
        if is_answered is None:
            weights = np.exp(
                divergence.log_pass_probability(votes.counts, aggregator.threshold, aggregator.sigma_check)
            )
        grid = aggregator.check_grid
        checked = sensitivity.check(
            votes.counts,
            votes.teachers,
            threshold=aggregator.threshold,
            sigma=grid.deviation,
            order=order,
            step=grid.step,
        )
        return sensitivity.smooth(weights[:, None] * local + checked, release.beta)
    return sensitivity.smooth(weights[:, None] * local, release.beta)


def sanitise(
    votes: Votes,
    aggregator: Aggregator,
    release: CostRelease,
    *,
    delta: float,
    keys: Keys,
    is_answered: np.ndarray,
    step: int = 0,
) -> Sanitised:
    """The data-dependent epsilon, with noise in proportion to its smooth sensitivity.

    Args:
        votes: of the questions that were asked.
        is_answered: which of them were answered; that is public, since it was released.
        release: chosen without looking at the votes.

    Guarantee:
        Costs `release.divergence` at the order of the release, up to 2^-64: the noise is whole numbers on a
        grid that follows from public numbers alone (`publishing`).

    Example:
        >>> votes = Votes(counts=[[245, 5]] * 100, teachers=250)
        >>> how = CostRelease(order=20.0, beta=0.01, sigma=10.0)
        >>> found = sanitise(
        ...     votes,
        ...     GaussianMax(sigma=40.0),
        ...     how,
        ...     delta=1e-6,
        ...     keys=Keys.seeded(0),
        ...     is_answered=np.ones(100, bool),
        ... )
        >>> found.epsilon > 0, found.delta
        (True, 1e-06)
    """
    slower = replace(release, beta=release.beta * publishing.SLOWER)
    most = _largest_cost(votes, aggregator, release.order)
    cost = unreleased_cost(votes, aggregator, is_answered=is_answered, orders=np.array([release.order]))
    smooth = smooth_sensitivity(votes, aggregator, slower, is_answered=is_answered)
    smooth = publishing.add_floor(smooth, most)
    noisy = publishing.add_smooth_noise(
        generator(keys, step=step),
        float(cost.curve[0]) + smooth * release.sigma * release.margin,
        smooth,
        sigma=release.sigma,
        most=most,
    )
    curve = np.array([max(noisy, 0.0) + release.divergence])
    epsilon = renyi.to_epsilon(curve, delta, np.array([release.order]))
    return Sanitised(epsilon=epsilon, delta=delta, release=release)


def _largest_cost(votes: Votes, aggregator: Aggregator, order: float) -> float:
    """The largest possible cost of so many questions, for any votes: no sensitivity is larger."""
    if not isinstance(aggregator, GaussianMax | Confident):
        return math.inf  # `smooth_sensitivity` refuses it
    check = order / (2 * aggregator.sigma_check**2) if isinstance(aggregator, Confident) else 0.0
    return max(votes.queries, 1) * (order / aggregator.sigma**2 + check)


def _weights(is_answered: np.ndarray, votes: Votes) -> np.ndarray:
    weights = np.asarray(is_answered, np.float64)
    if weights.shape != (votes.queries,) or np.any((weights < 0) | (weights > 1)):
        raise InvalidArgument(
            f"is_answered has shape {weights.shape}, and there are {votes.queries} questions.",
            remedy="Pass one yes or no for each question that was asked. Do not pass labels or row numbers.",
        )
    return weights
