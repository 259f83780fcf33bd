"""What runs on a client: one update from its own rows when it is asked, and its name when it is asked for.

Flower starts a new process for every message. JAX keeps what it compiled in a folder of its owner's, so only
the first message of a client compiles.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reticent.core.errors import DataError, InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.federated.flower.library import MODEL, QUERY, ROUND, TRAIN, UPDATE, WHO, app, clientapp
from reticent.federated.flower.messages import from_record, to_record
from reticent.federated.plan import FederatedPlan
from reticent.federated.rounds import digest_of_plan
from reticent.training.local_training import LocalTraining, client_update
from reticent.training.loss_keys import AnyLoss

OwnRows = Mapping[str, Any]


def client_app(
    loss: AnyLoss,
    params: ArrayTree,
    plan: FederatedPlan,
    *,
    rows: Callable[[Any], OwnRows],
    name: Callable[[Any], str] | None = None,
    compiled: Path | str | None = "~/.cache/reticent/compiled",
) -> Any:
    """A Flower `ClientApp` that trains on its own rows as the plan says.

    Args:
        loss: of the parameters and one row, as in `rt.train`.
        params: a tree with the shapes of the model. Its values do not matter: the server sends those.
        plan: the server's own; a client refuses to follow another one.
        rows: the rows of this client, given Flower's `Context`: a mapping of arrays. No rows is an update of
            zeros.
        name: the registered name of this client, given the `Context`; by default
            `context.node_config["client"]`.
        compiled: the folder where JAX keeps what it compiled; None for none. Nobody else may write there.

    Guarantee:
        A client sends its update and its name, and no metric: a loss or an accuracy would be a release that
        nobody paid for. The server is trusted with the update; see `docs/federated.md`.
    """
    found = clientapp.ClientApp()
    named = name or configured_name
    updated = local_updates(loss, plan.local, compiled)

    @found.query(QUERY.partition(".")[2])
    def say_name(message: Any, context: Any) -> Any:
        return _reply(message, {WHO: app.ConfigRecord({"client": named(context)})})

    @found.train(TRAIN.partition(".")[2])
    def train(message: Any, context: Any) -> Any:
        asked = message.content.config_records[ROUND]
        if asked["plan"] != digest_of_plan(plan):
            raise DataError(
                "The server follows another plan than this client was given.",
                remedy="Install the app of this run on the client.",
            )
        model = from_record(message.content.array_records[MODEL], params, "The server")
        seed = np.array([asked["seed0"], asked["seed1"]], np.uint32)
        try:
            filled, is_real = filled_up(rows(context), plan.rows_per_client)
            update = jax.tree.map(np.asarray, updated(model, filled, is_real, seed))
        except Exception as error:  # Flower sends its text to the server, and keeps it there
            raise DataError(
                f"This client could not train on its rows ({type(error).__name__}).",
                remedy="Its own log says why.",
            ) from error
        said = app.ConfigRecord({"round": asked["round"]})
        return _reply(message, {UPDATE: to_record(update), ROUND: said})

    return found


def _reply(message: Any, records: dict[str, Any]) -> Any:
    return app.Message(app.RecordDict(records), reply_to=message)


def local_updates(loss: AnyLoss, local: LocalTraining, compiled: Path | str | None) -> Callable[..., Any]:
    """The compiled training of a client, made when it is first needed."""
    made: list[Callable[..., Any]] = []

    def updated(*given: Any) -> Any:
        if not made:
            if compiled is not None:
                _keep_compiled(Path(compiled).expanduser())
            made.append(
                jax.jit(
                    lambda model, rows, is_real, seed: client_update(loss, local, model, rows, is_real, seed)[
                        0
                    ]
                )
            )
        return made[0](*given)

    return updated


def _keep_compiled(folder: Path) -> None:
    """Programs are kept from process to process. What lies there is run, so it has to be its owner's alone.

    Raises:
        InvalidArgument: somebody else owns the folder or may write there.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    seen = folder.stat()
    if seen.st_uid != os.getuid() or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidArgument(
            f"Others may write to {folder}, and compiled programs that lie there are run.",
            remedy="Use a folder of your own with mode 700, or pass compiled=None.",
        )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def filled_up(rows: OwnRows, most: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The first rows of a client, filled up to the number that all clients work on."""
    arrays = {key: np.asarray(column)[:most] for key, column in rows.items()}
    counts = {len(column) for column in arrays.values()}
    if len(counts) != 1:
        raise DataError(
            f"The columns of this client have {sorted(counts)} rows.", remedy="Give all the same number."
        )
    count = counts.pop()

    def fill(column: np.ndarray) -> np.ndarray:
        padding = np.zeros((most - count, *column.shape[1:]), column.dtype)
        if count:
            padding[:] = column[0]
        return np.concatenate([column, padding])

    return {key: fill(column) for key, column in arrays.items()}, np.arange(most) < count


def configured_name(context: Any) -> str:
    found = context.node_config.get("client")
    if not (isinstance(found, str) and found):
        raise InvalidArgument(
            "This client has no name.",
            remedy="Start it with flower-supernode --node-config 'client=\"ann\"', or pass name=.",
        )
    return found
