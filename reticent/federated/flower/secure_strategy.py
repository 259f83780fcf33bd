"""A server that learns a sum with noise in every round, and no single update."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee
from reticent.core import trees
from reticent.core.errors import InvalidArgument, ReticentError, Unavailable
from reticent.core.trees import ArrayTree
from reticent.federated.flower.library import MODEL, app
from reticent.federated.flower.messages import from_record, to_record
from reticent.federated.flower.registry import Registry, reason_of
from reticent.federated.flower.secure_messages import (
    KEYS,
    MASKED,
    NUMBERS,
    REVEAL,
    SAID,
    SHARES,
    by_place,
    columns_of,
    columns_of_keys,
    keys_in,
    revealed_in,
    said_in,
)
from reticent.federated.journal import require_names
from reticent.federated.rounds import ONE_CLIENT_EACH
from reticent.federated.secure.plan import SecurePlan
from reticent.federated.secure.protocol import Revealed, Server
from reticent.federated.secure.state import SecureState

_LOG = logging.getLogger("reticent.federated")
_REMEMBERED = 1000


class SecureRun(NamedTuple):
    """A model, and what it promises of every client against the server as well."""

    params: Any
    guarantee: Guarantee


class SecureStrategy:
    """Rounds of secure aggregation over a Flower grid, whose clients are `secure_client_app`.

    Args:
        clients: the registered names, as many as `plan.shares.clients`; all are asked in every round.
        folder: where the run is kept; a server that is started again there continues with the next round. The
            one in which it was killed is lost: clients have counted it.
        optimizer, budget, timeout: as for `PrivateStrategy`.

    Guarantee:
        Of every client the server sees `plan.event`, under `plan.shares.assumptions`. The sum is divided by
        the declared number of clients, whoever finished.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nobody was asked.
    """

    def __init__(
        self,
        plan: SecurePlan,
        params: ArrayTree,
        *,
        delta: float,
        clients: Sequence[str],
        optimizer: optax.GradientTransformation | None = None,
        budget: Budget | None = None,
        timeout: float = 600.0,
        folder: Path | str | None = None,
    ) -> None:
        require_names(tuple(clients))
        if len(clients) != plan.shares.clients:
            raise InvalidArgument(
                f"The noise is made for {plan.shares.clients} clients, and {len(clients)} are registered.",
                remedy="Make the plan for as many.",
            )
        self.plan, self.left_out = plan, []
        params = jax.tree.map(jnp.asarray, params)
        self._guarantee = plan.guarantee(delta=delta, numbers=trees.size(params))
        self._places = {name: place for place, name in enumerate(clients, start=1)}
        self._optimizer = optax.sgd(1.0) if optimizer is None else optimizer
        self._kept = SecureState(folder, plan.digest)
        self._state = self._kept.load(params, self._optimizer)
        self._timeout = timeout
        self._registry = Registry(clients, self._tell)
        if budget is not None:
            self._kept.pay(budget, plan, clients)
        self._kept.save(self._state)

    @property
    def params(self) -> Any:
        """The model of the last round that was not lost: it may be shown to anybody."""
        return self._state.params

    def start(self, grid: Any) -> SecureRun:
        """Takes all rounds. One in which too few clients finish is lost: nothing of it is known.

        Raises:
            Unavailable: too few clients finished in any round.
        """
        lost, first = 0, int(self._state.step)
        for number in range(first, self.plan.rounds):
            self._state = self._state._replace(step=jnp.int32(number + 1))
            self._kept.save(self._state)  # begun is taken: clients count it, whatever becomes of it
            try:
                total = self._one_round(grid, f"{self.plan.digest} round {number}")
            except ReticentError as error:
                self._tell(f"Round {number} was lost: {error}")
                lost += 1
                continue
            mean, unravel = jnp.asarray(total / self.plan.shares.clients), ravel_pytree(self.params)[1]
            update = unravel(-mean.astype(ravel_pytree(self.params)[0].dtype))
            change, opt_state = self._optimizer.update(update, self._state.opt_state, self.params)
            moved = optax.apply_updates(self.params, change)
            self._state = self._state._replace(params=moved, opt_state=opt_state)
            self._kept.save(self._state)
        if lost and lost == self.plan.rounds - first:
            raise Unavailable(
                f"All {lost} rounds were lost: fewer than {self.plan.shares.least} clients finished.",
                remedy=f"Wait for more clients. {self.left_out[-1]}",
            )
        said = (*self._guarantee.assumptions, ONE_CLIENT_EACH)
        return SecureRun(self.params, dataclasses.replace(self._guarantee, assumptions=said))

    def _one_round(self, grid: Any, name: str) -> np.ndarray:
        """The four messages of a round; see `reticent.federated.secure.protocol`."""
        self._registry.refresh(grid, self._timeout)
        numbers = trees.size(self.params)
        server = Server(name, threshold=self.plan.shares.least, numbers=numbers)
        there = {self._places[client]: node for client, node in self._registry.nodes.items()}
        hello = {"round": name, "plan": self.plan.digest}

        def take_keys(place: int, reply: Any) -> None:
            server.take_keys(place, keys_in(said_in(reply))[place])

        self._ask(grid, KEYS, {place: {**hello, "place": place} for place in there}, there, take_keys)
        sent: dict[int, dict[int, bytes]] = {}

        def take_shares(place: int, reply: Any) -> None:
            sealed = by_place(said_in(reply), "sealed")
            if set(sealed) != server.keys.keys() - {place}:
                raise InvalidArgument(
                    "A client shared with others than it was told.", remedy="It is left out."
                )
            sent[place] = {peer: text for peer, (text,) in sealed.items()}

        self._ask(
            grid, SHARES, {place: columns_of_keys(server.keys) for place in server.keys}, there, take_shares
        )
        like = {"numbers": np.zeros(numbers, "<u4")}

        def take_masked(place: int, reply: Any) -> None:
            record = reply.content.array_records[NUMBERS]
            found = from_record({"0000 numbers": record["numbers"]}, like, f"Client at place {place}")
            server.take_masked(place, found["numbers"].astype(np.uint32))

        inboxes = {place: server.inbox(sent, place) for place in sent}
        columns = {
            place: columns_of({peer: (text,) for peer, text in inbox.items()}, "sealed")
            for place, inbox in inboxes.items()
        }
        self._ask(grid, MASKED, columns, there, take_masked, model=to_record(self.params))
        told: dict[int, Revealed] = {}

        def take_told(place: int, reply: Any) -> None:
            told[place] = revealed_in(said_in(reply))

        finished = sorted(server.finished)
        self._ask(grid, REVEAL, {place: {"finished": finished} for place in finished}, there, take_told)
        return self.plan.shares.decode(server.open(told))

    def _ask(
        self,
        grid: Any,
        kind: str,
        words: Mapping[int, Mapping[str, Any]],
        there: Mapping[int, int],
        take: Callable[[int, Any], None],
        model: Any = None,
    ) -> None:
        """Sends a message to each place and takes what comes back; what does not fit is left out."""
        arrays = {} if model is None else {MODEL: model}
        messages = [
            app.Message(
                app.RecordDict({SAID: app.ConfigRecord(dict(said)), **arrays}),
                dst_node_id=there[place],
                message_type=kind,
                ttl=self._timeout,
            )
            for place, said in words.items()
        ]
        place_of = {node: place for place, node in there.items()}
        for reply in grid.send_and_receive(messages, timeout=self._timeout) if messages else ():
            place = place_of.get(reply.metadata.src_node_id)
            if place is None or place not in words:
                self._tell(f"Node {reply.metadata.src_node_id} was not asked.")
            elif reply.has_error():
                self._tell(f"The client at place {place} failed: {reason_of(reply)}.")
            else:
                try:
                    take(place, reply)
                except (ReticentError, KeyError, TypeError, ValueError) as error:
                    self._tell(f"The client at place {place} was left out: {error}")

    def _tell(self, sentence: str) -> None:
        _LOG.warning("%s", sentence)
        self.left_out = [*self.left_out, sentence][-_REMEMBERED:]
