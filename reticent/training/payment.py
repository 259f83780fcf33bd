"""Who was charged for a run, and for which rows: a resumed run is charged for whatever it has not paid yet.

A charge is noted with the account and with digests of the rows. The note is private, since a digest of rows
confirms a guess of them, so it lies in the file of the history and not in the checkpoint. Where the note is
missing, the run is charged again: that may waste budget, and never forgets it.

A charge is the whole plan, and no record is in more steps than the plan has, whoever else is in them. So the
claim does not rest on these digests being complete; they catch a checkpoint that is taken for another's.
"""

from __future__ import annotations

import hashlib
import weakref
from secrets import token_hex
from typing import Any, Protocol

import numpy as np

from reticent.accounting.budget import Budget
from reticent.core.files import digest_of
from reticent.data.dataset import Dataset
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all, by_first
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.training.checkpoint import Checkpoints
from reticent.training.plan import Plan

_MOST_READ = 2**28  # bytes: of larger data, or rows that have to be read first, some are compared
_SOME = 1000  # rows
_CHUNK = 2**24  # bytes

RowDigests = tuple[str, str]  # a digest of their number, names, types and shapes, and one of what is in them

_objects: dict[int, tuple[weakref.ref[Budget], str]] = {}


def pay(budget: Budget | None, plan: Plan, data: Dataset, checkpoints: Checkpoints | None) -> None:
    """Charges the whole plan before any noise is drawn, unless these rows are paid for from this account.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nothing was computed.
    """
    if not collectives.broadcast_json(budget is not None):
        return
    rows = _digests(data) if checkpoints is not None else ("", "")
    by_first(lambda: pay_once(budget, plan, rows, checkpoints))


class Priced(Protocol):
    """What is charged: a plan, or anything that has its own."""

    @property
    def event(self) -> Event: ...
    @property
    def adjacency(self) -> Adjacency: ...
    @property
    def unit(self) -> Any: ...


def pay_once(budget: Budget | None, plan: Priced, rows: RowDigests, checkpoints: Checkpoints | None) -> None:
    if budget is None:  # another process is the first one
        return
    account = account_of(budget)
    if checkpoints is not None and _is_noted(checkpoints.payments, account, rows):
        return
    budget.charge(plan.event, adjacency=plan.adjacency, purpose="train", unit=plan.unit)
    if checkpoints is not None:
        checkpoints.note_payment([account, *rows])


def _is_noted(payments: list[list[str]], account: str, rows: RowDigests) -> bool:
    kind, content = rows
    return any(
        len(paid) == 3 and paid[:2] == [account, kind] and (paid[2] == content or not (paid[2] and content))
        for paid in payments
    )


def account_of(budget: Budget) -> str:
    """A name of the account that a budget charges.

    A budget with a string `account` is known by it in every process. One without is known as the object that
    it is, in this process alone.

    Example:
        >>> class Mine:
        ...     def charge(self, event, **terms): ...
        >>> ours, theirs = Mine(), Mine()
        >>> account_of(ours) == account_of(ours), account_of(ours) == account_of(theirs)
        (True, False)
    """
    named = getattr(budget, "account", None)
    if isinstance(named, str) and named:
        return digest_of(named.encode())
    known = _objects.get(id(budget))
    if known is None or known[0]() is not budget:
        try:
            known = weakref.ref(budget), token_hex(16)
        except TypeError:  # an object that cannot be followed: nothing is known of it later
            return token_hex(16)
        _objects[id(budget)] = known
    return known[1]


def _digests(data: Dataset) -> RowDigests:
    """Digests of the shape of the rows of all processes, and of their content.

    A restart may give each of several processes another share, so they compare no content.
    """
    found = collectives.gather_json(by_all(lambda: [_shapes(data), len(data)]))
    kinds, lengths = zip(*found, strict=True)
    kind = digest_of(repr((sorted(set(kinds)), sum(lengths))).encode())
    return kind, _content(data) if len(found) == 1 else ""


def _shapes(data: Dataset) -> str:
    kinds = {key: (str(data[key].dtype), list(data[key].shape[1:])) for key in sorted(data)}
    return repr((kinds, data.unit))


def _content(data: Dataset) -> str:
    """The digest of all rows, or of some if all would take long to read."""
    hashed = hashlib.blake2b(digest_size=32, person=b"reticent paid")
    if data.is_elsewhere or data.nbytes > _MOST_READ:
        some = np.unique(np.linspace(0, max(len(data) - 1, 0), _SOME).astype(np.int64))[: len(data)]
        rows = data.read(some)
    else:
        rows = {key: np.asarray(data[key]) for key in data}
    for key in sorted(rows):
        _update(hashed, rows[key])
    if data.users is not None:
        _update(hashed, np.asarray(data.users))
    return hashed.hexdigest()


def _update(hashed: hashlib.blake2b, array: np.ndarray) -> None:
    if array.dtype.hasobject or array.dtype.kind == "T":
        for value in array.ravel().tolist():
            hashed.update(f"{value!r}\n".encode())
        return
    rows = max(1, _CHUNK // max(array[:1].nbytes, 1))
    for start in range(0, len(array), rows):
        hashed.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
