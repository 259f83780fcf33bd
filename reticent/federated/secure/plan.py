"""A plan for a server that is not trusted with updates: every client adds noise in every round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from reticent.accounting.guarantee import Guarantee
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.files import digest_of
from reticent.federated.secure.shares import NoiseShares
from reticent.mechanisms.events import Event
from reticent.training.local_training import LocalTraining


@dataclass(frozen=True, kw_only=True)
class SecurePlan:
    """All registered clients in every round, each with its share of the noise.

    Args:
        shares: how updates are clipped and rounded, and who adds how much noise.
        rounds: that a client takes part in, those that are lost for too few clients among them.
        local: what a client does in a round.

    Example:
        >>> shares = NoiseShares(clients=100, least=67, colluding=10, noise_multiplier=8.0, max_norm=0.5)
        >>> plan = SecurePlan(
        ...     shares=shares, rounds=20, rows_per_client=50, local=LocalTraining(learning_rate=0.1)
        ... )
        >>> plan.guarantee(delta=1e-5, numbers=1000).epsilon < 2.5
        True
    """

    shares: NoiseShares
    rounds: int
    rows_per_client: int
    local: LocalTraining

    def __post_init__(self) -> None:
        checks.count(rounds=self.rounds, rows_per_client=self.rows_per_client)
        if not self.shares.least > self.shares.clients // 2:
            raise InvalidArgument(
                f"Rounds of {self.shares.clients} clients are opened by {self.shares.least}, which is not "
                "more than half of them: every client would refuse.",
                remedy=f"Choose least={self.shares.clients // 2 + 1} or more.",
            )

    @property
    def event(self) -> Event:
        """What the server and everybody else sees of one client."""
        return self.shares.event(rounds=self.rounds)

    @property
    def digest(self) -> str:
        return digest_of(json.dumps(asdict(self), sort_keys=True).encode())

    def guarantee(self, *, delta: float, numbers: int) -> Guarantee:
        return self.shares.guarantee(delta=delta, rounds=self.rounds, numbers=numbers)
