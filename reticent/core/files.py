"""Files that are whole or not there, and their digests."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from reticent.core.errors import DataError

PIECES = 64  # of a file, shared out among the processes that take its digest
_ENDS = 1 << 20  # bytes
_AT_ONCE = 1 << 22  # bytes


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that after a crash it has all of the new content, or all of the old.

    Raises:
        DataError: the disk is full, or the folder may not be written to; the old content stays.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        try:
            with open(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            _sync_folder(path.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Make room on that disk."
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "See that its folder is there, and that you may write there.",
        ) from error


def write_json(path: Path, value: Any) -> None:
    """Writes plain values as JSON, in one piece; refuses NaN and infinity, which JSON does not have."""
    write_whole(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def _sync_folder(folder: Path) -> None:
    """The new name itself is on the disk only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(content: bytes) -> str:
    """The SHA-256 digest of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of_file(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_piece(path: Path, piece: int, key: str) -> str:
    """The keyed digest of one of the `PIECES` of a file."""
    hashed = hashlib.blake2b(key=key.encode(), digest_size=16)
    size = os.path.getsize(path)
    at, end = size * piece // PIECES, size * (piece + 1) // PIECES
    with open(path, "rb") as file:
        file.seek(at)
        while at < end and (content := file.read(min(_AT_ONCE, end - at))):
            hashed.update(content)
            at += len(content)
    return hashed.hexdigest()


def digest_of_ends(path: Path) -> str:
    """Tells copies of a file apart that differ in their first or last megabyte, without reading the rest."""
    with open(path, "rb") as file:
        first = file.read(_ENDS)
        file.seek(max(os.path.getsize(path) - _ENDS, 0))
        return hashlib.blake2b(first + file.read(_ENDS), digest_size=16).hexdigest()
