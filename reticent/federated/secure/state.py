"""What a server of secure rounds keeps: the round that comes next, the model, and that it was paid for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import optax

from reticent.accounting.budget import Budget
from reticent.core.files import digest_of
from reticent.core.trees import ArrayTree
from reticent.federated.kept_by_one import KeptByOne
from reticent.federated.secure.plan import SecurePlan
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.training.checkpoint import Checkpoints
from reticent.training.payment import pay_once
from reticent.training.step import TrainState


class _Price(NamedTuple):
    event: Event
    adjacency: Adjacency = Adjacency.ZERO_OUT
    unit: str = "user"


class SecureState:
    """A folder of one server, or nowhere."""

    def __init__(self, folder: Path | str | None, digest: str) -> None:
        self._checkpoints, self._alone = None, None
        if folder is not None:
            private = Path(folder) / "private"
            private.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = Path(folder) / "checkpoint"
            self._checkpoints = Checkpoints(path=path, history=private / "payments.json", seconds=0)
            self._checkpoints.belong_to(f"secure rounds of {digest}")
            self._alone = KeptByOne(path)

    def load(self, params: ArrayTree, optimizer: optax.GradientTransformation) -> TrainState:
        fresh = TrainState(jnp.int32(0), params, optimizer.init(params), jnp.float32(0), average=params)
        saved = None if self._checkpoints is None else self._checkpoints.load(fresh)
        return fresh if saved is None else saved

    def pay(self, budget: Budget, plan: SecurePlan, clients: Sequence[str]) -> None:
        """Charges the whole plan, unless this run was paid for from this account."""
        named = (digest_of(json.dumps(sorted(clients)).encode()), "")
        pay_once(budget, _Price(plan.event), named, self._checkpoints)

    def save(self, state: TrainState) -> None:
        """
        Raises:
            IntegrityError: another server takes the rounds of this folder.
        """
        if self._checkpoints is not None and self._alone is not None:
            with self._alone.writing():
                self._checkpoints.save(state, force=True)
