"""Who is in a round of a real deployment: drawn as in the simulator, written down, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from reticent.core.errors import Unproven
from reticent.core.keys import Keys, Stream
from reticent.data.cyclic import participation_of
from reticent.data.sampling import Batch
from reticent.federated.journal import Journal
from reticent.federated.plan import FederatedPlan
from reticent.noise.participation import Participation
from reticent.training.devices.mesh import without_empty
from reticent.training.places import places_for, require_declared


class Drawn(NamedTuple):
    """The clients of a round.

    Args:
        batch: slots of the sum, and which of them somebody is asked for.
        units: the place in the list of clients of whoever has a slot.
    """

    batch: Batch
    units: Mapping[int, int]


class Schedule:
    """Draws the clients of each round among all that are registered, connected or not.

    A client whose coin says yes is in the round, and adds zero where it cannot be reached: who is connected
    decides nothing, so coins are as good as in the simulator.
    """

    def __init__(self, plan: FederatedPlan, journal: Journal, keys: Keys) -> None:
        self._plan, self._journal, self._keys = plan.server, journal, keys
        require_declared(plan.server, len(journal.clients))
        self._places = places_for(plan.server, len(journal.clients), keys.place_key())
        self._declared = _declared(plan)

    def draw(self, number: int) -> Drawn:
        """
        Raises:
            DataError: a client would be in more rounds, or sooner again, than the event of the plan counts.
        """
        steps = range(number, number + 1)
        root = self._keys.take(Stream.SAMPLING, steps=steps)
        drawn = self._plan.sampler.draw(root, jnp.asarray(list(steps), jnp.int32), self._places.total)
        batch = Batch(drawn.indices[0], drawn.is_real[0])
        is_taken = jnp.asarray(self._places.is_taken())
        batch = without_empty(batch, None if len(self._places.of_units) == self._places.total else is_taken)
        unit_at = self._places.unit_at()[np.asarray(batch.indices)]
        is_real = np.asarray(batch.is_real)
        units = {slot: int(unit_at[slot]) for slot in np.flatnonzero(is_real).tolist()}
        if self._declared is not None:
            self._journal.require_covered(self._declared, number, set(units.values()))
        self._journal.note(number, asked=units.values())
        return Drawn(batch, units)


def _declared(plan: FederatedPlan) -> Participation | None:
    """How often a client may take part; None where coins decide and any number of rounds is paid for."""
    try:
        return participation_of(plan.server.sampler, plan.rounds)
    except Unproven:
        return None
