"""Client canaries: made-up clients, in by a fair coin each, that audit what a plan claims for a user.

A canary sends the longest update that there is, in a parameter that is its own and that no other client
moves. What becomes of that parameter is a score; whoever tells from all scores which canaries were in, better
than epsilon allows, has contradicted the plan.

Reference:
    Andrew, Kairouz, Oh, Oprea, McMahan and Suriyakumar (2024), arXiv:2302.03098v5, with canaries apart from
    the model; the bound is that of Steinke, Nasr and Jagielski (2023), arXiv:2305.08846.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.audit.bounds import one_run
from reticent.audit.evidence import Evidence
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset
from reticent.federated.plan import FederatedPlan
from reticent.federated.simulator import train
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.data_warnings import UnreleasedWarning
from reticent.training.execution import Execution
from reticent.training.loop import Run
from reticent.training.loss_keys import AnyLoss

_COLUMN = "reticent canary"
_LONGER = 2.0  # than the norm: what is left is the norm, whatever rounds
_THREAT = "made-up clients, each with a parameter of its own, and the last model"


class ClientAudit(NamedTuple):
    """What an audit with made-up clients found.

    Args:
        evidence: a lower bound on epsilon.
        claimed: the epsilon of the plan.
        run: the training, canaries included. It is for the audit alone.
    """

    evidence: Evidence
    claimed: float
    run: Run

    @property
    def is_contradicted(self) -> bool:
        return not self.evidence.epsilon <= self.claimed


def audit_clients(
    loss: AnyLoss,
    params: ArrayTree,
    data: Dataset,
    plan: FederatedPlan,
    *,
    canaries: int = 500,
    confidence: float = 0.95,
    keys: Keys | None = None,
    execution: Execution | None = None,
) -> ClientAudit:
    """Trains as the plan says, with canaries among the clients, and bounds epsilon from below.

    Args:
        plan: with room for the canaries: its declared clients are those of the data and all canaries.
        canaries: each is a client by a fair coin.

    Guarantee:
        If training is (epsilon, delta)-private for a user, the bound exceeds epsilon with probability at
        most 1 - confidence.

    Raises:
        InvalidArgument: the plan has no room, or is not for adding or removing a user.

    Example:
        >>> from reticent.training.local_training import LocalTraining
        >>> plan = FederatedPlan.for_budget(
        ...     epsilon=1,
        ...     delta=1e-5,
        ...     clients=60,
        ...     rounds=2,
        ...     sampling="full",
        ...     max_norm=1.0,
        ...     rows_per_client=1,
        ...     local=LocalTraining(learning_rate=0.1),
        ... )
        >>> rows = Dataset({"x": np.zeros(20, np.float32)}, users=np.arange(20))
        >>> found = audit_clients(lambda w, row: (w - row["x"]) ** 2, np.float32(0), rows, plan, canaries=40)
        >>> found.is_contradicted
        False
    """
    checks.count(minimum=4, canaries=canaries)
    users = _users_of(data)
    _require_room(plan, len(np.unique(users)), canaries)
    words = jax.random.key_data((keys or Keys.from_os()).take(Stream.ATTACKS))
    included = np.random.default_rng(np.asarray(words, np.uint32)).integers(0, 2, canaries).astype(bool)

    def own_loss(both: Any, row: ArrayTree, *key: Any) -> Any:
        return loss(both["model"], {name: row[name] for name in data}, *key)

    def send(update: ArrayTree, both: Any, rows: Any) -> Any:
        place = rows[_COLUMN][0]
        is_canary = place >= 0
        model = jax.tree.map(lambda leaf: jnp.where(is_canary, 0, leaf), update["model"])
        longest = _LONGER * plan.server.clipping.sensitivity
        apart = longest * jax.nn.one_hot(place, canaries, dtype=update["apart"].dtype)  # zeros for -1
        return {"model": model, "apart": apart}

    with warnings.catch_warnings():  # half of the canaries stay away, as they should
        warnings.simplefilter("ignore", UnreleasedWarning)
        run = train(
            own_loss,
            {"model": params, "apart": jnp.zeros(canaries)},
            _with_canaries(data, users, np.flatnonzero(included)),
            plan,
            optimizer=optax.sgd(1.0),
            keys=keys,
            tamper=send,
            execution=execution,
        )
    scores = np.asarray(run.params["apart"], np.float64)
    evidence = one_run(scores, included, delta=plan.server.delta, confidence=confidence, threat=_THREAT)
    return ClientAudit(evidence, plan.guarantee().epsilon, run)


def _require_room(plan: FederatedPlan, clients: int, canaries: int) -> None:
    if plan.server.adjacency is not Adjacency.ADD_OR_REMOVE:
        raise InvalidArgument(
            f"A canary is added by a coin, and this plan is for '{plan.server.adjacency}'.",
            remedy="Audit a plan with sampling='poisson' or 'full'.",
        )
    if not clients + canaries <= plan.clients:
        raise InvalidArgument(
            f"The plan is for {plan.clients} clients, and there are {clients} beside {canaries} canaries.",
            remedy="Make a plan for as many, with the same share of them in a round.",
        )


def _users_of(data: Dataset) -> np.ndarray:
    if data.users is None:
        raise DataError(
            "The rows say of no user whose they are.", remedy="Pass Dataset(arrays, users=clients)."
        )
    return np.asarray(data.users)


def _with_canaries(data: Dataset, users: np.ndarray, places: np.ndarray) -> Dataset:
    """A row for each canary that is in: like the first one, which none of them trains on."""
    arrays = {
        name: np.concatenate(
            [np.asarray(data[name]), np.repeat(np.asarray(data[name])[:1], len(places), axis=0)]
        )
        for name in data
    }
    marks = np.concatenate([np.full(len(users), -1), places]).astype(np.int32)
    _, owners = np.unique(users, return_inverse=True)
    names = np.concatenate([owners, owners.max() + 1 + np.arange(len(places))])
    return Dataset({**arrays, _COLUMN: marks}, users=names)
