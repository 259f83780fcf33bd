"""Sums over rows whose rounding is known: in blocks, and blocks in pairs.

A sum of m numbers in any order is off by at most about m 2^-53 times the sum of their sizes. With blocks of
256 rows, added up as a tree, m is little more than 256 for any number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

BLOCK = 256  # rows


def over_rows(count: int, of_block: Callable[[slice], Any]) -> Any:
    """The sum of `of_block` over blocks of rows.

    Guarantee:
        Where `of_block` adds up products over its rows, in any order, an entry is off the exact sum by at
        most `roundings(count)` times half a unit in the last place of the sum of the products' sizes.
    """

    def between(first: int, last: int) -> Any:
        if last - first == 1:
            return of_block(slice(first * BLOCK, min(last * BLOCK, count)))
        middle = (first + last) // 2
        return between(first, middle) + between(middle, last)

    return between(0, _blocks(count))


def roundings(count: int) -> int:
    """How often a product that enters the sum is rounded on its way: a block, the tree and itself."""
    return BLOCK + math.ceil(math.log2(_blocks(count))) + 2


def _blocks(count: int) -> int:
    return max(-(-count // BLOCK), 1)
