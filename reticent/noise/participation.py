"""How often a record takes part in a run, and how far apart: what a sensitivity rests on."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.core import checks
from reticent.core.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True)
class Participation:
    """The steps that one record may contribute to.

    Args:
        times: the most steps.
        separation: the least distance of two of them: a record of step 3 is back in step 3 + separation at
            the earliest.
        is_cyclic: whether the distance is always `separation`, as when records come in a fixed order.

    Example:
        >>> Participation(times=4, separation=10)
        Participation(times=4, separation=10, is_cyclic=False)
        >>> Participation(times=1, separation=0)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: separation must be a whole number of at least 1, got 0. ...
    """

    times: int
    separation: int = 1
    is_cyclic: bool = False

    def __post_init__(self) -> None:
        checks.count(times=self.times, separation=self.separation)

    @classmethod
    def cyclic(cls, steps: int, parts: int) -> Participation:
        """The participation of records in a fixed order, divided into `parts`, one for each step in turn.

        Example:
            >>> Participation.cyclic(steps=16, parts=5).times
            4
        """
        checks.count(steps=steps, parts=parts)
        return cls(times=-(-steps // parts), separation=parts, is_cyclic=True)

    def within(self, steps: int) -> Participation:
        """The same in a run of so many steps, in which a record fits a limited number of times."""
        most = -(-steps // self.separation)
        return Participation(
            times=max(min(self.times, most), 1), separation=self.separation, is_cyclic=self.is_cyclic
        )

    def require_covers(self, drawn: Participation) -> None:
        """
        Raises:
            InvalidArgument: the schedule `drawn` lets a record take part more often, or sooner again.
        """
        is_covered = drawn.times <= self.times and (drawn.separation >= self.separation or drawn.times == 1)
        if self.is_cyclic and not (drawn.is_cyclic and drawn.separation == self.separation):
            is_covered = is_covered and drawn.times == 1
        if not is_covered:
            raise InvalidArgument(
                f"The batches break the declared participation: {drawn.in_words}, and declared is "
                f"{self.in_words}.",
                remedy="Declare what the batches do, take fewer steps, or choose another sampling.",
            )

    @property
    def in_words(self) -> str:
        if self.times == 1:
            return "a record takes part once"
        apart = "always" if self.is_cyclic else "at least"
        return f"a record takes part at most {self.times} times, {apart} {self.separation} steps apart"
