"""Private inference: one label per call, until the budget ends, with a journal that survives a crash.

    opened     the allowance and the aggregator; nothing is charged yet
    paid       the whole allowance is charged; answers may be drawn
    asked      a question, by a keyed digest of its record, before its noise is drawn
    answered   its label, or that it was refused, before it is returned

An answer that is not in the journal was never returned: after a crash it is drawn again, under the same
charge. One that is there is read from it: the same question is never asked twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from reticent.accounting.budget import Budget
from reticent.core import strict_json
from reticent.core.errors import BudgetExceeded, DataError, IntegrityError
from reticent.core.generators import generator
from reticent.core.keys import Keys
from reticent.core.user_key import user_key
from reticent.distributed.consensus import require_alone
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.pate.aggregators import Aggregator, Confident
from reticent.pate.allowance import Allowance
from reticent.pate.votes import Votes

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None

Voter = Callable[[np.ndarray], Votes]  # what the teachers say of some records


class Oracle:
    """Teachers that answer one record at a time, and charge first.

    Args:
        vote: from records to the votes on them.
        budget: where the whole allowance is paid, once, before the first answer.
        journal: a file that outlives the process; without one, everything is in memory.

    Example:
        >>> import numpy as np
        >>> from reticent.core.keys import Keys
        >>> from reticent.pate import GaussianMax, Oracle, Votes, allowance_for
        >>> all_agree = lambda x: Votes(counts=np.tile([0, 100], (len(x), 1)), teachers=100)
        >>> noise = GaussianMax(sigma=20.0)
        >>> limit = allowance_for(noise, epsilon=1.0, delta=1e-6)
        >>> oracle = Oracle(all_agree, noise, limit, keys=Keys.seeded(0))
        >>> oracle.ask(np.array([[0.5, 2.0]]))
        [1]
    """

    def __init__(
        self,
        vote: Voter,
        aggregator: Aggregator,
        allowance: Allowance,
        *,
        keys: Keys | None = None,
        budget: Budget | None = None,
        journal: str | Path | None = None,
    ) -> None:
        require_alone("PATE")
        self._vote, self._aggregator, self.allowance = vote, aggregator, allowance
        self._keys = Keys.from_os() if keys is None else keys
        self._answers: dict[str, int | None] = {}
        self._unanswered: set[str] = set()  # told to nobody, and paid for already
        self.asked = 0
        self._open = {"event": events.to_json(allowance.event), "aggregator": repr(aggregator)}
        self._journal = _Journal(None if journal is None else Path(journal), self._apply_entry)
        with self._journal.lock():
            self._begin(budget)

    def _begin(self, budget: Budget | None) -> None:
        entries = self._journal.entries
        if not entries:
            number = secrets.token_hex(16)
            own = {} if self._journal.path is None else {"check": _secret_of(number)[-16:]}
            self._journal.write({"opened": self._open, "number": number, **own})
        elif entries[0].get("opened") != self._open:
            raise IntegrityError(
                f"{self._journal.path} is a journal of other teachers, or of other noise.",
                remedy="Name another file, or use the settings that the journal was started with.",
            )
        self._secret = self._find_secret(entries[0])
        if not any("paid" in entry for entry in entries):
            if budget is not None:
                purpose = f"PATE, private inference {entries[0].get('number', self._secret)[:8]}"
                budget.charge(
                    self.allowance.event, adjacency=Adjacency.ADD_OR_REMOVE, purpose=purpose, unit="record"
                )
            self._journal.write({"paid": True})

    def _find_secret(self, first: dict[str, Any]) -> str:
        """What digests are keyed with. It is not in the journal: who has that alone cannot try records."""
        if "secret" in first:  # of a version that kept it there
            return str(first["secret"])
        number = str(first.get("number"))
        if self._journal.path is None:
            return number
        found = _secret_of(number)
        if first.get("check") != found[-16:]:
            raise IntegrityError(
                f"{self._journal.path} was started with the key of another user.",
                remedy="Set RETICENT_CONFIG to the folder that holds that key, or start another journal.",
            )
        return found[:32]

    def _apply_entry(self, entry: dict[str, Any]) -> None:
        """Applies a journal entry, whichever process wrote it."""
        if "asked" in entry:
            self._unanswered.add(str(entry["asked"]))
            self.asked += 1
        if "answered" in entry:
            self._unanswered.discard(str(entry["answered"]))
            self._answers[str(entry["answered"])] = entry["label"]

    @property
    def answered(self) -> int:
        """How many questions got a label; one still in progress counts too."""
        return sum(label is not None for label in self._answers.values()) + len(self._unanswered)

    def ask(self, x: np.ndarray) -> list[int | None]:
        """A class for each record; None where the teachers do not agree enough.

        Raises:
            BudgetExceeded: the allowance is spent. Earlier answers stay, and can be asked for again.
        """
        told = []
        for record in np.asarray(x):
            with self._journal.lock():  # others may ask through the same journal meanwhile
                told.append(self._one(record))
        return told

    def _one(self, record: np.ndarray) -> int | None:
        digest = self._digest(record)
        if digest in self._answers:
            return self._answers[digest]
        if digest not in self._unanswered:
            if not self.allowance.affords_one_more(asked=self.asked, answered=self.answered):
                raise BudgetExceeded(
                    f"The allowance is spent: {self.asked} questions were asked, {self.answered} answered.",
                    remedy="Train a student on the answers so far: it may be asked without limit.",
                )
            self._journal.write({"asked": digest})
        label = self._draw_label(self._vote(record[None]))
        self._journal.write({"answered": digest, "label": label})
        return label

    def _draw_label(self, votes: Votes) -> int | None:
        source = generator(self._keys, step=len(self._journal.entries))  # one more for every entry
        if isinstance(self._aggregator, Confident):
            self._aggregator.require_reachable(votes.teachers)
            if not self._aggregator.passes(source, votes)[0]:
                return None
            return int(self._aggregator.vote.answer(source, votes)[0])
        return int(self._aggregator.answer(source, votes)[0])

    def _digest(self, record: np.ndarray) -> str:
        record = np.ascontiguousarray(record)
        hashed = hashlib.blake2b(key=self._secret.encode(), digest_size=16)
        hashed.update(f"{record.dtype.str}{record.shape}".encode())
        hashed.update(record.tobytes())
        return hashed.hexdigest()


class _Journal:
    """Lines of JSON, each flushed to disk before the next step; one writer at a time."""

    def __init__(self, path: Path | None, on_entry: Callable[[dict[str, Any]], None]) -> None:
        self.path, self._on_entry = path, on_entry
        self.entries: list[dict[str, Any]] = []
        self._read_to = 0

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks out other processes and reads what they wrote before: an allowance is spent once."""
        if self.path is None:
            yield
            return
        try:
            file = open(self.path, "a+b")  # noqa: SIM115 - closed below, with the lock
        except OSError as error:
            raise DataError(
                f"Cannot open {self.path}: {error.strerror}.", remedy="Check the path."
            ) from error
        with file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            self._catch_up(self.path, file)
            yield

    def _catch_up(self, path: Path, file: IO[bytes]) -> None:
        file.seek(self._read_to)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            entries = [strict_json.parse(line) for line in whole.splitlines()]
        except ValueError:
            raise _damage_error(path) from None
        known = [*self.entries, *entries]
        if not all(isinstance(entry, dict) for entry in entries) or (known and "opened" not in known[0]):
            raise _damage_error(path)
        self._read_to += len(whole)
        if len(whole) < len(content):  # the last line of a process that was killed while it wrote
            file.truncate(self._read_to)
        for entry in entries:
            self._note(entry)

    def write(self, entry: dict[str, Any]) -> None:
        """Appends an entry; call it within `lock`."""
        line = json.dumps(entry).encode() + b"\n"
        if self.path is not None:
            try:
                with open(self.path, "ab") as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise DataError(
                    f"Cannot write {self.path}: {error.strerror}.", remedy="Free some space on that disk."
                ) from error
        self._read_to += len(line)
        self._note(entry)

    def _note(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)
        self._on_entry(entry)


def _secret_of(number: str) -> str:
    return hmac.new(user_key(), f"journal {number}".encode(), hashlib.sha256).hexdigest()


def _damage_error(path: Path) -> IntegrityError:
    return IntegrityError(
        f"{path} is not a journal of answers, or is damaged.", remedy="Restore it from a copy."
    )
