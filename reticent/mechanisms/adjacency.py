"""Which two datasets count as neighbours. Every guarantee names one; two different ones never mix."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Unit = Literal["record", "user"]  # whose privacy is at stake
AdjacencyName = Literal["add-or-remove", "replace", "zero-out"]


class Adjacency(StrEnum):
    """What a neighbouring dataset may do to one record (or to one user's records)."""

    ADD_OR_REMOVE = "add-or-remove"
    REPLACE = "replace"
    ZERO_OUT = "zero-out"

    @property
    def reach(self) -> int:
        """How far a sum moves, in units of the largest contribution of one record.

        Replacing a record removes one contribution and adds another, and the two can point in
        opposite directions: twice the norm of either. Zeroing out only removes.

        Example:
            >>> Adjacency.ADD_OR_REMOVE.reach, Adjacency.REPLACE.reach
            (1, 2)
        """
        return 2 if self is Adjacency.REPLACE else 1

    @property
    def sentence(self) -> str:
        return {
            Adjacency.ADD_OR_REMOVE: "adding or removing one {unit}",
            Adjacency.REPLACE: "replacing one {unit} by another",
            Adjacency.ZERO_OUT: "blanking out one {unit}",
        }[self]
