"""Checkpoints: all a run needs to be resumed, except its keys, in one file that is whole or not there.

A checkpoint is a release like any other iterate, and the plan's event covers it. It is written beside its
place, synced and renamed, so a crash leaves the one before or this one. The first line is a digest of the
rest: a file damaged at any byte is refused. Tensors are in safetensors, never a pickle.
"""

from __future__ import annotations

import errno
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import strict_json, tensors
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import digest_of, misfits_as, read_inside, write_whole
from reticent.training.clipping import paths_of
from reticent.training.step import TrainState

_MAGIC = b"reticent checkpoint 1 "


@dataclass(kw_only=True)
class Checkpoints:
    """Where a run keeps its last state.

    Args:
        path: the file.
        stamp: a name for the run, where the plan and the shapes of the model do not tell it from others. They
            are compared in any case. A checkpoint with another stamp is refused: it belongs to another run.
        seconds: how much work a crash may cost; 0 to save whenever steps were taken.
        assumptions: what the guarantee of the steps taken so far rests on; saved with them.
        history: the file that keeps the history of the run. It holds metrics on held-out rows, which are
            unreleased, so it is apart from the checkpoint and only its owner can read it. By default it
            lies beside the checkpoint and is called `<name>.unreleased.json`.

    Example:
        >>> kept = Checkpoints(path=Path("run.checkpoint"), seconds=60)
        >>> kept.path.name, kept.history.name, kept.assumptions
        ('run.checkpoint', 'run.checkpoint.unreleased.json', ())
    """

    path: Path
    stamp: str = ""
    seconds: float = 10.0
    assumptions: tuple[str, ...] = ()
    history: Path = Path()
    _last: float = field(default=0.0, init=False, repr=False)
    _plan: str = field(default="", init=False, repr=False)
    _began: str = field(default_factory=lambda: token_hex(16), init=False, repr=False)
    _paid: list[list[str]] = field(default_factory=list, init=False, repr=False)
    _moments: list[dict[str, Any]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if self.history == Path():
            self.history = (
                self.path.with_name(f"{self.path.name}.unreleased.json") if self.path.name else Path()
            )

    def belong_to(self, plan: str) -> None:
        """From now on to a run with this plan, and to no other."""
        self._plan = digest_of(plan.encode())

    @property
    def mark(self) -> str:
        """Which run this is: what is written, and has to be found."""
        return f"{self.stamp} {self._plan}"

    def save(self, state: TrainState, *, force: bool = False) -> None:
        """Writes the state in one piece, if it is time to.

        Raises:
            DataError: the disk is full, or the folder may not be written to; the last checkpoint stays.
        """
        if not force and time.monotonic() - self._last < self.seconds:
            return
        payload = _pack(state, {"stamp": self.mark, "assumptions": self.assumptions, "began": self._began})
        write_whole(self.path, _MAGIC + digest_of(payload).encode() + b"\n" + payload)
        self._last = time.monotonic()

    def load(self, like: TrainState) -> TrainState | None:
        """The saved state, with the structure of `like`; None if nothing was saved yet.

        Raises:
            IntegrityError: the file is damaged, or it is the checkpoint of another run.
        """
        try:
            content = tensors.read_known_inside(self.path.parent, self.path.name, _sizes(like))
        except FileNotFoundError:
            self._began, self._paid, self._moments = token_hex(16), [], []
            return None
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise _damage_error(self.path) from error
            raise DataError(
                f"Cannot read {self.path}: {error.strerror}.", remedy="Check that you may read it."
            ) from error
        first, _, payload = content.partition(b"\n")
        if first != _MAGIC + digest_of(payload).encode():
            raise _damage_error(self.path)
        state, said, began = _unpack(payload, self.mark, like, self.path)
        self.assume(said)
        self._began, self._paid, self._moments = began, *self._read_private(began)
        return state

    def save_history(self, moments: list[dict[str, Any]]) -> None:
        """Writes how the run went so far, for its owner alone.

        Raises:
            DataError: it cannot be written.
        """
        self._moments = moments
        self._save_private()

    def load_history(self) -> list[dict[str, Any]]:
        """How the run went before it was interrupted; nothing where that was not kept, or is damaged."""
        return self._moments

    @property
    def payments(self) -> list[list[str]]:
        """What the run that was loaded was charged for; see `reticent.training.payment`."""
        return self._paid

    def note_payment(self, paid: list[str]) -> None:
        """Notes that the run was charged, for its owner alone.

        Raises:
            DataError: it cannot be written.
        """
        self._paid.append(paid)
        self._save_private()

    def _save_private(self) -> None:
        said = {"what": "the history of a run: unreleased", "run": digest_of(self.mark.encode())}
        kept = {"began": self._began, "paid": self._paid, "moments": self._moments}
        self.history.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(self.history, json.dumps({**said, **kept}, allow_nan=False).encode(), is_private=True)

    def _read_private(self, began: str) -> tuple[list[list[str]], list[dict[str, Any]]]:
        """Charges and history of the run that began so; nothing where they were not kept, or are damaged."""
        try:
            found = strict_json.parse_object(read_inside(self.history.parent, self.history.name))
        except (OSError, ValueError):
            return [], []
        if found.get("run") != digest_of(self.mark.encode()) or found.get("began") != began:
            return [], []
        paid, moments = found.get("paid"), found.get("moments")
        notes = [note for note in paid if isinstance(note, list)] if isinstance(paid, list) else []
        return notes, moments if isinstance(moments, list) else []

    def assume(self, assumptions: Iterable[str]) -> None:
        """Adds to what the guarantee rests on: a resumed run rests on all of it."""
        self.assumptions = tuple(dict.fromkeys((*self.assumptions, *assumptions)))


def _pack(state: TrainState, said: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    named = {
        f"{at:04d} {name}": leaf for at, (name, leaf) in enumerate(zip(paths_of(state), leaves, strict=True))
    }
    return save(named, metadata={"run": json.dumps(said)})  # one entry: several would come in any order


def _sizes(state: TrainState) -> dict[str, int]:
    """The sizes, in bytes, of the tensors that `_packed` saves."""
    sizes = [math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)]
    return {
        f"{at:04d} {name}": size for at, (name, size) in enumerate(zip(paths_of(state), sizes, strict=True))
    }


def _unpack(payload: bytes, stamp: str, like: TrainState, path: Path) -> tuple[TrainState, list[str], str]:
    with misfits_as(_damage_error(path)):
        found, said = tensors.parse(payload)
        known = strict_json.parse_object(said["run"])
        mark, assumptions = known["stamp"], [str(item) for item in known["assumptions"]]
        began = str(known.get("began", ""))  # older checkpoints do not say so: a budget is charged again
    if mark != stamp:
        raise IntegrityError(
            f"The checkpoint {path} belongs to a run with another plan, domain or version.",
            remedy="Resume with what the run was started with, or start a new one in another folder.",
        )
    leaves, structure = jax.tree.flatten(like)
    saved = [found[name] for name in sorted(found)]
    if [(leaf.shape, leaf.dtype) for leaf in saved] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
        raise IntegrityError(
            f"The checkpoint {path} holds other parameters than this model has.",
            remedy="Resume with the model and the optimizer that the run was started with.",
        )
    state = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in saved])
    return state, assumptions, began


def _damage_error(path: Path) -> IntegrityError:
    return IntegrityError(
        f"The checkpoint {path} is damaged.",
        remedy="Start a new run in another folder: the budget of this one stays spent.",
    )


def stamp_of(*parts: Any) -> str:
    """A digest of anything that has a JSON form; equal for equal parts."""
    import json

    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return digest_of(text.encode())
