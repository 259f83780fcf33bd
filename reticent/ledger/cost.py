"""What an account has spent, whether one more release fits, and what would.

Planned releases are composed by the tightest accountant. Where that takes long and Renyi accounting already
shows that a release fits, the quick answer is taken: it is an upper bound as well. The same goes for what an
account of very many different releases is said to have spent. Releases chosen by looking at earlier results
go through a filter instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from reticent.accounting.budget import ROWS_BY_THEMSELVES
from reticent.accounting.filters import RenyiFilter, make_filters
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import NEARLY_EXACT, delta_left_for, is_paid
from reticent.accounting.rounding import at_most, to_digits
from reticent.accounting.theorems import gaussian_dp, renyi
from reticent.accounting.tight_epsilon import (
    Cost,
    SettledCost,
    cost_within,
    has_visible_ends,
    settle,
    sum_of_claims,
    tight,
    upper_bound,
)
from reticent.core.errors import Unproven
from reticent.ledger.accounts import Account, Limit
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian, PureDp, Repeated

PLANNED = "how much each release spends was not decided by looking at earlier results"
_SET_ASIDE = 1e-3  # the share of delta for what no Renyi curve covers
_PRECISION = 1.01  # of a search for what still fits
_MANY = 64  # different releases; the tightest accountant takes about 0.1 s for each
_PATIENCE = 3.0  # seconds of it; what was found by then fits, and more might


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What would still fit, each taken alone.

    noise_multiplier: the least of one more Gaussian release; infinity when nothing fits.
    epsilon: the most of one more release that is epsilon-DP; 0 when nothing fits.
    """

    noise_multiplier: float
    epsilon: float

    def __str__(self) -> str:
        if math.isinf(self.noise_multiplier):
            return "Nothing more fits."
        said = (
            f"A Gaussian release with a noise multiplier of at least {self.noise_multiplier:.4g} still fits"
        )
        return f"{said}, or one that is {at_most(self.epsilon)}-DP." if self.epsilon > 0 else f"{said}."


def guarantee(account: Account) -> Guarantee:
    """What all releases about a dataset together promise.

    Guarantee:
        Planned, an upper bound on the composition of everything charged. Adaptive, what filters promise
        whatever the analyst does: the highest limit since the first charge.
    """
    limit = account.limit
    if not limit.adaptive:
        cost, is_exact = _spent_cost(account)
        lower, upper, accountant = cost.lower, cost.upper, cost.name
        assumptions = (PLANNED,) if account.charges > 1 else ()
    else:
        orders = ", ".join(f"{share.order:.3g}" for share in limit.shares)
        lower, accountant, assumptions = 0.0, f"Renyi filters at orders {orders}", ()
        upper = account.ceiling if account.charges else 0.0
        is_exact = not account.charges or is_paid(upper, limit.delta)
    if not is_exact:
        assumptions = (*assumptions, NEARLY_EXACT)
    told = [line for line in account.assumptions if account.charges > 1 or line != ROWS_BY_THEMSELVES]
    assumptions = tuple(dict.fromkeys([*told, *assumptions]))
    return Guarantee(
        epsilon=upper,
        epsilon_lower=lower,
        delta=limit.delta,
        adjacency=limit.adjacency,
        unit=limit.unit,
        accountant=accountant,
        assumptions=assumptions,
    )


def share(account: Account) -> float:
    """How much of its limit an account has used: of epsilon, or of the filter that has most room."""
    limit = account.limit
    if not limit.adaptive:
        return _spent_cost(account).cost.upper / limit.epsilon
    if not account.charges:
        return 0.0
    event = account.event()
    return min(guard.cost(event) / guard.limit if guard.limit > 0 else 1.0 for guard in _filters(limit))


def is_within(event: Event, limit: Limit, *, is_quick: bool = False) -> bool | None:
    """Whether everything in an event stays within a limit, samplers included.

    A claim that was proved elsewhere costs what it says, even where it uses all of delta.

    Args:
        is_quick: answer None rather than take long.

    Raises:
        Unproven: there is no theorem for a release under the limit's adjacency.
    """
    near, left = Neighbours(limit.adjacency), delta_left_for(limit.epsilon, limit.delta)
    if not is_paid(limit.epsilon, limit.delta) and has_visible_ends(event, limit.delta, near):
        return False
    if limit.adaptive:
        return any(guard.fits(event) for guard in _filters(limit))
    kinds = dominating.flatten(event)
    if all(isinstance(item, Gaussian) for item in kinds):
        return tight(event, left, limit.adjacency).upper <= limit.epsilon
    if _renyi(event, left, limit.adjacency) <= limit.epsilon:
        return True
    if sum_of_claims(event, limit.delta, near) <= limit.epsilon:
        return True
    if is_quick:
        return None
    try:
        if upper_bound(event, left, near) <= limit.epsilon:
            return True
    except Unproven:
        pass  # by one accountant; `tight` knows whether by all
    # By the rule of what is printed: samplers owe what they owe at the event's own cost.
    return _total(event, limit.delta, limit.adjacency).cost.upper <= limit.epsilon


def remaining(account: Account) -> Remaining:
    """What would still fit under an account's limit."""
    limit = account.limit
    noise = _least_noise(account)
    if math.isinf(noise):
        return Remaining(noise_multiplier=noise, epsilon=0.0)

    def fits(epsilon: float) -> bool:
        return _fits(account, PureDp(epsilon=epsilon, adjacency=limit.adjacency))

    epsilon = _largest(fits, 1e-6 * limit.epsilon, limit.epsilon, guess=2 * limit.adjacency.reach / noise)
    return Remaining(noise_multiplier=noise, epsilon=to_digits(epsilon, 4, "down"))


def what_fits(account: Account, wanted: Event) -> str:
    """What would still fit, in words, for somebody whose release was refused."""
    noise = _least_noise(account)
    if math.isinf(noise):
        return "Nothing more fits under this limit."
    said = f"A Gaussian release with a noise multiplier of at least {noise:.4g} still fits"
    if isinstance(wanted, Repeated) and wanted.times > 1:

        def fits(times: float) -> bool:
            return _fits(account, Repeated(event=wanted.event, times=int(times)))

        times = int(_largest(fits, 1, wanted.times, guess=wanted.times / 2))
        said += f", or {times:,} of the {wanted.times:,} repetitions that were asked for"
    return f"{said}."


def round_up(value: float) -> float:
    """Four digits, never below the value.

    Example:
        >>> round_up(1.23401)
        1.235
    """
    return to_digits(value, 4, "up")


def _least_noise(account: Account) -> float:
    """The least noise of one more Gaussian release, to four digits; infinity when none fits."""
    limit = account.limit

    def fits(precision: float) -> bool:
        return _fits(account, Gaussian(noise_multiplier=1 / precision))

    # As if everything so far had been Gaussian too; then precisions add up like squares.
    whole, spent = (
        _gaussian_mu(part * limit.epsilon, limit.delta) for part in (1.0, min(share(account), 1.0))
    )
    guess = math.sqrt(max(whole**2 - spent**2, 0.0)) / limit.adjacency.reach
    found = _largest(fits, 1e-6, 1e6, guess=guess)
    return math.inf if found == 0 else round_up(1 / found)


def _gaussian_mu(epsilon: float, delta: float) -> float:
    """Which Gaussian release costs this much."""
    low, high = 1e-9, 1e6
    while high / low > _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_dp.epsilon(middle, delta) <= epsilon else (low, middle)
    return low


def _largest(fits: Callable[[float], bool], low: float, high: float, *, guess: float) -> float:
    """The largest value below `high` that fits, to a percent and from below; 0 when not even `low` does.

    Smaller values are taken to fit where larger ones do.
    """
    if not fits(low):
        return 0.0
    deadline = time.monotonic() + _PATIENCE
    likely = (guess / 1.1, guess * 1.1, guess / 1.6, guess * 1.6)
    while high / low > _PRECISION and time.monotonic() < deadline:
        inside, *likely = [*(value for value in likely if low < value < high), math.sqrt(low * high)]
        low, high = (inside, high) if fits(inside) else (low, inside)
    return low


def _fits(account: Account, event: Event) -> bool:
    """Whether one more release fits, by the quickest accountant that is nearly tight."""
    whole, limit = account.event(event), account.limit
    known = is_within(whole, limit, is_quick=True)
    if known is not None:
        return known
    if _is_quick_to_show(account):
        return False  # by the accountant that says what is spent
    try:
        near = Neighbours(limit.adjacency)
        return cost_within(whole, limit.epsilon, limit.delta, near) <= limit.epsilon
    except Unproven:
        return bool(is_within(whole, limit))


def _filters(limit: Limit) -> tuple[RenyiFilter, ...]:
    left = delta_left_for(limit.epsilon, limit.delta)
    return make_filters(limit.shares, epsilon=limit.epsilon, delta=left, adjacency=limit.adjacency)


def _spent_cost(account: Account) -> SettledCost:
    """What an account has spent: by Renyi accounting where that is within the limit and else takes long."""
    limit, event = account.limit, account.event()
    if not _is_quick_to_show(account):
        return _total(event, limit.delta, limit.adjacency)

    def price(left: float) -> Cost:
        return Cost(0.0, _renyi(event, left, limit.adjacency), "renyi")

    return settle(event, limit.delta, Neighbours(limit.adjacency), price=price)


def _is_quick_to_show(account: Account) -> bool:
    limit, event = account.limit, account.event()
    if len(dominating.flatten(event)) <= _MANY:
        return False
    left = delta_left_for(limit.epsilon, limit.delta)
    return _renyi(event, left, limit.adjacency) <= limit.epsilon


@lru_cache(maxsize=64)
def _total(event: Event, delta: float, adjacency: Adjacency) -> SettledCost:
    """What everything costs, by whichever bound let it through."""

    def price(left: float) -> Cost:
        cost, other = tight(event, left, adjacency), _renyi(event, left, adjacency)
        return Cost(min(cost.lower, other), other, "renyi") if other < cost.upper else cost

    return settle(event, delta, Neighbours(adjacency), price=price)


def _renyi(event: Event, delta: float, adjacency: Adjacency) -> float:
    """An upper bound on epsilon by curves that are worked out once for every kind of release."""
    reserve = _SET_ASIDE * delta
    try:
        parts = [(_curve(item, adjacency), times) for item, times in dominating.flatten(event).items()]
    except Unproven:
        return math.inf
    if not parts:
        return 0.0
    whole = renyi.ApproximateCurve(
        sum((times * part.curve for part, times in parts), np.zeros(renyi.ORDERS.shape)),
        math.fsum(times * part.delta for part, times in parts),
        math.fsum(times * part.slack for part, times in parts),
    )
    epsilon = renyi.to_epsilon(whole.curve * (1 + 1e-10), delta - reserve)
    return epsilon if whole.outside(epsilon) <= reserve else math.inf


@lru_cache(maxsize=4096)
def _curve(release: Event, adjacency: Adjacency) -> renyi.ApproximateCurve:
    return renyi.approximate(release, Neighbours(adjacency))
