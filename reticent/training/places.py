"""Where records lie: in more places than there are records, so that one more or less moves no other.

A compiler rounds the last rows of a block in another way than the first, and the rows of a large block in
another way than those of a small one. If records filled a batch one after the other, removing one would move
all behind it, and each of them might be rounded anew: a residual of nearly 0 changes its sign, and a clipped
gradient goes from one end to the other. So records are laid into a public number of places, in a secret
order, and batches are drawn from the places. An empty place is drawn like any other, and adds nothing.

Guarantee:
    Let D' be D with one record more. A uniformly random way of laying the records of D', restricted to D, is
    a uniformly random way of laying those of D; the place of the new one is then empty. So for every way of
    laying D, every draw of places and every place of the new record, the two runs work on the same rows in
    the same slots of the same blocks, but for the slots of that one place. Ways and draws are independent of
    the data, and hockey-stick divergences are jointly convex: what holds for each pair holds for the runs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from reticent.core.errors import DataError
from reticent.core.generators import generator_of
from reticent.data.allocation import fresh_step_of
from reticent.data.cyclic import Cyclic, CyclicPoisson
from reticent.data.sampling import Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.plan import Plan

ROUNDED_ALIKE = (
    "a record is rounded the same way at every position in a batch"  # of runs by several processes
)
SAME_ORDER = "the records came in the same order when the run was resumed"


class Places(NamedTuple):
    """A number of places, and which of them units lie in.

    Args:
        total: public, like the declared number that it is made from.
        of_units: the place of each unit. Secret.
    """

    total: int
    of_units: np.ndarray  # (units,) int32

    def lay(self, rows: np.ndarray) -> np.ndarray:
        """The rows at their places: (units, ...) -> (total, ...); nobody's are zeros."""
        found = np.zeros((self.total, *rows.shape[1:]), rows.dtype)
        found[self.of_units] = rows
        return found

    def is_taken(self) -> np.ndarray:
        """Which places have a unit: (total,) bool."""
        found = np.zeros(self.total, bool)
        found[self.of_units] = True
        return found

    def unit_at(self) -> np.ndarray:
        """The unit of each place, -1 where there is none: (total,) int32."""
        found = np.full(self.total, -1, np.int32)
        found[self.of_units] = np.arange(len(self.of_units), dtype=np.int32)
        return found


def place_count(plan: Plan, units: int) -> int:
    """How many places a run has.

    As many as there are units where a neighbour has as many, too, and where more were brought than there is
    room for: that is an error a moment later.
    """
    if plan.adjacency is not Adjacency.ADD_OR_REMOVE:
        return units
    return max(plan.sampler.examples + plan.sampler.allowed_difference, units)


def places_for(plan: Plan, units: int, key: jax.Array) -> Places:
    """Every unit in a place of its own, all ways alike; in order where a neighbour has as many units.

    Example:
        >>> from reticent.core.keys import Keys
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=100, batch_size=10, steps=2, max_norm=1.0
        ... )
        >>> places = places_for(plan, 100, Keys.seeded(0).place_key())
        >>> len(set(places.of_units.tolist())), places.total > 100
        (100, True)
    """
    total = place_count(plan, units)
    if plan.adjacency is not Adjacency.ADD_OR_REMOVE:
        return in_order(units)
    return lay(units, total, key)


def lay(units: int, total: int, key: jax.Array) -> Places:
    """Every unit in a place of its own, all ways alike."""
    order = generator_of(key).permutation(np.arange(max(total, units), dtype=np.int32))
    return Places(len(order), order[:units])


def in_order(units: int) -> Places:
    """Units in as many places, one after the other."""
    return Places(units, np.arange(units, dtype=np.int32))


def has_turns(plan: Plan) -> bool:
    """Whether a record's place in the data decides when it takes part: then their order has to stay."""
    is_in_order = plan.adjacency is not Adjacency.ADD_OR_REMOVE
    return is_in_order and isinstance(plan.sampler, Shuffled | Cyclic | CyclicPoisson)


def first_fresh_step(plan: Plan, step: int) -> int:
    """From which step on a run may be resumed with other keys.

    The steps of a round of random allocation are drawn together. And records that are laid anew are in
    other parts of those that take turns: one whose turn was just over could have the next as well, and a turn
    more than the event counts. What is left of the round, or of the turns, is not taken.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=1, delta=1e-5, examples=100, sampling="full", steps=9, max_norm=1
        ... )
        >>> first_fresh_step(plan, 5)
        5
    """
    sampler = plan.sampler
    if isinstance(sampler, CyclicPoisson) and plan.adjacency is Adjacency.ADD_OR_REMOVE:
        return min(sampler.first_fresh_turn(step), plan.steps)
    return min(fresh_step_of(sampler, step), plan.steps)


def require_declared(plan: Plan, units: int) -> None:
    """Refuses more units than the plan was made for.

    Of fewer rows than were declared each is in a batch as often as the plan says, so they are refused only
    where the sampler needs the exact number: an error would tell how many there are, and which rows were
    held out by coins is nobody's business.

    Raises:
        DataError: with both numbers.
    """
    declared, allowed = plan.sampler.examples, plan.sampler.allowed_difference
    if not (units <= declared + allowed) or (allowed == 0 and units != declared):
        what = "examples" if plan.unit == "record" else "users"
        raise DataError(
            f"The plan was made for {declared} {what} and the data have {units}.",
            remedy="Make the plan with the public size of this dataset.",
        )
