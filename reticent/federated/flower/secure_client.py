"""A client of secure rounds: the server gets its update with noise and masks, and nothing else of it.

A round takes four messages, each perhaps in another process. What a client knows in between lies in Flower's
`Context`, on the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jax.flatten_util import ravel_pytree

from reticent.core import trees
from reticent.core.errors import DataError
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.federated.flower.client import OwnRows, configured_name, filled_up, local_updates
from reticent.federated.flower.library import MODEL, QUERY, WHO, app, clientapp
from reticent.federated.flower.messages import from_record
from reticent.federated.flower.secure_messages import (
    KEYS,
    MASKED,
    NUMBERS,
    REVEAL,
    SAID,
    SHARES,
    STATE,
    by_place,
    columns_of,
    columns_of_keys,
    columns_of_revealed,
    keys_in,
    numbers_record,
    said_in,
)
from reticent.federated.secure.plan import SecurePlan
from reticent.federated.secure.protocol import Client
from reticent.federated.secure.turns import Turns
from reticent.training.loss_keys import AnyLoss

LOG = logging.getLogger("reticent.federated")


def secure_client_app(
    loss: AnyLoss,
    params: ArrayTree,
    plan: SecurePlan,
    *,
    rows: Callable[[Any], OwnRows],
    name: Callable[[Any], str] | None = None,
    compiled: Path | str | None = "~/.cache/reticent/compiled",
    turns: Path | str = "~/.local/state/reticent/rounds",
) -> Any:
    """A Flower `ClientApp` for a server that must not see an update. Arguments as for `client_app`.

    Args:
        turns: a folder of this client's, which says in how many rounds of the plan it was, over all runs.

    Guarantee:
        What this client sends in all rounds costs `plan.event`, under `plan.shares.assumptions`: it clips and
        rounds its update, adds its own share of the noise, and masks the sum. It takes part in no more rounds
        than the plan has, whatever the server asks and however often it starts a run. Rows that cannot be
        read, or trained on, count as none, and the server is told nothing about them: the client's log is.
    """
    found = clientapp.ClientApp()
    updated = local_updates(loss, plan.local, compiled)

    def on(kind: str, answer: Callable[[Any, Any], dict[str, Any]]) -> None:
        @found.train(kind.partition(".")[2])
        def respond(message: Any, context: Any) -> Any:
            return app.Message(app.RecordDict(answer(message, context)), reply_to=message)

    @found.query(QUERY.partition(".")[2])
    def say_name(message: Any, context: Any) -> Any:
        said = app.ConfigRecord({"client": (name or configured_name)(context)})
        return app.Message(app.RecordDict({WHO: said}), reply_to=message)

    def own_update(model: Any, context: Any) -> np.ndarray:
        try:
            filled, is_real = filled_up(rows(context), plan.rows_per_client)
            seed = np.frombuffer(np.random.SeedSequence().generate_state(2).tobytes(), np.uint32)
            return np.asarray(ravel_pytree(updated(model, filled, is_real, seed))[0])
        except Exception:  # what an error says goes to the server
            LOG.exception("This client has no update: it sends zeros with noise")
            return np.zeros(trees.size(params))

    def own_turns(context: Any) -> Turns:
        own = (name or configured_name)(context)
        return Turns(Path(turns).expanduser(), plan=plan.digest, client=own)

    def mask(message: Any, context: Any) -> dict[str, Any]:
        said, client = said_in(message), _client_in(context)
        model = from_record(message.content.array_records[MODEL], params, "The server")
        encoded = plan.shares.encode(own_update(model, context), Keys.from_os(), 0)
        inbox = {peer: sealed for peer, (sealed,) in by_place(said, "sealed").items()}
        own_turns(context).take(client.keys().of_masks, plan.rounds)  # before anything is sent
        numbers = client.mask(encoded, inbox)
        _keep(context, client)
        return {NUMBERS: numbers_record(numbers)}

    on(KEYS, lambda message, context: _begin(message, context, plan))
    on(SHARES, lambda message, context: _share(message, context, plan))
    on(MASKED, mask)
    on(REVEAL, lambda message, context: _reveal(message, context, own_turns(context)))
    return found


def _begin(message: Any, context: Any, plan: SecurePlan) -> dict[str, Any]:
    said = said_in(message)
    if said["plan"] != plan.digest:
        raise DataError(
            "The server follows another plan than this client was given.",
            remedy="Install the app of this run on the client.",
        )
    client = Client(int(said["place"]), str(said["round"]))
    _keep(context, client)
    return {SAID: app.ConfigRecord(columns_of_keys({client.place: client.keys()}))}


def _share(message: Any, context: Any, plan: SecurePlan) -> dict[str, Any]:
    client = _client_in(context)
    sealed = client.shares(keys_in(said_in(message)), plan.shares.least)
    _keep(context, client)
    columns = columns_of({peer: (text,) for peer, text in sealed.items()}, "sealed")
    return {SAID: app.ConfigRecord(columns)}


def _reveal(message: Any, context: Any, turns: Turns) -> dict[str, Any]:
    client = _client_in(context)
    told = client.reveal({int(place) for place in said_in(message)["finished"]})
    turns.tell(client.keys().of_masks)  # two processes that are asked at once know nothing of each other
    _keep(context, client)
    return {SAID: app.ConfigRecord(columns_of_revealed(told))}


def _keep(context: Any, client: Client) -> None:
    context.state[STATE] = app.ConfigRecord({"client": client.pack()})


def _client_in(context: Any) -> Client:
    known = context.state.config_records.get(STATE)
    if known is None:
        raise DataError("No secure round has begun on this client.", remedy="Begin one.")
    return Client.unpack(known["client"])
