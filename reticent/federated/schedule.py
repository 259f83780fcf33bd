"""Who is in a round of a real deployment: drawn as in the simulator, written down, and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from reticent.core.errors import IntegrityError, Unproven
from reticent.core.keys import Keys, Stream
from reticent.data.cyclic import CyclicPoisson, participation_of
from reticent.data.limited import Limited
from reticent.data.sampling import Batch
from reticent.federated.journal import Journal
from reticent.federated.plan import FederatedPlan
from reticent.mechanisms.adjacency import Adjacency
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
        self._declared = _declared_turns(plan)
        self._limited = plan.server.sampler if isinstance(plan.server.sampler, Limited) else None

    def require_known(self, rounds: int) -> None:
        """
        Raises:
            IntegrityError: the journal does not say who was in the rounds so far, and the plan limits them.
        """
        missing = [at for at in range(rounds) if at not in self._journal.entries]
        if self._declared is not None and missing:
            raise IntegrityError(
                f"The journal does not say who was in round {missing[0]}, and the plan limits how often a "
                "client takes part.",
                remedy="Restore private/journal.json, or start a new run in another folder.",
            )

    def draw(self, number: int, there: Collection[str] | None = None) -> Drawn:
        """
        Args:
            there: the clients that can be reached; it matters only for `rt.data.Limited`.

        Raises:
            DataError: a client would be in more rounds, or sooner again, than the event of the plan counts.
        """
        batch, units = self._taking_turns(number, there) if self._limited else self._by_coins(number)
        if self._declared is not None:
            self._journal.require_covered(self._declared, number, set(units.values()))
        self._journal.note(number, asked=units.values())
        return Drawn(batch, units)

    def _taking_turns(self, number: int, there: Collection[str] | None) -> tuple[Batch, dict[int, int]]:
        """Draws, of the clients that can be reached, those that waited longest."""
        assert self._limited is not None
        names = self._journal.clients
        earlier = {
            unit: [at for at in rounds if at < number]
            for unit, rounds in self._journal.rounds_of_clients().items()
        }
        reached = [unit for unit, name in enumerate(names) if there is None or name in there]
        units = dict(enumerate(self._limited.choose(number, earlier, reached)))
        indices = np.zeros(self._limited.capacity, np.int32)
        indices[: len(units)] = list(units.values())
        return Batch(jnp.asarray(indices), jnp.arange(self._limited.capacity) < len(units)), units

    def _by_coins(self, number: int) -> tuple[Batch, dict[int, int]]:
        """As in the simulator, whoever can be reached."""
        steps = range(number, number + 1)
        root = self._keys.take(Stream.SAMPLING, steps=steps)
        drawn = self._plan.sampler.draw(root, jnp.asarray(list(steps), jnp.int32), self._places.total)
        batch = Batch(drawn.indices[0], drawn.is_real[0])
        is_taken = jnp.asarray(self._places.is_taken())
        batch = without_empty(batch, None if len(self._places.of_units) == self._places.total else is_taken)
        unit_at = self._places.unit_at()[np.asarray(batch.indices)]
        is_real = np.asarray(batch.is_real)
        return batch, {slot: int(unit_at[slot]) for slot in np.flatnonzero(is_real).tolist()}


def _declared_turns(plan: FederatedPlan) -> Participation | None:
    """How often a client may take part; None where coins decide and any number of rounds is paid for."""
    server = plan.server
    try:
        found = participation_of(server.sampler, plan.rounds)
    except Unproven:
        return None
    if isinstance(server.sampler, CyclicPoisson) and server.adjacency is Adjacency.ADD_OR_REMOVE:
        # A server that was started again has its clients in other parts, and begins with the first of them.
        return Participation(times=found.times)
    return found
