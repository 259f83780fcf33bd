"""The server over Flower: sends the model to the clients of a round, and takes what comes back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import optax

from reticent.accounting.budget import Budget
from reticent.core.errors import DataError, Unavailable
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.federated.flower.library import MODEL, ROUND, TRAIN, UPDATE, app, strategies
from reticent.federated.flower.messages import from_record, to_record
from reticent.federated.flower.registry import Registry, reason_of
from reticent.federated.plan import FederatedPlan
from reticent.federated.rounds import OpenRound, Rounds, digest_of_plan
from reticent.training.loop import Run

_LOG = logging.getLogger("reticent.federated")
_PAUSE = 0.5  # seconds between two looks at who is connected
_REMEMBERED = 1000  # sentences about what was left out


class PrivateStrategy(strategies.Strategy):
    """A Flower strategy that follows a `FederatedPlan`: what `rt.federated.train` does, over a network.

    Args:
        params: the first model.
        clients: the registered names, one for each user; coins are tossed for all of them, connected or not.
        folder: where the run is kept; a server that is started again there resumes it.
        timeout: seconds that a round waits for its clients. Who is later adds zero.
        wait_for: so many clients have to be connected before the first round.
        budget, optimizer, keys: as in `rt.federated.train`.

    Guarantee:
        That of `rt.federated.rounds.Rounds`. In it, the server is whoever runs this process and Flower's
        SuperLink: both see who is in a round and what each client sends.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nobody was asked.
    """

    def __init__(
        self,
        plan: FederatedPlan,
        params: ArrayTree,
        *,
        clients: Sequence[str],
        folder: Path | str | None = None,
        optimizer: optax.GradientTransformation | None = None,
        keys: Keys | None = None,
        budget: Budget | None = None,
        timeout: float = 600.0,
        wait_for: int = 1,
    ) -> None:
        given: dict[str, Any] = {"optimizer": optimizer, "keys": keys, "budget": budget, "folder": folder}
        self.rounds = Rounds(plan, params, clients, **given)
        self.left_out: list[str] = []
        self._timeout, self._wait_for = timeout, wait_for
        self._registry = Registry(clients, self._tell)
        self._digest = digest_of_plan(plan)
        self._open: OpenRound | None = None

    def start(self, grid: Any, *given: Any, **more: Any) -> Run:
        """Takes the rounds that are left. The result may be published under its guarantee.

        Raises:
            Unavailable: too few clients were connected in time.
        """
        if given or more:
            raise DataError(
                "This strategy has its model, its rounds and its timeout from its plan.",
                remedy="Call start(grid), and pass the rest to PrivateStrategy.",
            )
        self.summary()
        self._wait(grid)
        while not self.rounds.is_complete:
            messages = self.configure_train(self.rounds.number + 1, None, None, grid)
            replies = list(grid.send_and_receive(messages, timeout=self._timeout)) if messages else []
            self.aggregate_train(self.rounds.number + 1, replies)
        return self.rounds.result()

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """The messages of a round: the model, to those of its clients that are connected."""
        self._registry.refresh(grid, self._timeout)
        nodes, model = self._registry.nodes, to_record(self.rounds.params)
        self._open = self.rounds.begin(nodes)
        return [
            self._asking(self._open, client, nodes[client], model)
            for client in self._open.clients
            if client in nodes
        ]

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, None]:
        """The next model, whoever answered; clients report no metrics."""
        current = self._open
        if current is None:
            raise DataError("No round has begun.", remedy="Call configure_train first.")
        for reply in replies:
            self._take(current, reply)
        self.rounds.finish(current)
        self._open = None
        _LOG.info(
            "round %d of %d: model saved, epsilon so far %.3f",
            self.rounds.number,
            self.rounds.plan.rounds,
            self.rounds.plan.epsilon_after(self.rounds.number),
        )
        return to_record(self.rounds.params), None

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """Nobody is asked: a score that a client reports is a release that nobody paid for."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> None:
        return None

    def summary(self) -> None:
        _LOG.info("%r", self.rounds.plan)

    def _asking(self, current: OpenRound, client: str, node: int, model: Any) -> Any:
        first, second = current.seeds[client]
        said = {"round": current.number, "seed0": first, "seed1": second, "plan": self._digest}
        return app.Message(
            app.RecordDict({MODEL: model, ROUND: app.ConfigRecord(said)}),
            dst_node_id=node,
            message_type=TRAIN,
            group_id=str(current.number),
            ttl=self._timeout,
        )

    def _take(self, current: OpenRound, reply: Any) -> None:
        client = self._registry.client_at(reply.metadata.src_node_id)
        if client is None:
            self._tell(f"Node {reply.metadata.src_node_id} is no registered client. It was left out.")
        elif reply.has_error():
            self._tell_alone(
                f"Client '{client}' failed in round {current.number}: {reason_of(reply)}. It adds zero."
            )
        else:
            try:
                number = reply.content.config_records.get(ROUND, {}).get("round")
                record = reply.content.array_records.get(UPDATE, {})
                update = from_record(record, current.like, f"Client '{client}'")
                current.take(client, update, number=number if type(number) is int else -1)
            except (DataError, AttributeError, TypeError, ValueError) as error:
                self._tell_alone(
                    str(error) if isinstance(error, DataError) else f"Client '{client}' sent nonsense."
                )

    def _wait(self, grid: Any) -> None:
        end = time.monotonic() + self._timeout
        while True:
            self._registry.refresh(grid, self._timeout)
            connected = len(self._registry.nodes)
            if connected >= self._wait_for:
                return
            if not time.monotonic() < end:
                raise Unavailable(
                    f"{connected} registered clients are connected after {self._timeout:g} seconds, and "
                    f"{self._wait_for} are waited for.",
                    remedy="Start more clients, or wait longer: timeout=. What was left out: "
                    f"{'; '.join(self.left_out[-3:]) or 'nobody'}",
                )
            time.sleep(_PAUSE)

    def _tell(self, sentence: str) -> None:
        _LOG.warning("%s", sentence)
        self.left_out = [*self.left_out, sentence][-_REMEMBERED:]

    def _tell_alone(self, sentence: str) -> None:
        """Notes what was left out. Flower streams logs, and who was drawn is secret: no name is logged."""
        _LOG.warning("A message of round %d was left out: see `left_out`.", self.rounds.number)
        self.left_out = [*self.left_out, sentence][-_REMEMBERED:]
