"""Whether the folder of a run is this user's own: only then are the data and ledgers that it names opened.

A folder may come from a stranger, and name any file of whoever opens it. So a run that starts is marked in
its private part, with a key that stays in the user's configuration. Folders without the mark can be shown,
reported on and predicted with. `reticent trust RUN` says what one names, and marks it.

Guarantee:
    A mark is HMAC-SHA256 over the run's number and request. Who does not have the key cannot make one, nor
    use that of one run for another request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

from reticent.core.errors import DataError
from reticent.core.files import open_new, read_inside, write_whole
from reticent.runs.json_values import finite
from reticent.runs.private import PRIVATE, make_private
from reticent.runs.record import RunRecord

ORIGIN = "origin.json"

_KEY_BYTES = 32


def configuration() -> Path:
    """The folder of the user's configuration: `RETICENT_CONFIG`, or the usual one."""
    if named := os.environ.get("RETICENT_CONFIG"):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "reticent"


def mark_as_own(folder: Path, record: RunRecord) -> None:
    """Marks a run as made, or trusted, by this user.

    Raises:
        DataError: the mark or its key cannot be written.
    """
    make_private(folder)
    said = {"what": "says that this user made or trusts the run", "mark": _mark(record, _key())}
    write_whole(folder / PRIVATE / ORIGIN, (json.dumps(said, indent=2) + "\n").encode(), is_private=True)


def is_own(folder: Path, record: RunRecord) -> bool:
    """Whether this user made the run, or trusts it."""
    try:
        found = json.loads(read_inside(folder, f"{PRIVATE}/{ORIGIN}", most=1 << 16))["mark"]
        return hmac.compare_digest(str(found), _mark(record, _key(may_create=False)))
    except (OSError, DataError, ValueError, KeyError, TypeError, RecursionError):
        return False


def require_own(folder: Path, record: RunRecord) -> None:
    """
    Raises:
        DataError: the run is not this user's, and what it names is not opened.
    """
    if not is_own(folder, record):
        request = record.request
        named = [request.source, *([request.ledger] if request.ledger else [])]
        raise DataError(
            f"{folder} was not made by you on this machine, and names {' and '.join(map(repr, named))}.",
            remedy=f"If you know who made it and want these to be opened: reticent trust {folder}.",
        )


def _mark(record: RunRecord, key: bytes) -> str:
    said = json.dumps([record.number, record.kind, finite(record.request.to_json())], sort_keys=True)
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


def _key(*, may_create: bool = True) -> bytes:
    """This user's key; made when it is first needed."""
    folder = configuration()
    try:
        if may_create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(folder)
        key = read_inside(folder, "key", most=1 << 16)
    except OSError as error:
        raise DataError(
            f"Cannot keep a key in {folder}: {error.strerror}.",
            remedy="Set RETICENT_CONFIG to a folder that you may write to.",
        ) from error
    if len(key) != _KEY_BYTES:
        raise DataError(f"{folder / 'key'} is damaged.", remedy="Delete it; runs can be trusted anew.")
    return key


def _create(folder: Path) -> None:
    """A key appears whole or not at all, and never over one that another process has just made."""
    if (folder / "key").exists():
        return
    draft = folder / f".key.{secrets.token_hex(8)}"
    try:
        with open_new(draft, is_private=True) as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, folder / "key")
    finally:
        draft.unlink(missing_ok=True)
