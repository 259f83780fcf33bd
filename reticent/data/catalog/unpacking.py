"""The bytes inside a file: unzipped, taken out of an archive, or a clear error.

Nothing is ever unpickled and no archive is ever unpacked to disk, so a file from a stranger may be
wrong, but cannot run code or write files.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reticent.core.errors import IntegrityError, Unavailable

_GZIP_MAGIC = b"\x1f\x8b"
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError)


def damage_error(path: Path, what: str) -> IntegrityError:
    """The error for a file that is not what it should be: `mnist.gz is cut short. Replace it ...`."""
    return IntegrityError(
        f"{path} {what}.",
        remedy="Replace it with a good copy, or delete it and fetch it again: reticent datasets get NAME",
    )


def read_bytes(path: Path) -> bytes:
    """Everything in a file, unzipped if it is gzipped, whatever its name says."""
    try:
        stored = path.read_bytes()
        return gzip.decompress(stored) if stored.startswith(_GZIP_MAGIC) else stored
    except _BROKEN as error:
        raise damage_error(path, f"is cut short or damaged ({error})") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def read_text(path: Path) -> str:
    """Everything in a file as UTF-8 text, unzipped if it is gzipped."""
    return decode_text(path, read_bytes(path))


def decode_text(path: Path, stored: bytes) -> str:
    try:
        return stored.decode("utf-8")
    except UnicodeDecodeError as error:
        raise damage_error(path, f"is not UTF-8 at byte {error.start:,}") from error


def tar_members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Some members of a tar archive, read in one pass and in memory only.

    A member that is a link, a folder or a device counts as missing.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, mode="r:*") as archive:
            for member in archive:
                if member.name in names and member.isfile() and (body := archive.extractfile(member)):
                    found[member.name] = body.read()
    except _BROKEN as error:
        raise damage_error(path, f"is cut short or damaged ({error})") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise damage_error(path, f"has no member {', '.join(missing)}")
    return found


def npz_arrays(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Some arrays of an npz archive. An array that would have to be unpickled is refused."""
    try:
        with path.open("rb") as stored, np.load(stored, allow_pickle=False) as archive:
            missing = [name for name in names if name not in archive.files]
            if missing:
                raise damage_error(path, f"has no array {', '.join(missing)}")
            return [archive[name] for name in names]
    except (*_BROKEN, ValueError, TypeError, AttributeError) as error:
        raise damage_error(path, f"is not an npz archive that can be read ({error})") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
        remedy="Check that the file is there and that you may read it.",
    )
