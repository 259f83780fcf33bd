"""Correlated noise from buffers that decay: a run of any length keeps two words for each buffer and number.

The first coefficients of C are 1, then the sum over buffers of scale * decay^(lag - 1). So what a step takes
back is the sum of scale * B, and B becomes decay * B + w. Buffers are kept in parts of 2^-16, rounded down.
That is off by less than a part per step and buffer; for all steps and numbers together it is a share of the
distance between neighbours, which is set aside where gradients are clipped (`margin`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import trees
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.noise.filters import lfilter
from reticent.noise.optimal_series import quotient
from reticent.noise.strategies import Buffered

_BITS = 16
_LOW = (1 << _BITS) - 1
_MOST_SHIFT = 47
_MOST_MARGIN = 2.0**-4  # of the distance between neighbours


class Factor(NamedTuple):
    """A number m / 2^shift, with m of 8 bits."""

    mantissa: int
    shift: int

    @classmethod
    def of(cls, value: float) -> Factor:
        mantissa, exponent = math.frexp(value)
        whole = mantissa * 2.0**8
        if not (whole == round(whole) and 0 <= 8 - exponent <= _MOST_SHIFT):
            raise InvalidArgument(
                f"{value:g} is not a number of 8 binary digits and at least 2^-39.",
                remedy="Leave out scales and decays: a plan finds them.",
            )
        return cls(int(whole), 8 - exponent)


class Parts(NamedTuple):
    """Numbers as high + low / 2^16, low from 0 to 2^16 - 1: int32 both."""

    high: jax.Array
    low: jax.Array


def stream_of(noise: Buffered, steps: int, reach: float) -> BufferedStream:
    """
    Args:
        reach: the distance between neighbours, in steps of the grid.
    """
    below, above = quotient(np.array(noise.scales), np.array(noise.decays))
    start = np.zeros(steps)
    start[0] = 1.0
    sizes = [
        np.sum(np.abs(lfilter(below, above, start)))
    ]  # of C^-1, and of the filters that lead to the buffers
    for at in range(noise.buffers):
        others = np.atleast_1d(np.poly(np.delete(noise.decays, at)))
        sizes.append(np.sum(np.abs(lfilter(others, above, start))))
    rates = [1 - decay for decay in noise.decays]
    error = sum(
        scale * min(1 / rate, steps) + 1 for scale, rate in zip(noise.scales, rates, strict=True)
    ) / float(1 << _BITS)
    return BufferedStream(
        tuple(map(Factor.of, noise.scales)),
        tuple(map(Factor.of, rates)),
        float(max(sizes)) * (1 + 1e-6),
        error * math.sqrt(steps) / reach,
    )


@dataclass(frozen=True)
class BufferedStream:
    """
    Args:
        rates: 1 less each decay.
        error: what rounding moves all steps of one number apart, over the distance between neighbours.
    """

    scales: tuple[Factor, ...]
    rates: tuple[Factor, ...]
    reach: float
    error: float

    def margin(self, numbers: int) -> float:
        found = self.error * math.sqrt(numbers)
        if not found <= _MOST_MARGIN:
            raise InvalidArgument(
                f"Rounding of the buffers would take {found:.0%} of the clipping norm for {numbers:,} "
                "parameters.",
                remedy="Use rt.noise.banded or rt.noise.toeplitz, which round nothing.",
            )
        return found

    def empty(self, params: ArrayTree) -> Any:
        zeros = jax.tree.map(lambda leaf: jnp.zeros((len(self.scales), *leaf.shape), jnp.int32), params)
        return Parts(zeros, zeros)

    def next(self, memory: Any, at: jax.Array, draws: Any) -> tuple[Any, Any]:
        """The noise of step `at`, and what is kept from then on; see `noise_streams`."""
        kept: Parts = memory.kept
        back = jax.tree.map(self._taken_back, kept.high, kept.low)
        high, low = _pair_of_trees(back)
        # In two roundings: to parts of 2^-8, then to whole numbers.
        middle = jax.tree.map(
            lambda each, chance: (each >> 8) + chance,
            low,
            draws.round(jax.tree.map(lambda each: each & 255, low)),
        )
        chance = draws.round(jax.tree.map(lambda each: each & 255, middle), stage=1)
        whole = jax.tree.map(lambda high, each, chance: high + (each >> 8) + chance, high, middle, chance)
        noise = trees.add(draws.fresh(at), whole)
        moved = jax.tree.map(self._move, kept.high, kept.low, noise)
        return noise, memory._replace(kept=Parts(*_pair_of_trees(moved)))

    def _taken_back(self, high: jax.Array, low: jax.Array) -> Parts:
        """Minus the sum of scale times buffer."""
        shares = [times(Parts(high[at], low[at]), scale) for at, scale in enumerate(self.scales)]
        total = functools.reduce(trees.add, shares)
        return Parts((-total.low >> _BITS) - total.high, -total.low & _LOW)

    def _move(self, high: jax.Array, low: jax.Array, noise: jax.Array) -> Parts:
        moved = []
        for at, rate in enumerate(self.rates):
            loss = times(Parts(high[at], low[at]), rate)
            left = low[at] - loss.low
            moved.append(Parts(high[at] - loss.high + (left >> _BITS) + noise, left & _LOW))
        return Parts(*(jnp.stack(part) for part in zip(*moved, strict=True)))


def times(number: Parts, factor: Factor) -> Parts:
    """The product, rounded down to parts of 2^-16: exact but for that, if it fits."""
    third = (number.high >> _BITS) * factor.mantissa
    second = (number.high & _LOW) * factor.mantissa
    first = number.low * factor.mantissa
    second += first >> _BITS
    third += second >> _BITS
    first, second = first & _LOW, second & _LOW
    words, bits = divmod(factor.shift, _BITS)
    for _ in range(words):
        first, second, third = second, third & _LOW, third >> _BITS
    if bits:
        first = (first >> bits) | ((second << (_BITS - bits)) & _LOW)
        second = (second >> bits) | ((third << (_BITS - bits)) & _LOW)
        third >>= bits
    return Parts((third << _BITS) + second, first)


def _pair_of_trees(pairs: Any) -> tuple[Any, Any]:
    is_pair = lambda leaf: isinstance(leaf, Parts)  # noqa: E731
    return (
        jax.tree.map(lambda pair: pair.high, pairs, is_leaf=is_pair),
        jax.tree.map(lambda pair: pair.low, pairs, is_leaf=is_pair),
    )
