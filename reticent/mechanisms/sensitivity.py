"""A sum over records that knows how far one record can move it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from reticent.core import checks
from reticent.mechanisms.adjacency import Adjacency

Norm = Literal["l1", "l2"]


@dataclass(frozen=True, kw_only=True)
class BoundedSum:
    """A tree of arrays, the sum of one contribution per record, each of norm at most `max_norm`.

    Whoever makes one has clipped the contributions (or proved the bound); whoever adds noise reads
    the bound from here. The two cannot disagree.
    """

    value: Any
    max_norm: float
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        checks.positive(max_norm=self.max_norm)
        checks.one_of(("l1", "l2"), norm=self.norm)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """How far the sum moves between neighbours, in its norm.

        Example:
            >>> BoundedSum(value=0.0, max_norm=1.0).sensitivity(Adjacency.REPLACE)
            2.0
        """
        return adjacency.reach * self.max_norm
