"""The server's half of federated learning, without a network: who is asked, what is taken, the next model.

    rounds = Rounds(plan, params, clients, folder=Path("server"), budget=budget)
    while not rounds.is_complete:
        current = rounds.begin()
        ...                                     # send rounds.params and current.seeds[client] to each client
        current.take(client, update)            # of those that answer in time
        rounds.finish(current)
    run = rounds.result()

A round is a step of `rt.train` whose batch are updates: clipped, summed, noised and applied by the same code
as in the simulator. `reticent.federated.flower` puts a network in between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.accounting.budget import Budget
from reticent.core import trees
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.files import digest_of
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.trees import ArrayTree
from reticent.data.sampling import Batch
from reticent.federated.aggregation import Aggregation
from reticent.federated.arrivals import leaves_of
from reticent.federated.journal import Journal
from reticent.federated.kept_by_one import KeptByOne
from reticent.federated.plan import FederatedPlan
from reticent.federated.schedule import Schedule
from reticent.training import plan_json
from reticent.training.checkpoint import Checkpoints
from reticent.training.loop import Run
from reticent.training.noise_streams import begin
from reticent.training.payment import pay_once
from reticent.training.places import first_fresh_step
from reticent.training.preconditions import require_gradient_alone, require_kinds
from reticent.training.step import Remembering, Roots, TrainState, safe_state
from reticent.training.step_noise import noise_stream

ONE_CLIENT_EACH = "no user has two of the registered clients"


@dataclass
class OpenRound:
    """A round that has begun: who is asked, and what came so far.

    Args:
        seeds: two words of random bits for each client that is asked.
        slots: where the update of each stands in the sum.
    """

    number: int
    seeds: Mapping[str, tuple[int, int]]
    slots: Mapping[str, int]
    batch: Batch
    like: Any
    updates: dict[str, list[np.ndarray]]
    is_open: bool = True

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.seeds)

    def take(self, client: str, update: Any, *, number: int | None = None) -> None:
        """Takes what a client sent: once, and only from those that were asked.

        What is in it does not matter: an update that is not finite counts as zero, a long one is clipped.

        Args:
            number: of the round that the message says it is for.

        Raises:
            DataError: the message is not of this round, comes a second time, is from nobody who was asked, or
                has another model's shapes. Nothing was added, and the round goes on without it.
        """
        if not self.is_open or (number is not None and number != self.number):
            raise DataError(
                f"A message of client '{client}' is for round {self.number if number is None else number}, "
                "which is over.",
                remedy="It is late or replayed, and was left out.",
            )
        if client not in self.seeds:
            raise DataError(
                f"Client '{client}' was not asked in round {self.number}.",
                remedy="Its message was left out.",
            )
        if client in self.updates:
            raise DataError(
                f"Client '{client}' sent a second update in round {self.number}.",
                remedy="Only the first one counts.",
            )
        self.updates[client] = leaves_of(client, update, self.like)


class Rounds:
    """A server that takes a plan's rounds one after the other, and can be killed at any moment.

    Args:
        params: the first model, any tree of arrays.
        clients: the name of every registered client, one for each user. The order is part of the run.
        optimizer: of the server, as in `rt.federated.train`.
        folder: where checkpoints and the journal are kept; a server that begins again there resumes the run.
        microbatch: how many updates are clipped at once; by default, as many as fit into memory.

    Guarantee:
        All models that are sent or returned cost `plan.event` together, for a user who has one client. They
        are saved before anyone sees them: a server that is killed and begins again neither repeats a round
        with other noise nor forgets one. Noise and divisor are those of the plan, whoever answers.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nobody was asked.

    Example:
        >>> from reticent.training.local_training import LocalTraining
        >>> plan = FederatedPlan.for_budget(
        ...     epsilon=8,
        ...     delta=1e-5,
        ...     clients=3,
        ...     rounds=1,
        ...     sampling="full",
        ...     max_norm=1.0,
        ...     rows_per_client=4,
        ...     local=LocalTraining(learning_rate=0.1),
        ... )
        >>> rounds = Rounds(plan, {"w": jnp.zeros(2)}, ["ann", "bob", "cid"])
        >>> current = rounds.begin()
        >>> sorted(current.clients)
        ['ann', 'bob', 'cid']
        >>> current.take("ann", {"w": np.array([0.3, 0.4], np.float32)})
        >>> rounds.finish(current)
        >>> rounds.is_complete, rounds.result().guarantee.unit
        (True, 'user')
    """

    def __init__(
        self,
        plan: FederatedPlan,
        params: ArrayTree,
        clients: Sequence[str],
        *,
        optimizer: optax.GradientTransformation | None = None,
        keys: Keys | None = None,
        budget: Budget | None = None,
        folder: Path | str | None = None,
        microbatch: int | None = None,
    ) -> None:
        optimizer = optax.sgd(1.0) if optimizer is None else optimizer
        if not isinstance(plan, FederatedPlan):
            raise InvalidArgument(
                f"plan must be a FederatedPlan, got {type(plan).__name__}.",
                remedy="Make one with rt.federated.FederatedPlan.for_budget.",
            )
        require_kinds(plan.server, keys, optimizer)
        self.plan, self._started = plan, time.perf_counter()
        self._keys = Keys.from_os() if keys is None else keys
        params = jax.tree.map(jnp.asarray, params)
        require_gradient_alone(optimizer, params)
        self._checkpoints = _checkpoints_in(folder, plan)
        self._kept = None if self._checkpoints is None else KeptByOne(self._checkpoints.path)
        self.journal = Journal(clients, None if folder is None else Path(folder) / "private" / "journal.json")
        self._schedule = Schedule(plan, self.journal, self._keys)
        self._aggregation = Aggregation(plan.server, params, optimizer, microbatch)
        self._stream = noise_stream(plan.server)
        self._state = self._loaded(params, optimizer)
        if budget is not None:
            named = (digest_of(json.dumps(sorted(self.journal.clients)).encode()), "")
            pay_once(budget, plan.server, named, self._checkpoints)
        self._assumptions = self._assumed()
        self._save(self._state)
        self._open: OpenRound | None = None
        self._is_broken = False

    @property
    def params(self) -> Any:
        """The model of the round that comes next: it may be shown to anybody."""
        return safe_state(self._state).params

    @property
    def number(self) -> int:
        """How many rounds are over."""
        return int(safe_state(self._state).step)

    @property
    def is_complete(self) -> bool:
        return self.number >= self.plan.rounds

    def begin(self, there: Collection[str] | None = None) -> OpenRound:
        """Draws who is in the next round, and writes it down. A round that was begun before is given up.

        Args:
            there: the clients that can be reached now. It matters where clients come when they can
                (`sampling=rt.data.Limited(...)`); coins and turns are for all, wherever they are.

        Raises:
            InvalidArgument: all rounds of the plan were taken.
            DataError: a client would be in more rounds than the plan counts.
        """
        number = self.number
        if self.is_complete:
            raise InvalidArgument(
                f"All {self.plan.rounds} rounds of the plan were taken, and the budget pays for no other.",
                remedy="Make a plan with more rounds, and charge it: its noise is another.",
            )
        if self._is_broken:
            raise DataError(
                f"Round {number} failed while its sum was made, and its noise was drawn.",
                remedy="Start the server again with the same folder: nothing of the round was released.",
            )
        if self._kept is not None:
            self._kept.require_alone()
        if self._open is not None:  # given up: the same clients are asked again
            self._open.is_open = False
            self._open = replace(self._open, updates={}, is_open=True)
            return self._open
        self.journal.confirm_before(number)  # a note that failed is made up for before the model is sent
        drawn = self._schedule.draw(number, there)
        root = self._keys.take(Stream.LOSS, steps=range(number, number + 1))
        shape = (self.plan.server.sampler.capacity, 1, 2)
        words = np.asarray(jax.random.bits(step_key(root, number), shape, jnp.uint32))
        slots = {self.journal.clients[unit]: slot for slot, unit in drawn.units.items()}
        seeds = {name: (int(words[slot, 0, 0]), int(words[slot, 0, 1])) for name, slot in slots.items()}
        like = jax.tree.map(np.asarray, self.params)
        self._open = OpenRound(number, seeds, slots, drawn.batch, like, {})
        return self._open

    def finish(self, current: OpenRound) -> None:
        """Clips, sums and noises what came, moves the model, and saves it before anyone sees it.

        Clients that did not answer add zero. The divisor and the noise are the same whoever did.

        Raises:
            DataError: it is not the round that is open.
        """
        if current is not self._open or not current.is_open:
            raise DataError(
                f"Round {current.number} is over: its sum was released, or given up.",
                remedy="Begin another round.",
            )
        current.is_open, self._open, self._is_broken = False, None, True
        steps = range(current.number, current.number + 1)
        noise, views = (self._keys.take(stream, steps=steps) for stream in (Stream.NOISE, Stream.VIEWS))
        came = {current.slots[client]: update for client, update in current.updates.items()}
        roots = Roots(noise, noise, views)
        state = self._aggregation.step(self._state, came, current.batch, roots)
        self._save(state)
        self._state, self._is_broken = state, False
        finished = [self.journal.clients.index(client) for client in current.updates]
        asked = self.journal.entries[current.number].asked
        self.journal.note(current.number, asked=asked, finished=finished, is_over=True)

    def result(self) -> Run:
        """The model of the last round that is over, with the guarantee of the whole plan."""
        plan, state = self.plan, safe_state(self._state)
        promise = plan.server.guarantee(
            assumptions=(*self._assumptions, *plan.own_assumptions), numbers=trees.size(self.params)
        )
        stopped = "" if self.is_complete else "the server"
        seconds = time.perf_counter() - self._started
        return Run(state.params, promise, plan.server, (), state, self.is_complete, seconds, stopped)

    def _loaded(self, params: ArrayTree, optimizer: optax.GradientTransformation) -> Any:
        norm = jnp.float32(self.plan.server.clipping.sensitivity)
        fresh = TrainState(jnp.int32(0), params, optimizer.init(params), norm, average=params)
        saved = None if self._checkpoints is None else self._checkpoints.load(fresh)
        state = fresh if saved is None else saved
        before = int(state.step)
        self.journal.forget_from(before)
        self.journal.confirm_before(before)
        if saved is not None:
            again = first_fresh_step(self.plan.server, int(saved.step))
            state = saved._replace(step=jnp.int32(again))
        self._schedule.require_known(before)
        for left_out in range(before, int(state.step)):
            self.journal.note(left_out, asked=())
        return state if self._stream is None else Remembering(state, begin(self._stream, params, state.step))

    def _assumed(self) -> tuple[str, ...]:
        said = (*self._keys.assumptions, ONE_CLIENT_EACH)
        if self._checkpoints is None:
            return said
        self._checkpoints.assume(said)
        return self._checkpoints.assumptions

    def _save(self, state: ArrayTree) -> None:
        if self._checkpoints is not None and self._kept is not None:
            with self._kept.writing():
                self._checkpoints.save(safe_state(state), force=True)


def digest_of_plan(plan: FederatedPlan) -> str:
    """Equal for equal plans: a client compares it with its own."""
    said = {"server": plan_json.to_json(plan.server), "local": asdict(plan.local)}
    return digest_of(json.dumps(said, sort_keys=True).encode())


def _checkpoints_in(folder: Path | str | None, plan: FederatedPlan) -> Checkpoints | None:
    if folder is None:
        return None
    private = Path(folder) / "private"
    private.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = Checkpoints(path=Path(folder) / "checkpoint", history=private / "payments.json", seconds=0)
    found.belong_to(f"rounds of {digest_of_plan(plan)}")
    return found
