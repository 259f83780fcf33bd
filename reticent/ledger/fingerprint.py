"""The content of a dataset as a keyed hash: equal data give equal fingerprints, and nothing else shows.

The hash is BLAKE2b under a random 256-bit key. Without the key its values cannot be told from random
numbers, so that who has the ledger, or an export of it, learns of two versions whether they are equal and
nothing about what they hold: not even a guess at the whole content can be confirmed. A hash without a key
would confirm such guesses. The key is therefore not in the ledger. It lies beside a ledger's file, as
`<ledger>.key`, and for a database in the user's configuration, as `ledger-<id>.key`: readable by its owner
only, and never exported. Keep it like the data.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError, Unavailable
from reticent.core.files import files_below
from reticent.core.user_key import configuration
from reticent.ledger.address import Address

_CHUNK = 1 << 22  # bytes hashed at once: a memory map is never read whole


def key_path(address: Address, ledger: str) -> Path:
    """Where the key of a ledger's fingerprints lies.

    Args:
        ledger: its id.
    """
    if isinstance(address, Path):
        return Path(f"{address}.key")
    return configuration() / f"ledger-{ledger}.key"


def read_key(path: Path, *, may_create: bool) -> bytes:
    """The key of a ledger's fingerprints; made on first use."""
    try:
        if may_create and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
        key = path.read_bytes()
    except OSError as error:
        raise Unavailable(
            f"Cannot read the key of the ledger's fingerprints, {path} ({error.strerror}).",
            remedy="Put a copy there, readable only by you: the person who charged this ledger first has it.",
        ) from None
    if len(key) != 32:
        raise DataError(f"{path} is not a key: it has {len(key)} bytes.", remedy="Put back the right one.")
    return key


def fingerprint_of_file(path: Path, key: bytes) -> str:
    """The fingerprint of a file: of its bytes, whatever they mean. Its name is not part of it.

    Of a folder: of its files, by their names in it.
    """
    hashed = hashlib.blake2b(key=key, digest_size=32, person=b"reticent file")
    try:
        if path.is_dir():
            for name in files_below(path):
                hashed.update(f"{len(os.fsencode(name))}:".encode() + os.fsencode(name))
                with open(path / name, "rb") as file:
                    found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32))
                hashed.update(found.digest())
            return f"{_mark(key)}-{hashed.hexdigest()}"
        with open(path, "rb") as file:
            while part := file.read(_CHUNK):
                hashed.update(part)
    except OSError as error:
        raise Unavailable(f"Cannot read {path} ({error.strerror}).", remedy="Check the name.") from None
    return f"{_mark(key)}-{hashed.hexdigest()}"


def fingerprint(arrays: Any, key: bytes) -> str:
    """The fingerprint of named arrays (or of one array): names, types, shapes and every byte.

    It starts with a mark of the key, so that fingerprints under another key are not taken for other data.
    """
    hashed = hashlib.blake2b(key=key, digest_size=32, person=b"reticent data")
    for name, array in sorted(_by_name(arrays).items()):
        values = _as_bytes_like(name, array)
        for word in (name, values.dtype.str, str(values.shape)):
            hashed.update(len(word.encode()).to_bytes(8, "little") + word.encode())
        _update(hashed, values)
    return f"{_mark(key)}-{hashed.hexdigest()}"


def _mark(key: bytes) -> str:
    return hashlib.blake2b(b"key", key=key, digest_size=4, person=b"reticent mark").hexdigest()


def _create(path: Path) -> None:
    """Appears whole or not at all, and never over a key that another process has just made."""
    draft = Path(f"{path}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _by_name(arrays: Any) -> Mapping[str, Any]:
    held = getattr(arrays, "arrays", arrays)  # a Dataset holds them under this name
    if isinstance(held, Mapping):
        users = getattr(arrays, "users", None)
        return {**held, **({} if users is None else {"\0users": users})}
    return {"": held}


def _as_bytes_like(name: str, array: Any) -> np.ndarray:
    values = np.asarray(array)
    if values.dtype.kind == "T":  # strings of any length: the array holds pointers, not characters
        texts = [str(text).encode() for text in values.ravel()]
        joined = b"".join(len(text).to_bytes(8, "little") + text for text in texts)
        return np.frombuffer(joined, dtype=np.uint8)
    if values.dtype.hasobject:
        raise DataError(
            f"The array '{name}' holds Python objects, which have no bytes to fingerprint.",
            remedy="Give it as numbers or as text.",
        )
    return values


def _update(hashed: Any, values: np.ndarray) -> None:
    if values.ndim == 0 or values.size == 0:
        hashed.update(values.tobytes())
        return
    rows = max(1, _CHUNK // max(values[:1].nbytes, 1))
    for start in range(0, len(values), rows):
        hashed.update(np.ascontiguousarray(values[start : start + rows]).tobytes())
