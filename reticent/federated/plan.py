"""The publishable recipe of private federated learning: who takes part in a round, and what leaves it.

A round is one noisy sum of clipped updates, and a unit is a client with all its rows. So the cost of a
federated plan is that of the `rt.Plan` inside it, whose batches are clients and whose steps are rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.accounting.guarantee import Guarantee
from reticent.core.errors import InvalidArgument
from reticent.core.html_summary import html_table
from reticent.data.sampling import Sampler
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.training.local_training import LocalTraining, trust_in_server
from reticent.training.plan import AdaptiveNorm, Plan
from reticent.training.plan_checks import SamplingName, plan_in_words
from reticent.training.plan_noise import NoiseChoice


@dataclass(frozen=True, kw_only=True, repr=False)
class FederatedPlan:
    """DP-FedAvg: clients train on their own rows, the server adds up clipped updates and noise.

    Args:
        server: who is in a round, the clipping norm of an update, the noise, the number of rounds.
        local: what a client does in a round.

    Guarantee:
        After the run, or after any of its rounds, the model costs `event`. The unit is a user: one client
        with all its rows. Whoever takes part, the sum is divided by the same public number, has the same
        noise, and no client moves it by more than the clipping norm.

    Example:
        >>> plan = FederatedPlan.for_budget(
        ...     epsilon=4,
        ...     delta=1e-5,
        ...     clients=1000,
        ...     clients_per_round=50,
        ...     rounds=100,
        ...     max_norm=0.5,
        ...     rows_per_client=60,
        ...     local=LocalTraining(learning_rate=0.1, epochs=1, batch_size=20),
        ... )
        >>> plan
        FederatedPlan(Poisson 50 of 1000, 100 rounds, noise 0.9398, clipping 0.5, add-or-remove one user,
        60 rows per user, delta 1e-05, 3 local steps of at most 20 rows)
        >>> plan.guarantee().epsilon <= 4
        True

    Reference:
        McMahan, Ramage, Talwar and Zhang (2018), Algorithm 1, arXiv:1710.06963v3.
    """

    server: Plan
    local: LocalTraining

    def __post_init__(self) -> None:
        if self.server.unit != "user":
            raise InvalidArgument(
                "The plan of a server protects users, that is clients with all their rows.",
                remedy="Pass unit='user' and rows_per_user, or make it with FederatedPlan.for_budget.",
            )

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: float,
        delta: float,
        clients: int | None = None,
        clients_per_round: int | None = None,
        rounds: int | None = None,
        noise_multiplier: float | None = None,
        max_norm: float,
        rows_per_client: int,
        local: LocalTraining,
        sampling: SamplingName | Sampler = "poisson",
        adjacency: Adjacency | None = None,
        adaptive: AdaptiveNorm | None = None,
        beside: Event | None = None,
        noise: NoiseChoice | None = None,
    ) -> FederatedPlan:
        """The plan that spends (epsilon, delta) on so many rounds, or takes as many as its noise allows.

        Args:
            clients: the declared, public number of clients.
            clients_per_round: how many take part on average; the divisor of every sum.
            max_norm: the longest update of one client. With `adaptive`, the first of them.
            rows_per_client: the most rows of a client that are used.
            sampling: `poisson` is a secret coin per client and round: no other sampling here is amplified
                as much. `shuffled` has each client in at most one round of an epoch, `cyclic` in rounds that
                are always so far apart: the server enforces it, and no coins have to be secret.
            beside: another release that the same budget pays for.
            noise: of `rt.noise`, which takes back in a round some of what was added before (DP-FTRL). It goes
                with participation that is limited, such as `cyclic`.

        Raises:
            CannotMeet: no noise, or not even one round, fits the budget.
            Unproven: no theorem covers the sampling.
        """
        server = Plan.for_budget(
            epsilon=epsilon,
            delta=delta,
            examples=clients,
            batch_size=clients_per_round,
            steps=rounds,
            noise_multiplier=noise_multiplier,
            max_norm=max_norm,
            sampling=sampling,
            adjacency=adjacency,
            unit="user",
            rows_per_user=rows_per_client,
            adaptive=adaptive,
            beside=beside,
            noise=noise,
        )
        return cls(server=server, local=local)

    @classmethod
    def without_privacy(
        cls,
        *,
        clients: int | None = None,
        clients_per_round: int | None = None,
        rounds: int,
        max_norm: float,
        rows_per_client: int,
        local: LocalTraining,
        sampling: SamplingName | Sampler = "poisson",
    ) -> FederatedPlan:
        """The same rounds without noise and without any promise: what DP-FedAvg is compared with."""
        server = Plan.without_privacy(
            examples=clients,
            batch_size=clients_per_round,
            steps=rounds,
            max_norm=max_norm,
            sampling=sampling,
            unit="user",
            rows_per_user=rows_per_client,
        )
        return cls(server=server, local=local)

    @property
    def rounds(self) -> int:
        return self.server.steps

    @property
    def clients(self) -> int:
        return self.server.sampler.examples

    @property
    def rows_per_client(self) -> int:
        return self.server.rows_per_user or 1

    @property
    def event(self) -> Event:
        """What the whole run releases."""
        return self.server.event

    @property
    def assumptions(self) -> tuple[str, ...]:
        return *self.server.assumptions, *self.own_assumptions

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What a federated run rests on beside the plan of its server."""
        return trust_in_server(self.server.sampler)

    def guarantee(self, *, beside: Event | None = None, numbers: int = 0) -> Guarantee:
        """What the run promises.

        Args:
            numbers: how many parameters each round adds noise to; see `rt.Plan.guarantee`.
        """
        return self.server.guarantee(assumptions=self.own_assumptions, beside=beside, numbers=numbers)

    def epsilon_after(self, rounds: int) -> float:
        """An upper bound on what the first `rounds` rounds cost."""
        return self.server.epsilon_after(rounds)

    def __repr__(self) -> str:
        return f"FederatedPlan({', '.join(value for _, value in self._in_words())})"

    def _repr_html_(self) -> str:
        return html_table("Federated plan", self._in_words())

    def _in_words(self) -> list[tuple[str, str]]:
        steps, rows = (
            self.local.steps_for(self.rows_per_client),
            self.local.rows_per_step(self.rows_per_client),
        )
        said: list[tuple[str, Any]] = [
            (name, value.replace("steps", "rounds") if name == "length" else value)
            for name, value in plan_in_words(self.server)
        ]
        many = "step" if steps == 1 else "steps"
        return [*said, ("local", f"{steps} local {many} of at most {rows} rows")]
