"""Public bins: a number becomes one of a few codes, and a code becomes a number again.

Edges come from declared bounds and from nothing else, so two tables with the same domain have the same bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from jaxtyping import Float, Int, Num

from reticent.core import checks

BINS = 32
_WIDE = 1000.0  # bounds that reach this far around zero are taken to be those of a skewed quantity
_NARROWEST = 1e-3  # of the larger bound: where logarithmic bins begin to be of one width


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Half-open intervals between `edges`; with `has_zero`, an exact zero has a code of its own, the last.

    Whole numbers have edges between them, at one half.
    """

    edges: tuple[float, ...]
    is_whole: bool
    has_zero: bool = False
    decimals: int = 0

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + self.has_zero

    def encode(self, numbers: Num[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The code of each number; those outside the bounds are clipped to them."""
        codes = np.searchsorted(np.asarray(self.edges[1:-1]), numbers, side="right")
        return np.where(numbers == 0, len(self.edges) - 1, codes) if self.has_zero else codes

    def decode(
        self, codes: Int[np.ndarray, " rows"], source: np.random.Generator
    ) -> Float[np.ndarray, " rows"]:
        """A number drawn evenly from within each bin: whole, or rounded to the column's decimals."""
        codes = np.asarray(codes)
        edges = np.asarray(self.edges)
        at = np.minimum(codes, len(edges) - 2)
        # Weighted rather than edge + u * width: the width of the widest bounds is not finite.
        u = source.random(len(codes))
        drawn = np.round((1 - u) * edges[at] + u * edges[at + 1], self.decimals)
        unit = 10.0**-self.decimals
        # Rounding may have reached what belongs to the next bin, or to zero.
        drawn = np.where((drawn >= edges[at + 1]) & (at < len(edges) - 2), drawn - unit, drawn)
        if self.has_zero:
            drawn = np.where(drawn == 0, np.where(edges[at + 1] > 0, unit, -unit), drawn)
        low, high = (math.ceil(edges[0]), math.floor(edges[-1])) if self.is_whole else (edges[0], edges[-1])
        return np.where(codes > len(edges) - 2, 0.0, np.clip(np.round(drawn, self.decimals), low, high))


def bins_for(bounds: tuple[float, float], *, is_whole: bool, bins: int = BINS) -> Bins:
    """Bins within declared bounds: at most about `bins`, or one per value if there are fewer values.

    Bounds that reach from about zero to a thousand or beyond are those of money, of counts, of distances:
    such bins widen away from zero by a constant factor, and an exact zero has one of its own.

    >>> bins_for((1, 16), is_whole=True).size
    16
    >>> [round(edge) for edge in bins_for((0, 99_999), is_whole=True, bins=9).edges]
    [0, 94, 262, 626, 1464, 3410, 7936, 18468, 42974, 100000]
    """
    checks.count(bins=bins)
    low, high = float(bounds[0]), float(bounds[1])
    decimals = 0 if is_whole else _decimals(low, high)
    if low == high:
        edges = _whole([low, high]) if is_whole else (low, high)
        return Bins(edges=edges, is_whole=is_whole, decimals=decimals)
    if is_whole and high - low < bins:
        return Bins(edges=tuple(np.arange(low - 0.5, high + 1)), is_whole=True)
    reach = max(abs(low), abs(high))
    if reach >= _WIDE and low <= _NARROWEST * reach and high >= -_NARROWEST * reach:
        unit = _NARROWEST * reach
        edges = unit * np.sinh(np.linspace(np.arcsinh(low / unit), np.arcsinh(high / unit), bins + 1))
        has_zero = low <= 0 <= high
    else:
        edges, has_zero = np.linspace(low, high, bins + 1), False
    edges[0], edges[-1] = low, high
    found = _whole(edges) if is_whole else tuple(np.unique([float(f"{e:.{decimals}f}") for e in edges]))
    has_zero = has_zero and not {-0.5, 0.5} <= set(found)  # it has a bin of its own already
    return Bins(edges=found, is_whole=is_whole, has_zero=has_zero, decimals=decimals)


def _whole(edges: np.ndarray | list[float]) -> tuple[float, ...]:
    """Edges between whole numbers, so that each bin holds at least one."""
    inner = np.floor(np.asarray(edges[1:-1])) + 0.5
    return tuple(np.unique([edges[0] - 0.5, *inner, edges[-1] + 0.5]).tolist())


def _decimals(low: float, high: float) -> int:
    """The number of decimals: those of the bounds, or enough to resolve a ten-thousandth of the range."""
    written = max(-int(Decimal(repr(bound)).normalize().as_tuple().exponent) for bound in (low, high))
    span = high / 2 - low / 2
    fine = math.ceil(-math.log10(span / 5e3)) if span > 0 else 0
    return min(max(written, fine, 0), 12)
