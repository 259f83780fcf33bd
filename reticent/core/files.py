"""Files that are either complete or absent, and their digests."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from reticent.core import strict_json
from reticent.core.errors import DataError, ReticentError

# What code raises that puts values together, when one of them is not what it should be.
MISFITS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
PIECES = 64  # of a file, shared out among the processes that take its digest
_ENDS = 1 << 20  # bytes
_AT_ONCE = 1 << 22  # bytes


@contextmanager
def whole_file(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Opens a file for writing that gets its name once it is complete; the old one stays until then.

    It is written under a name that nobody can guess, in the same folder, and never through a symbolic link:
    a link at `path` is replaced, and what it points to is left alone.

    Args:
        is_private: only this user may read it.

    Raises:
        DataError: the disk is full, or the folder may not be written to; nothing is left behind.
    """
    partial = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.partial")
    try:
        try:
            with open_new(partial, is_private=is_private) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            _sync_folder(path.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Free some space on that disk."
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Check that its folder exists and that you may write there.",
        ) from error


def open_new(path: Path, *, is_private: bool = False) -> BinaryIO:
    """Creates a file and opens it for writing; fails if anything is there, even a symbolic link.

    Raises:
        FileExistsError: there is something of that name.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600 if is_private else 0o666), "wb")


def write_whole(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Writes a file so that after a crash it has all of the new content, or all of the old.

    Raises:
        DataError: the disk is full, or the folder may not be written to; the old content stays.
    """
    with whole_file(path, is_private=is_private) as file:
        file.write(content)


def read_inside(folder: Path, name: str, *, most: int = 1 << 24) -> bytes:
    """Reads a file in a folder that may be a stranger's; nothing outside of the folder is read.

    Args:
        name: of the file, or of folders and the file in them.
        most: bytes that are read at most.

    Raises:
        OSError: it is not there or may not be read; ELOOP if it, or a folder on the way to it below `folder`,
            is a symbolic link; EISDIR or EINVAL if it is not a plain file, EFBIG if it is larger than `most`.
    """
    with _open_inside(folder, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"Larger than {most:,} bytes")
        return file.read(size)  # no more, though somebody may write to it


def read_start_inside(folder: Path, name: str, length: int) -> bytes:
    """Reads the first bytes of a file in a folder that may be a stranger's; fewer if it is shorter.

    Raises:
        OSError: as `read_inside`, but for its size.
    """
    with _open_inside(folder, name) as file:
        return file.read(length)


def _open_inside(folder: Path, name: str) -> BufferedReader:
    *above, last = Path(name).parts
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in above:
            below = _open_below(at, part, os.O_DIRECTORY)
            os.close(at)
            at = below
        opened = _open_below(at, last, os.O_NONBLOCK)  # a pipe would wait for somebody to write
    finally:
        os.close(at)
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        os.close(opened)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "Not a plain file")
    return os.fdopen(opened, "rb")


def read_named(path: Path, *, most: int = 1 << 26) -> bytes:
    """Reads a file that the user named: links are followed, and a pipe is read to its end.

    Raises:
        OSError: it is not there or may not be read; EFBIG if it holds more than `most` bytes.
    """
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"Larger than {most:,} bytes")
    return content


def read_json_inside(folder: Path, name: str, *, most: int = 1 << 24) -> Any:
    """Reads the JSON in a file of a folder that may be a stranger's.

    Raises:
        OSError: as `read_inside`. ValueError: as `strict_json.parse`.
    """
    return strict_json.parse(read_inside(folder, name, most=most))


@contextmanager
def misfits_as(error: ReticentError) -> Iterator[None]:
    """Raises this error instead of whatever Python raises for a file that contradicts itself.

    For code that builds objects from the values of a file: an argument out of its range, a name that is not
    there, a shape that does not match. An error that names a file itself (`DataError`) is left as it is.
    """
    try:
        yield
    except MISFITS as cause:
        raise error from cause


def _open_below(folder: int, name: str, flags: int) -> int:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise OSError(errno.ELOOP, "It is a symbolic link, which is not followed")
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)


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


def digest_of_file(path: Path, *, most: int = 1 << 30) -> str:
    """The SHA-256 digest of a file that may be a stranger's, in hexadecimal.

    Raises:
        OSError: as `read_inside`.
    """
    with _open_inside(path.parent, path.name) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"Larger than {most:,} bytes")
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(folder: Path) -> list[str]:
    """The names of all plain files below a folder, in their order; links are left out."""
    found = []
    for above, folders, names in os.walk(folder):
        folders.sort()
        inside = Path(above).relative_to(folder)
        found += [
            (inside / name).as_posix() for name in names if not os.path.islink(os.path.join(above, name))
        ]
    return sorted(found)


def digest_of_piece(path: Path, piece: int, key: str) -> str:
    """The keyed digest of one of the `PIECES` of a file, or of a folder's files with their names."""
    hashed = hashlib.blake2b(key=key.encode(), digest_size=16)
    if path.is_dir():
        for name in files_below(path)[piece::PIECES]:
            hashed.update(f"{len(os.fsencode(name))}:".encode() + os.fsencode(name))
            with open(path / name, "rb") as file:
                hashed.update(hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest())
        return hashed.hexdigest()
    size = os.path.getsize(path)
    at, end = size * piece // PIECES, size * (piece + 1) // PIECES
    with open(path, "rb") as file:
        file.seek(at)
        while at < end and (content := file.read(min(_AT_ONCE, end - at))):
            hashed.update(content)
            at += len(content)
    return hashed.hexdigest()


def digest_of_ends(path: Path) -> str:
    """Tells copies of a file apart that differ in their first or last megabyte, without reading the rest.

    Of a folder it takes the names and sizes of its files.
    """
    if path.is_dir():
        sizes = [(name, os.path.getsize(path / name)) for name in files_below(path)]
        return hashlib.blake2b(repr(sizes).encode(), digest_size=16).hexdigest()
    with open(path, "rb") as file:
        first = file.read(_ENDS)
        file.seek(max(os.path.getsize(path) - _ENDS, 0))
        return hashlib.blake2b(first + file.read(_ENDS), digest_size=16).hexdigest()
