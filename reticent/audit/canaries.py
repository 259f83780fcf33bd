"""Canaries: made-up records that join the training or not, each by a coin flip that an auditor guesses.

They lie outside the user's data, and are as unlike them as the privacy claim allows. Gradient canaries have a
gradient that points into one parameter and is longer than the clipping norm, whatever the model (white box).
Input canaries are records somebody made up, with random labels for instance (black box).

Where a plan protects users, a canary is a whole user: as many rows as a user may have, all alike, so that
every one of them pulls in the same direction.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from reticent.audit.placement import Among, Apart, Placement
from reticent.core import checks, trees
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.core.trees import ArrayTree
from reticent.data.allocation import Allocation
from reticent.data.dataset import Dataset
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.contributions import require_named
from reticent.training.gradients import LossFunction
from reticent.training.plan import Plan

Absence = Literal["removed", "blank", "opposite"]

_CANARY, _PULL, _WEIGHT = "reticent canary", "reticent pull", "reticent weight"
_NO_CANARY = np.int32(-1)
_RESERVED = (_CANARY, _PULL, _WEIGHT)
_LONGER = 4.0  # than the clipping norm: a clip that is missing shows
_MOST_OF_DELTA = 0.5  # canaries times delta; beyond it, more of them show no more
_ROOM = 1 << 30  # bytes that canaries may take beside the data
_EACH = 128  # bytes of a canary beside its row: a parameter, its gradients, its coin and its scores


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """The canaries of one run, and how their coins fell. Made by `draw`.

    Args:
        included: the coins of the gradient canaries.
        placement: where their gradients point.
        inputs: the records of the input canaries.
        inputs_included: their coins.
        absence: what stands in for a canary whose coin said no. `removed`: nothing; `blank`: a row without
            a gradient, which `train` sums as it sums no row; `opposite`: the opposite gradient, for a claim
            about replacing a record.
        pull: the length of a gradient canary before clipping, and of each of its rows.
        rows_each: how many rows a canary has: more than one where users are protected.
    """

    included: np.ndarray = field(repr=False)
    placement: Placement = field(repr=False)
    inputs: Mapping[str, np.ndarray] = field(repr=False)
    inputs_included: np.ndarray = field(repr=False)
    absence: Absence
    pull: float
    nonce: bytes = field(repr=False)
    rows_each: int = 1

    @property
    def count(self) -> int:
        return len(self.included) + len(self.inputs_included)

    def loss(self, loss: LossFunction) -> LossFunction:
        """The loss of rows that may be canaries; a row that says nothing of canaries is an ordinary one."""
        placement = self.placement

        def loss_with_canaries(params: ArrayTree, example: ArrayTree) -> jax.Array:
            if _CANARY not in example:
                return loss(placement.model(params), example)
            ordinary = {key: value for key, value in example.items() if key not in _RESERVED}
            own = loss(placement.model(params), ordinary)
            pulled = example[_PULL] * placement.entry(params, example[_CANARY])
            return own * example[_WEIGHT].astype(own.dtype) + pulled.astype(own.dtype)

        return loss_with_canaries

    def rows(self, data: Dataset) -> Dataset:
        """The rows of the data, and those of the canaries after them: users, where the data have users."""
        if set(_RESERVED) & set(data.arrays):
            raise DataError(
                f"Dataset '{data.name}' already has canaries.", remedy="Audit the data without them."
            )
        ordinary = len(data)
        arrays = {key: [np.asarray(data[key])] for key in data}
        marks = {_CANARY: [np.full(ordinary, _NO_CANARY)], _PULL: [np.zeros(ordinary, np.float32)]}
        marks[_WEIGHT] = [np.ones(ordinary, np.float32)]
        for rows, part in (self._gradient_rows(arrays), self._input_rows(arrays)):
            for key, array in rows.items():
                arrays[key].append(np.repeat(array, self.rows_each, axis=0))
            for key, array in part.items():
                marks[key].append(np.repeat(array, self.rows_each, axis=0))
        whole = {key: np.concatenate(parts) for key, parts in {**arrays, **marks}.items()}
        users = None if data.users is None else _with_made_up(data.users, whole[_CANARY][ordinary:])
        return Dataset(arrays=whole, name=data.name, users=users)

    def record(self) -> dict[str, Any]:
        """What was drawn: enough to check the guesses, and no seed that would give the coins away before.

        `digest` can be published before the run, as a promise; the rest after it.
        """
        coins = np.concatenate([self.included, self.inputs_included])
        content = hashlib.sha256(self.nonce)
        content.update(np.packbits(coins).tobytes())
        for key in sorted(self.inputs):
            content.update(key.encode() + np.ascontiguousarray(self.inputs[key]).tobytes())
        return {
            "digest": content.hexdigest(),
            "nonce": self.nonce.hex(),
            "gradient_canaries": len(self.included),
            "input_canaries": len(self.inputs_included),
            "coins": np.packbits(coins).tobytes().hex(),
            "absence": self.absence,
            **({"rows_each": self.rows_each} if self.rows_each > 1 else {}),
            "placement": self.placement.sentence,
        }

    def _gradient_rows(self, like: Mapping[str, list[np.ndarray]]) -> tuple[dict, dict]:
        numbers = np.arange(len(self.included), dtype=np.int32)
        sign = np.where(self.included, 1.0, -1.0 if self.absence == "opposite" else 0.0)
        if self.absence == "removed":
            numbers, sign = numbers[self.included], sign[self.included]
        rows = {key: self._filler(key, parts[0], len(numbers)) for key, parts in like.items()}
        pull = (self.pull * sign).astype(np.float32)
        return rows, {_CANARY: numbers, _PULL: pull, _WEIGHT: np.zeros(len(numbers), np.float32)}

    def _input_rows(self, like: Mapping[str, list[np.ndarray]]) -> tuple[dict, dict]:
        kept = np.flatnonzero(self.inputs_included | (self.absence != "removed"))
        weight = self.inputs_included[kept].astype(np.float32)
        rows = {
            key: self.inputs[key][kept].astype(parts[0].dtype) if self.inputs else parts[0][:0]
            for key, parts in like.items()
        }
        numbers = (len(self.included) + kept).astype(np.int32)
        return rows, {_CANARY: numbers, _PULL: np.zeros(len(weight), np.float32), _WEIGHT: weight}

    def _filler(self, key: str, like: np.ndarray, count: int) -> np.ndarray:
        """Rows with a finite loss, which count with weight 0."""
        if self.inputs:
            return np.repeat(self.inputs[key][:1].astype(like.dtype), count, axis=0)
        return np.zeros((count, *like.shape[1:]), like.dtype)


def draw_canaries(
    params: ArrayTree,
    plan: Plan,
    *,
    gradients: int,
    inputs: Mapping[str, Any] | None = None,
    among: bool = False,
    keys: Keys | None = None,
) -> Canaries:
    """Draws canaries: flips a fair coin for each.

    Args:
        gradients: how many gradient canaries.
        inputs: records of input canaries, made up by the caller from public things.
        among: let gradients point into the model's own parameters instead of parameters apart.
    """
    checks.count(minimum=0, gradients=gradients)
    inputs = {key: np.asarray(array) for key, array in (inputs or {}).items()}
    others = len(next(iter(inputs.values()))) if inputs else 0
    if gradients + others == 0:
        raise InvalidArgument("There are no canaries.", remedy="Ask for at least one, or pass inputs.")
    words = jax.random.key_data((keys or Keys.from_os()).take(Stream.ATTACKS))
    rng = np.random.default_rng(np.asarray(words, np.uint32))
    is_named = plan.clipping.kind == "per-layer"  # its layers are the model's: there is no place apart
    placement = Among.spread(params, gradients, rng) if among or is_named else Apart(gradients)
    exact = plan.clipping.kind == "lipschitz"  # nothing is cut, so that a longer one would break the promise
    return Canaries(
        included=rng.integers(0, 2, gradients).astype(bool),
        placement=placement,
        inputs=inputs,
        inputs_included=rng.integers(0, 2, others).astype(bool),
        absence=_absence(plan, gradients + others),
        pull=plan.clipping.sensitivity * (1.0 if exact else _LONGER),
        nonce=rng.bytes(32),
        rows_each=plan.rows_per_user or 1,
    )


def canaries_for(plan: Plan) -> int:
    """Chooses how many gradient canaries suit a plan.

    Enough that training without noise would contradict the claim, with room to spare (about 3 e^epsilon
    guesses are needed, and one canary in four is guessed); no more than half the examples; and so that
    canaries times delta stays small, because that is what the guesses may owe to delta.
    """
    epsilon = plan.guarantee().epsilon
    wanted = 1000 + 12 * math.exp(min(epsilon, 12.0))
    return int(max(min(wanted, plan.sampler.examples / 2, _MOST_OF_DELTA / plan.delta), 100))


def require_room(count: int, plan: Plan, data: Dataset) -> None:
    """Refuses more gradient canaries than fit into memory; half the number of examples is always allowed.

    Raises:
        InvalidArgument: there are too many.
    """
    row = sum(np.asarray(array[:1]).nbytes for array in data.arrays.values())
    each = 2 * row * (plan.rows_per_user or 1) + _EACH  # rows are made, and then put behind those of the data
    most = max(_ROOM // each, plan.sampler.examples // 2)
    if count > most:
        enough = round(_MOST_OF_DELTA / plan.delta)
        raise InvalidArgument(
            f"{count:,} canaries may take {count * each / 1e9:.3g} GB.",
            remedy=f"Ask for at most {most:,}; more than {enough:,}, half of 1 / delta, show nothing new.",
        )


def plan_with(plan: Plan, canaries: Canaries) -> Plan:
    """Adapts a plan to canaries: they count as examples, and every record joins as often as before."""
    examples = plan.sampler.examples
    more = -(-canaries.count // 2) if canaries.absence == "removed" else canaries.count
    whole = examples + more
    size = max(round(plan.sampler.batch_size * whole / examples), 1)
    match plan.sampler:
        case Poisson(largest=largest):
            room = None if largest is None else round(largest * whole / examples)
            return replace(plan, sampler=Poisson(examples=whole, batch_size=size, largest=room))
        case FixedSize():
            return replace(plan, sampler=FixedSize(examples=whole, batch_size=size))
        case Shuffled():
            return replace(plan, sampler=Shuffled(examples=whole, batch_size=size))
        case Allocation():
            return replace(plan, sampler=replace(plan.sampler, examples=whole, batch_size=size))
        case FullBatch():
            return replace(plan, sampler=FullBatch(examples=whole))
    raise InvalidArgument(
        f"Canaries cannot be put into batches of {type(plan.sampler).__name__}.",
        remedy="Use one of the samplers of reticent.data.sampling.",
    )


def check_pull(canaries: Canaries, loss: LossFunction, params: ArrayTree, data: Dataset) -> None:
    """Checks a gradient canary's gradient before a run is spent on it.

    Raises:
        DataError: the loss of the row that fills up a canary is not finite.
    """
    if not len(canaries.included):
        return
    like = {key: [np.asarray(data[key][:1])] for key in data}
    rows, marks = replace(canaries, included=np.ones(len(canaries.included), bool))._gradient_rows(like)
    first = {key: jnp.asarray(array[0]) for key, array in {**rows, **marks}.items()}
    wrapped = jax.tree.map(jnp.asarray, canaries.placement.wrap(params))
    gradient = jax.grad(canaries.loss(loss))(wrapped, first)
    length = float(trees.norm(gradient))
    if not abs(length - canaries.pull) <= 1e-3 * canaries.pull:
        raise DataError(
            f"The gradient of a canary has length {length:g} instead of {canaries.pull:g}: the loss of the "
            "row of zeros that it is made from has no finite gradient.",
            remedy="Pass inputs: made-up records with a finite loss.",
        )


def _with_made_up(users: np.ndarray, canary: np.ndarray) -> np.ndarray:
    """Users counted from 0 in the order of their names, and after them a user for each canary."""
    require_named(users)
    names, known = np.unique(users, return_inverse=True)
    return np.concatenate([known, len(names) + canary]).astype(np.int64)


def _absence(plan: Plan, count: int) -> Absence:
    if plan.adjacency is Adjacency.REPLACE:
        return "opposite"
    if isinstance(plan.sampler, Poisson) and plan.adjacency is Adjacency.ADD_OR_REMOVE:
        # How far the number of rows may be from the declared one, and how far it will be.
        room = (plan.sampler.examples + count // 2) // 10
        if 3 * math.sqrt(count) <= room:
            return "removed"
    return "blank"
