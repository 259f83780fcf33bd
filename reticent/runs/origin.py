"""Whether the folder of a run is this user's own: only then are the data and ledgers that it names opened.

A folder may come from a stranger, and name any file of whoever opens it. So a run that starts is marked in
its private part, with a key that stays in the user's configuration. Folders without the mark can be shown,
reported on and predicted with. `reticent trust RUN` says what one names, and marks it.

Guarantee:
    A mark is HMAC-SHA256 over the run's number, request, recipe, event and numbers of rows. Who does not have
    the key cannot make one, nor use that of one run for another request or another price.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

from reticent.core.errors import DataError
from reticent.core.files import read_json_inside, write_whole
from reticent.core.user_key import user_key
from reticent.mechanisms import events
from reticent.runs.json_values import finite, text
from reticent.runs.private_part import ORIGIN, PRIVATE, make_private
from reticent.runs.record import RunRecord


def mark_as_own(folder: Path, record: RunRecord) -> None:
    """Marks a run as made, or trusted, by this user.

    Raises:
        DataError: the mark or its key cannot be written.
    """
    make_private(folder)
    said = {"what": "says that this user made or trusts the run", "mark": _mark(record, user_key())}
    write_whole(folder / PRIVATE / ORIGIN, (json.dumps(said, indent=2) + "\n").encode(), is_private=True)


def is_own(folder: Path, record: RunRecord) -> bool:
    """Whether this user made the run, or trusts it."""
    try:
        found = text(read_json_inside(folder, f"{PRIVATE}/{ORIGIN}", most=1 << 16)["mark"])
        return hmac.compare_digest(found.encode(), _mark(record, user_key(may_create=False)).encode())
    except (OSError, DataError, ValueError, KeyError, TypeError):
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
    priced = [record.recipe.to_json(), events.to_json(record.event), record.records, record.rows]
    said = json.dumps(finite([record.number, record.kind, record.request.to_json(), *priced]), sort_keys=True)
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()
