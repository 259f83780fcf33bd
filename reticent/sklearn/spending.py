"""What one fit may spend and has spent, and the source of its randomness."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse

from reticent.accounting.budget import ROWS_BY_THEMSELVES, Budget
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import (
    NEARLY_EXACT,
    OFF,
    delta_owed,
    ends_show,
    is_paid,
    noise_too_small,
)
from reticent.accounting.tight_epsilon import (
    Cost,
    SettledCost,
    cost_within,
    has_visible_ends,
    settle,
    tight,
    upper_bound,
)
from reticent.convex.terms import public_number
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.distributed.consensus import require_alone
from reticent.ledger.dataset_budget import DatasetBudget
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.runs.problem import checked_delta
from reticent.sklearn.budget import SharedBudget
from reticent.sklearn.notices import warn_of_repeated_fit

CAME_BEFORE = (
    "what came before this fit, such as an earlier step of a pipeline, changed each row by itself "
    "or is paid for separately"
)
_SEARCHED = 7  # halvings


class Spending:
    """The budget of one fit: shares are set apart first, events are paid before they are released.

    Args:
        delta: None for the default for so many records, 0 for pure differential privacy.
        examples: the declared, public number of records; there may be more rows, or fewer.
        data: rows and targets, to notice a second fit to them where there is no budget.
        owner: the name of the estimator.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float | None,
        adjacency: str,
        examples: int,
        keys: Keys,
        budget: Budget | None,
        data: tuple[Any, ...] = (),
        owner: str = "",
    ) -> None:
        require_alone("A private estimator")
        checks.positive(epsilon=epsilon)
        checks.one_of([item.value for item in Adjacency], adjacency=adjacency)
        self.epsilon = epsilon
        self.delta = 0.0 if delta == 0 else checked_delta(delta, examples)
        if self.delta > 0 and ends_show(delta_owed(OFF, epsilon), self.delta):
            raise noise_too_small(epsilon, self.delta)  # before anything is paid
        self.adjacency = Adjacency(adjacency)
        self.examples, self.keys = examples, keys
        self.assumptions: list[str] = [public_number(examples), CAME_BEFORE, *keys.assumptions]
        if self.delta == 0:
            self.assumptions.append(NEARLY_EXACT)
        self._budget, self._data, self._owner = budget, data, owner
        self._events: list[Event] = []
        self._apart = (0.0, 0.0)
        self.is_basic = True  # whether the shares add up to the budget: else only accountants know

    def set_apart(self, epsilon: float, delta: float = 0.0) -> None:
        """Takes a share out of what is left; whatever is bought with it costs no more than that."""
        self._apart = self._apart[0] + epsilon, self._apart[1] + delta

    @property
    def left(self) -> tuple[float, float]:
        """Epsilon and delta that are not set apart yet; basic composition."""
        return self.epsilon - self._apart[0], self.delta - self._apart[1]

    def stretch(self, quote: Callable[[float], Event], epsilon: float) -> float:
        """The most that what is quoted may cost by itself, when all together is accounted for tightly.

        Args:
            quote: what is released at an epsilon; decided by public values alone.
            epsilon: with which basic composition stays within the budget.
        """
        if self.delta == 0:
            return epsilon
        low, high = epsilon, self.epsilon
        for _ in range(_SEARCHED):
            middle = (low + high) / 2
            whole = Composed(events=(*self._events, quote(middle)))
            cost = cost_within(whole, self.epsilon, self.delta, Neighbours(self.adjacency))
            fits = cost <= self.epsilon
            low, high = (middle, high) if fits else (low, middle)
        self.is_basic = low == epsilon
        return low

    def pay(self, event: Event, purpose: str) -> None:
        """Charges the budget, if there is one, before anything of the event is released."""
        if isinstance(self._budget, DatasetBudget) or hasattr(self._budget, "takes_assumptions"):
            told = (*self.assumptions, ROWS_BY_THEMSELVES)
            budget: Any = self._budget
            budget.charge(event, adjacency=self.adjacency, purpose=purpose, unit="record", assumptions=told)
        elif self._budget is not None:
            self._budget.charge(event, adjacency=self.adjacency, purpose=purpose, unit="record")
        elif self._data and self.is_untouched:
            warn_of_repeated_fit(self._owner, self._data)
        self._events.append(event)
        self._tell(self.assumptions)

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Any = "record") -> None:
        """`pay`, under the name that a `Budget` has."""
        if adjacency is not self.adjacency:
            raise AssertionError(f"a fit under {self.adjacency} pays under {adjacency}")
        self.pay(event, purpose)

    @property
    def is_untouched(self) -> bool:
        return not self._events

    @property
    def event(self) -> Event:
        return self._events[0] if len(self._events) == 1 else Composed(events=tuple(self._events))

    def guarantee(self, proved: Guarantee | None = None) -> Guarantee:
        """The sentence about everything that was paid.

        Args:
            proved: about the only event there is, by the method that released it.
        """
        epsilon, lower, accountant = self.epsilon, 0.0, "basic composition"
        said: tuple[str, ...] = ()
        if proved is not None and len(self._events) == 1:
            epsilon, lower, accountant = proved.epsilon, proved.epsilon_lower, proved.accountant
        elif self.delta > 0:
            cost, is_exact = self._settle()
            epsilon, lower, accountant = cost.upper, cost.lower, cost.accountant
            said = () if is_exact else (NEARLY_EXACT,)
        more = () if proved is None else proved.assumptions
        assumptions = tuple(dict.fromkeys([*more, *self.assumptions, *said]))
        self._tell(assumptions)
        return Guarantee(
            epsilon=epsilon,
            epsilon_lower=lower,
            delta=self.delta,
            adjacency=self.adjacency,
            accountant=accountant,
            assumptions=assumptions,
        )

    def _settle(self) -> SettledCost:
        """The cost by the accountants, or the whole budget where they say more than its shares add up to."""
        near = Neighbours(self.adjacency)

        def price(left: float) -> Cost:
            cost = tight(self.event, left, self.adjacency)
            upper = min(cost.upper, upper_bound(self.event, left, near))
            return cost._replace(lower=min(cost.lower, upper), upper=upper)

        found = settle(self.event, self.delta, near, price=price)
        if found.cost.upper <= self.epsilon or not self.is_basic:
            return found
        is_void = not is_paid(self.epsilon, self.delta) and has_visible_ends(self.event, self.delta, near)
        # Shares that use up delta leave nothing for samplers.
        return SettledCost(Cost(0.0, math.inf if is_void else self.epsilon, "basic composition"), is_void)

    def _tell(self, assumptions: Iterable[str]) -> None:
        """Tells a shared budget what this fit assumes: its guarantee covers all fits."""
        if isinstance(self._budget, SharedBudget):
            self._budget.assume(assumptions)


class Quoted(Exception):
    """The price of a fit: raised where it would have been paid."""

    def __init__(self, event: Event) -> None:
        super().__init__(event)
        self.event = event


class QuotingBudget:
    """A budget that pays nothing: charging it raises `Quoted` with the event."""

    def charge(self, event: Event, **terms: Any) -> None:
        raise Quoted(event)

    def __sklearn_clone__(self) -> QuotingBudget:
        return self


def quote_cost(fit: Callable[[QuotingBudget], Any]) -> Event:
    """The cost of a fit: since it pays first, it stops before it computes anything."""
    try:
        fit(QuotingBudget())
    except Quoted as price:
        return price.event
    raise AssertionError("a fit was made before it was paid")


class PrepaidBudget:
    """A budget that has already paid for one kind of event and refuses any other."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def charge(self, event: Event, **terms: Any) -> None:
        if event != self._event:
            raise AssertionError(f"{event} is released, and {self._event} was paid")

    def __sklearn_clone__(self) -> PrepaidBudget:
        return self


def keys_for(random_state: Any, parts: Iterable[Any]) -> Keys:
    """Fresh keys from the operating system, or seeded ones that no other fit shares.

    A seed alone would give two fits on different data the same noise, which their difference would cancel.
    So a seeded fit draws its noise from the seed, the data and the settings together: only the very same
    fit draws the same noise.
    """
    seed = seed_of(random_state)
    if seed is None:
        return Keys.from_os()
    digest = hashlib.blake2b(str(seed).encode(), digest_size=16)
    for part in parts:
        digest.update(b"|")
        for piece in _pieces(part):
            digest.update(piece)
    return Keys.seeded(int.from_bytes(digest.digest(), "big"))


def seed_of(random_state: Any, *more: int) -> int | None:
    """A seed from `random_state`; None for the operating system's randomness."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    checks.count(minimum=0, random_state=random_state)
    if not more:
        return int(random_state)
    digest = hashlib.blake2b(repr((int(random_state), *more)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _pieces(part: Any) -> Iterable[bytes | memoryview]:
    if sparse.issparse(part):
        rows = part.tocsr()
        return [_bytes_of(array) for array in (rows.data, rows.indices, rows.indptr)]
    if isinstance(part, np.ndarray) and part.dtype != object:
        return [str(part.shape).encode(), _bytes_of(part)]
    if isinstance(part, np.ndarray):
        return [repr(part.tolist()).encode()]
    return [repr(part).encode()]


def _bytes_of(array: np.ndarray) -> bytes | memoryview:
    """What `tobytes` gives, mostly without a copy."""
    whole = np.ascontiguousarray(array)
    return whole.reshape(-1).view(np.uint8).data if whole.nbytes else b""


def check_budget(budget: Any) -> None:
    if budget is not None and not callable(getattr(budget, "charge", None)):
        raise InvalidArgument(
            f"budget must be something that can be charged, got {type(budget).__name__}.",
            remedy="Pass ledger.for_dataset(NAME), or SharedBudget(epsilon=..., delta=...).",
        )
