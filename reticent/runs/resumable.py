"""What has to hold before a stopped run is resumed: the same command, version and data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reticent import __version__
from reticent.core.errors import DataError, IntegrityError
from reticent.runs.record import COMMANDS, RunKind, RunRecord
from reticent.runs.row_fingerprint import row_count_differs


def require_kind(kind: RunKind, folder: Path, record: RunRecord) -> None:
    """
    Raises:
        DataError: another command made it.
    """
    if record.kind != kind:
        raise DataError(
            f"{folder} holds a {record.kind}, not a {kind}.",
            remedy=f"Use: reticent {COMMANDS[record.kind]} --resume {folder}.",
        )


def require_resumable(folder: Path, record: RunRecord) -> None:
    """
    Raises:
        DataError: it has failed for good. IntegrityError: another version started it.
    """
    if record.state == "failed":
        raise DataError(
            f"The run in {folder} has failed for good: {record.failure}",
            remedy="Start a new run in another folder; what its preparation cost stays spent.",
        )
    version = record.versions.get("reticent")
    if version != __version__:
        raise IntegrityError(
            f"{folder} was started with version {version}, and this is {__version__}.",
            remedy="Resume it with that version, or start a new run in another folder.",
        )


def require_same_rows(folder: Path, record: RunRecord, source: Any) -> None:
    """
    Raises:
        IntegrityError: the table has more or fewer rows than when the run was started.
    """
    if source.rows != record.records:
        of = "users" if record.request.unit == "user" and not record.is_generator else "rows"
        raise row_count_differs(folder, source.request.source, source.rows, record.records, of)


def require_same_data(folder: Path, record: RunRecord, source: Any, *, is_priced: bool) -> None:
    """
    Args:
        source: the rows, opened.
        is_priced: whether the request still costs what was priced.

    Raises:
        IntegrityError: the table or the domain changed since the run was started; says which.
    """
    if not is_priced:
        raise IntegrityError(
            f"The domain of {folder} is not what the run was priced for.",
            remedy="Put it back as it was, or start a new run in another folder.",
        )
    if source.digest(record.number) != record.table:
        raise IntegrityError(
            f"{source.request.source} is not what the run was priced for in {folder}: rows were changed or "
            "reordered, or are written in another way.",
            remedy="Put the file back as it was, name the original (--data FILE), or start a new run in "
            "another folder.",
        )
