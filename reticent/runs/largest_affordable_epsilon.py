"""Which epsilon a ledger still covers, for somebody whose run was refused."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from reticent.core.errors import ReticentError
from reticent.ledger import cost
from reticent.ledger.accounts import Account
from reticent.mechanisms.events import Event

_PATIENCE = 5.0  # seconds; what was found by then fits, and more might
_PRECISION = 1.03
_LEAST = 1e-3  # of the limit


def affordable(account: Account, price: Callable[[float], Event], refused: float) -> float | None:
    """The largest epsilon found, in two digits, at which the same run fits; None if there is none.

    Each is priced and compared with the limit as it would be if it were asked for.

    Args:
        price: what the run would release if it were asked for with this epsilon.
        refused: an epsilon with which it does not fit.
    """
    left = (1 - min(cost.share(account), 1.0)) * account.limit.epsilon
    low, high, guess = 0.0, refused, min(left, refused)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        tried = _round_down(min(guess, 0.999 * high))
        if tried <= low or tried < _LEAST * account.limit.epsilon:
            break
        low, high = (tried, high) if _fits(account, price, tried) else (low, tried)
        if low and high / low < _PRECISION:
            break
        guess = math.sqrt(low * high) if low else 0.7 * high
    return low or None


def _fits(account: Account, price: Callable[[float], Event], epsilon: float) -> bool:
    try:
        return bool(cost.is_within(account.event(price(epsilon)), account.limit))
    except ReticentError:  # so little that nothing can be learned for it
        return False


def _round_down(value: float) -> float:
    scale = 10.0 ** (1 - math.floor(math.log10(value))) if value > 0 else 1.0
    return float(f"{math.floor(value * scale) / scale:.2g}")
