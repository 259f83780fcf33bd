"""A keyed fingerprint of the rows that a run was made from, so that a later command recognises them.

Which rows were held out follows from their numbers. On a table in another order an attack would take members
for outsiders and find nothing, so the rows are compared before anything is said about them.

The fingerprint is made of the rows as they are encoded. It stays in the private part of the run: whoever has
it and a guess of the whole table can check the guess.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reticent import __version__
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import misfits_as, read_json_inside, write_whole
from reticent.core.observer import Observer
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.runs.json_values import count, text
from reticent.runs.private_part import FINGERPRINT, PRIVATE, make_private

_KEY_BYTES = 32
_MODULUS = 1 << 256
_BLOCK = 1 << 14  # rows that are copied at once


@dataclass(frozen=True, kw_only=True)
class RowFingerprint:
    """Two sums of keyed hashes, one for each row, modulo 2^256.

    Sums of parts add up to that of the whole, so each process and each batch hashes its own rows.

    Args:
        rows: how many there are.
        in_any_order: the sum of all hashes.
        in_order: the same, each hash times the number of its row, counted from 1.
    """

    rows: int
    in_any_order: int
    in_order: int

    def __add__(self, other: RowFingerprint) -> RowFingerprint:
        return RowFingerprint(
            rows=self.rows + other.rows,
            in_any_order=(self.in_any_order + other.in_any_order) % _MODULUS,
            in_order=(self.in_order + other.in_order) % _MODULUS,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "in_any_order": f"{self.in_any_order:064x}",
            "in_order": f"{self.in_order:064x}",
        }

    @classmethod
    def from_json(cls, value: Any) -> RowFingerprint:
        sums = {
            name: int.from_bytes(bytes.fromhex(value[name]), "big") for name in ("in_any_order", "in_order")
        }
        return cls(rows=count(value["rows"]), **sums)


NO_ROWS = RowFingerprint(rows=0, in_any_order=0, in_order=0)


def fingerprint_rows(key: bytes, arrays: Mapping[str, np.ndarray], first: int = 0) -> RowFingerprint:
    """Fingerprints rows that are given as arrays, one row of each array per record.

    Args:
        first: how many rows of the table come before these.

    Example:
        >>> rows = np.arange(6).reshape(3, 2)
        >>> whole = fingerprint_rows(b"key", {"x": rows})
        >>> rest = fingerprint_rows(b"key", {"x": rows[1:]}, first=1)
        >>> whole == fingerprint_rows(b"key", {"x": rows[:1]}) + rest
        True
        >>> turned = fingerprint_rows(b"key", {"x": rows[::-1]})
        >>> turned.in_any_order == whole.in_any_order, turned.in_order == whole.in_order
        (True, False)
    """
    columns = [arrays[name] for name in sorted(arrays)]
    rows = len(columns[0]) if columns else 0
    any_order = in_order = 0
    for start in range(0, rows, _BLOCK):
        for number, row in enumerate(_bytes_of(columns, start), start=first + start + 1):
            found = int.from_bytes(hashlib.blake2b(row, key=key, digest_size=32).digest(), "big")
            any_order += found
            in_order += number * found
    return RowFingerprint(rows=rows, in_any_order=any_order % _MODULUS, in_order=in_order % _MODULUS)


def _bytes_of(columns: list[np.ndarray], start: int) -> list[bytes]:
    parts = [np.ascontiguousarray(column[start : start + _BLOCK]) for column in columns]
    flat = np.concatenate([part.view(np.uint8).reshape(len(part), -1) for part in parts], axis=1)
    width, whole = flat.shape[1], flat.tobytes()
    return [whole[at : at + width] for at in range(0, len(whole), width)]


class RowDigest:
    """Collects the fingerprint of the rows that a run reads, part by part."""

    def __init__(self, key: bytes) -> None:
        self._key, self._found = key, NO_ROWS

    @classmethod
    def draw(cls) -> RowDigest:
        """One with a new secret key, the same for all processes."""
        return cls(bytes.fromhex(collectives.broadcast_json(secrets.token_hex(_KEY_BYTES))))

    def add(self, arrays: Mapping[str, np.ndarray], first: int) -> None:
        """Takes rows in; `first` counts those of the table that come before them."""
        self._found += fingerprint_rows(self._key, arrays, first)

    def total(self) -> RowFingerprint:
        """The fingerprint of the rows of all processes."""
        found = collectives.gather_json(self._found.to_json())
        return sum(map(RowFingerprint.from_json, found), start=NO_ROWS)

    def write(self, folder: Path, found: RowFingerprint) -> None:
        """Keeps a fingerprint and its key in the private part of a run.

        Raises:
            DataError: it cannot be written.
        """
        said = {
            "what": "a keyed fingerprint of the rows of this run: private, not to be shared",
            "version": __version__,
            "key": self._key.hex(),
            **found.to_json(),
        }
        make_private(folder)
        write_whole(
            folder / PRIVATE / FINGERPRINT, (json.dumps(said, indent=2) + "\n").encode(), is_private=True
        )


@dataclass(frozen=True, kw_only=True)
class KnownRows:
    """The fingerprint that a run keeps, and how to find out whether rows are those it was made from."""

    folder: Path
    digest: RowDigest
    fingerprint: RowFingerprint
    version: str

    @classmethod
    def read(cls, folder: Path) -> KnownRows | None:
        """What a run keeps of its rows, as the first process reads it for all; None where it keeps nothing.

        Raises:
            DataError: it cannot be read. IntegrityError: it is damaged.
        """
        said = collectives.broadcast_json(by_first(lambda: _read(folder)))
        return None if said is None else cls._of(folder, said)

    @classmethod
    def _of(cls, folder: Path, said: Any) -> KnownRows:
        path = folder / PRIVATE / FINGERPRINT
        with misfits_as(IntegrityError(f"{path} is damaged.", remedy="Restore it from a copy.")):
            key = bytes.fromhex(said["key"])
            if len(key) != _KEY_BYTES:
                raise ValueError("not a key")
            return cls(
                folder=folder,
                digest=RowDigest(key),
                fingerprint=RowFingerprint.from_json(said),
                version=text(said["version"]),
            )

    def require_same(self, found: RowFingerprint, table: str) -> None:
        """
        Args:
            found: the fingerprint of the rows that are there, by `digest`.
            table: what the message calls them.

        Raises:
            IntegrityError: they are not those of the run. The message says in what they differ.
        """
        known = self.fingerprint
        if found == known:
            return
        if found.rows != known.rows:
            raise row_count_differs(self.folder, table, found.rows, known.rows)
        if found.in_any_order == known.in_any_order:
            raise IntegrityError(
                f"{table} has the rows that {self.folder} was made from, in another order. Which rows were "
                "held out follows from their order.",
                remedy="Restore the order in which they were, from a copy or by sorting as before, or name "
                "the original table: --data FILE.",
            )
        versions = "" if self.version == __version__ else f" (version {self.version} read them then)"
        raise IntegrityError(
            f"{table} does not hold the rows that {self.folder} was made from: as many, but at least "
            f"one cell differs{versions}.",
            remedy="Restore the table as it was, or name the original: --data FILE.",
        )


def digest_for(folder: Path) -> RowDigest:
    """For a run that is resumed: with the key that it had before, if it had one."""
    known = KnownRows.read(folder)
    return RowDigest.draw() if known is None else known.digest


def keep_or_compare(folder: Path, source: Any) -> None:
    """Keeps the fingerprint of the rows that a run has read, or compares them with the one it keeps.

    Raises:
        IntegrityError: they are not the rows that it read before it was stopped.
    """
    known, found = KnownRows.read(folder), source.row_digest.total()
    if known is None:
        by_first(lambda: source.row_digest.write(folder, found))
    else:
        known.require_same(found, source.request.source)


def row_count_differs(folder: Path, table: str, found: int, known: int, of: str = "rows") -> IntegrityError:
    """The error for a table that was shortened or lengthened."""
    what = "shorter" if found < known else "longer"
    return IntegrityError(
        f"{table} is {what} than the table that {folder} was made from: {found:,} {of}, not {known:,}.",
        remedy="Restore the table as it was, or name the original: --data FILE.",
    )


def warn_unchecked(folder: Path, table: str, observer: Observer) -> None:
    """Says that nothing is known about the rows of a run."""
    observer.warn(
        f"{folder} keeps no fingerprint of its rows. Whether {table} is the table it was made from, in the "
        "same order, cannot be checked: if it is not, what follows is wrong."
    )


def _read(folder: Path) -> Any:
    path = folder / PRIVATE / FINGERPRINT
    try:
        with misfits_as(IntegrityError(f"{path} is damaged.", remedy="Restore it from a copy.")):
            return read_json_inside(folder, f"{PRIVATE}/{FINGERPRINT}", most=1 << 16)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.", remedy="Check who may read it.") from error
