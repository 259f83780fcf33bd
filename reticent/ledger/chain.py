"""Entries that each hold the hash of the one before: a change anywhere breaks every later link.

The hash needs no secret, so whoever can write the file can also forge a whole new chain, or drop the last
entries. Neither can be seen from inside. A copy of the last hash, kept where they cannot write, shows both.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from reticent.core.errors import IntegrityError

LONGEST_LINE = 500  # characters of a purpose, a reason or a fingerprint
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}\+00:00")

Kind = Literal["create", "dataset", "limit", "alias", "charge"]


class Head(NamedTuple):
    """The end of a chain: how many entries it has, and the hash of the last."""

    sequence: int
    hash: str


START = Head(0, "0" * 64)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a ledger. `payload` is JSON, as text: the hash is over the very characters."""

    sequence: int
    time: str
    kind: str
    payload: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        return Head(self.sequence, self.hash)

    @property
    def values(self) -> dict[str, Any]:
        return json.loads(self.payload)

    @property
    def purpose(self) -> str | None:
        """What a charge was made for; None for entries of other kinds."""
        return self.values["purpose"] if self.kind == "charge" else None

    def to_json(self) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "time": self.time,
            "kind": self.kind,
            "payload": self.values,
            "previous": self.previous,
            "hash": self.hash,
        }


def next_entry(head: Head, kind: Kind, values: dict[str, Any]) -> Entry:
    """The entry that follows a head, made now."""
    sequence, time = head.sequence + 1, datetime.now(UTC).isoformat(timespec="milliseconds")
    payload = canonical(values)
    return Entry(
        sequence=sequence,
        time=time,
        kind=kind,
        payload=payload,
        previous=head.hash,
        hash=_digest(head.hash, sequence, kind, time, payload),
    )


def follow(head: Head, entry: Entry, *, where: object) -> Head:
    """The head after an entry.

    Raises:
        IntegrityError: it is not what follows: edited, moved, or entries before it are gone.
    """
    if entry.sequence != head.sequence + 1:
        raise broken_ledger(where, f"entry {head.sequence + 1} is missing")
    if entry.previous != head.hash:
        raise broken_ledger(where, f"entry {entry.sequence} does not continue entry {head.sequence}")
    if entry.hash != _digest(entry.previous, entry.sequence, entry.kind, entry.time, entry.payload):
        raise broken_ledger(where, f"entry {entry.sequence} was changed after it was written")
    if not _TIME.fullmatch(entry.time):
        raise broken_ledger(where, f"the time of entry {entry.sequence} is not one")
    return entry.head


def is_line(text: object, longest: int = LONGEST_LINE) -> bool:
    """Whether something is text that can be printed as it is, on one line.

    Example:
        >>> is_line("a model"), is_line("two\\nlines"), is_line(["a model"])
        (True, False, False)
    """
    return isinstance(text, str) and bool(text.strip()) and len(text) <= longest and text.isprintable()


def broken_ledger(where: object, what: str) -> IntegrityError:
    return IntegrityError(
        f"The ledger {where} is broken: {what}. Nothing was recorded.",
        remedy="Put back a copy that verifies (reticent ledger verify), and find out who changed this one.",
    )


def canonical(values: Any) -> str:
    """JSON with one spelling only: sorted keys, no blanks, ASCII.

    Example:
        >>> canonical({"b": 1, "a": [0.5]})
        '{"a":[0.5],"b":1}'
    """
    return json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_plain
    )


def _plain(value: Any) -> Any:
    """NumPy's numbers, as Python's own."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _digest(previous: str, sequence: int, kind: str, time: str, payload: str) -> str:
    # As a JSON list the fields cannot run into each other.
    text = json.dumps([previous, sequence, kind, time, payload], ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
